//! The measurements, each interleaved with its baseline.

use std::{path::PathBuf, time::Duration};

use crate::{
    Result, activemq,
    args::Args,
    children::Own,
    latency, measure,
    peers::{self, Folder, Group, Sample, Window},
    rabbitmq, rocketmq,
    table::{self, Pairs},
};

/// The rows that can be chosen.
const ROWS: &[&str] = &["strict", "wide", "keys", "latency", "idle", "rocketmq", "rabbitmq", "activemq"];

/// What every measurement needs.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The released sidecar binary.
    pub(crate) sidecar: PathBuf,
    /// For manifests and logs.
    pub(crate) folder: Folder,
    /// Pairs of each measurement.
    pub(crate) pairs: usize,
    /// One measurement's window.
    pub(crate) window: Window,
}

/// Runs the table. Arguments: sidecar, folder, pairs, seconds, `rocketmq_java`, `rabbitmq_java` and `activemq_java` (class
/// paths), only
/// (rows, with commas between them).
pub(crate) async fn run(args: &Args) -> Result<()> {
    let setting = Setting {
        sidecar: args.text("sidecar").ok_or("sidecar=PATH of the released binary is missing")?.into(),
        folder: Folder::new(args.text("folder").ok_or("folder=PATH is missing")?.into())?,
        pairs: args.get("pairs", 8)?,
        window: Window { warm: 2_000, length: Duration::from_secs(args.get("seconds", 3)?) },
    };
    let only: Vec<&str> = args.text("only").unwrap_or("").split(',').filter(|row| !row.is_empty()).collect();
    if let Some(unknown) = only.iter().find(|row| !ROWS.contains(row)) {
        return Err(format!("no rows are named {unknown:?}: choose from {}", ROWS.join(", ")).into());
    }
    let wanted = |row: &str| only.is_empty() || only.contains(&row);
    if let Some(rate) = wrk(&setting).await? {
        println!("wrk, 1 connection, no broker: {rate}\n");
    }
    println!("{}", table::head());
    if wanted("strict") {
        let pairs = stub_pairs(&setting, 1, 32).await?;
        println!("{}", pairs.throughput("strict queue, stub / B0, 1 connection", 0.75, 0.90));
    }
    if wanted("wide") {
        let pairs = stub_pairs(&setting, 64, 64).await?;
        println!("{}", pairs.throughput("64 queues, stub / B0, 64 connections", 0.70, 0.85));
    }
    if wanted("keys") {
        println!("{}", per_key(&setting).await?);
    }
    if wanted("latency") {
        for line in latency::measure(&setting, setting.pairs.max(10)).await? {
            println!("{line}");
        }
    }
    if wanted("idle") {
        println!("{}", idle(&setting).await?);
    }
    if wanted("rocketmq") {
        for line in rocketmq::measure(&setting, args.text("rocketmq_java")).await? {
            println!("{line}");
        }
    }
    if wanted("rabbitmq") {
        for line in rabbitmq::measure(&setting, args.text("rabbitmq_java")).await? {
            println!("{line}");
        }
    }
    if wanted("activemq") {
        for line in activemq::measure(&setting, args.text("activemq_java")).await? {
            println!("{line}");
        }
    }
    Ok(())
}

/// What wrk, where it is installed, says of the fixed application: the machine's own limit, for orientation.
async fn wrk(setting: &Setting) -> Result<Option<String>> {
    let script = setting.folder.file("post.lua");
    std::fs::write(&script, "wrk.method = 'POST'\nwrk.body = string.rep('x', 1024)\n")?;
    let app = Own::start("app", &[]).await?;
    let url = format!("http://127.0.0.1:{}/messages", app.port());
    let mut command = tokio::process::Command::new("wrk");
    command.args(["-t1", "-c1", "-d3s", "-s"]).arg(script).arg(url);
    let Ok(output) = command.output().await else { return Ok(None) };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().find(|line| line.contains("Requests/sec")).map(|line| line.trim().to_owned()))
}

/// A group that consumes from a stub.
pub(crate) fn stub_group(stub: &Own, mode: &'static str, max_in_flight: u32) -> Group {
    let source = rocketmq::source(&format!("127.0.0.1:{}", stub.port()), "bench");
    Group { source, mode, max_in_flight }
}

/// B0 with so many connections.
pub(crate) async fn base_sample(setting: &Setting, connections: u32) -> Result<Sample> {
    let app = Own::start("app", &[]).await?;
    let mut process = peers::client_loop(&setting.folder, connections, app.port(), &[])?;
    peers::sample(&mut process, &app, setting.window).await
}

async fn stub_sample(setting: &Setting, queues: u32, max_in_flight: u32) -> Result<Sample> {
    let app = Own::start("app", &[]).await?;
    let stub = Own::start("stub", &[format!("queues={queues}"), "messages=100000000".to_owned()]).await?;
    let group = stub_group(&stub, "PerQueue", max_in_flight);
    let mut process = peers::sidecar(&setting.sidecar, &setting.folder, &group, app.port())?;
    peers::sample(&mut process, &app, setting.window).await
}

/// Base and side in the order ABBA, so that a drift of the machine hits both alike.
async fn stub_pairs(setting: &Setting, queues: u32, max_in_flight: u32) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    for pair in 0..setting.pairs {
        if pair % 2 == 0 {
            pairs.base.push(base_sample(setting, queues).await?);
            pairs.side.push(stub_sample(setting, queues, max_in_flight).await?);
        } else {
            pairs.side.push(stub_sample(setting, queues, max_in_flight).await?);
            pairs.base.push(base_sample(setting, queues).await?);
        }
    }
    Ok(pairs)
}

/// `PerKey` with 32 keys and an application that takes 10 ms, against 32 messages every 10 ms.
async fn per_key(setting: &Setting) -> Result<String> {
    let mut pairs = Pairs::default();
    for _ in 0..setting.pairs.min(4) {
        let app = Own::start("app", &["delay_ms=10".to_owned(), "order=0".to_owned()]).await?;
        let stub = Own::start("stub", &["keys=32".to_owned(), "messages=100000000".to_owned()]).await?;
        let group = stub_group(&stub, "PerKey", 32);
        let mut process = peers::sidecar(&setting.sidecar, &setting.folder, &group, app.port())?;
        let side = peers::sample(&mut process, &app, setting.window).await?;
        pairs.base.push(Sample { rate: 3_200.0, cpu_micros: side.cpu_micros, peak_kib: side.peak_kib });
        pairs.side.push(side);
    }
    Ok(pairs.throughput("PerKey, 10 ms application, 32 keys / ideal", 0.85, 0.95))
}

/// Resident memory of a sidecar that owns a queue without messages.
async fn idle(setting: &Setting) -> Result<String> {
    let app = Own::start("app", &[]).await?;
    let stub = Own::start("stub", &["messages=1".to_owned()]).await?;
    let group = stub_group(&stub, "PerQueue", 32);
    let mut process = peers::sidecar(&setting.sidecar, &setting.folder, &group, app.port())?;
    crate::children::until_seen(app.port(), 1, &mut process, Duration::from_secs(30)).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let kib = f64::from(u32::try_from(measure::resident_kib(process.pid())?)?);
    Ok(table::plain("idle resident memory", kib / 1024.0, "MB", 12.0, 6.0))
}
