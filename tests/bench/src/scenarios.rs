//! The measurements, each interleaved with its baseline.

use std::{path::PathBuf, time::Duration};

use crate::{
    Result, app,
    args::Args,
    children::Own,
    latency, measure,
    peers::{self, Folder, Group, Sample, Window},
    rocketmq::Filled,
    table::{self, Pairs},
};

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

/// Runs the table. Arguments: sidecar, folder, pairs, seconds, java (class path), only (a word of the
/// measurement's name).
pub(crate) async fn run(args: &Args) -> Result<()> {
    let setting = Setting {
        sidecar: args.text("sidecar").ok_or("sidecar=PATH of the released binary is missing")?.into(),
        folder: Folder::new(args.text("folder").ok_or("folder=PATH is missing")?.into())?,
        pairs: args.get("pairs", 8)?,
        window: Window { warm: 2_000, length: Duration::from_secs(args.get("seconds", 3)?) },
    };
    let only = args.text("only").unwrap_or("");
    println!("{}", table::head());
    let wanted = |name: &str| name.contains(only);
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
        for line in real(&setting, args.text("java")).await? {
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

fn stub_group(stub: &Own, mode: &'static str, max_in_flight: u32) -> Group<'static> {
    let name_server = format!("127.0.0.1:{}", stub.port());
    Group { name_server, topic: "bench", group: "bench".to_owned(), mode, max_in_flight }
}

async fn base_sample(setting: &Setting, connections: u32) -> Result<Sample> {
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

/// Real RocketMQ, one queue filled beforehand: against B0, and against the plain Java consumer.
async fn real(setting: &Setting, java: Option<&str>) -> Result<Vec<String>> {
    let cluster = tokio::task::spawn_blocking(Filled::start).await?;
    let (mut to_base, mut to_java) = (Pairs::default(), Pairs::default());
    for pair in 0..setting.pairs {
        let base = base_sample(setting, 1).await?;
        let side = real_sample(setting, &cluster, pair, None).await?;
        to_base.base.push(base);
        to_base.side.push(side);
        if let Some(class_path) = java {
            to_java.base.push(real_sample(setting, &cluster, pair, Some(class_path)).await?);
            to_java.side.push(side);
        }
    }
    let mut lines =
        vec![to_base.throughput("real RocketMQ pre-filled, 1 queue / B0, 1 connection", 0.45, 0.60)];
    if java.is_some() {
        lines.push(to_java.throughput("real RocketMQ, 1 queue / plain Java orderly consumer", 1.3, 2.0));
        lines.push(to_java.below("CPU a message / plain Java", |s| s.cpu_micros, 0.6, 0.35));
        lines.push(to_java.below("peak resident memory / plain Java", table::mb, 0.125, 0.067));
    }
    Ok(lines)
}

async fn real_sample(setting: &Setting, cluster: &Filled, pair: usize, java: Option<&str>) -> Result<Sample> {
    let app = Own::start("app", &["order=0".to_owned()]).await?;
    let side = if java.is_some() { "java" } else { "lockstep" };
    let group = cluster.group(format!("bench-{side}-{pair}-{}", app::now_nanos()));
    let mut process = match java {
        Some(class_path) => peers::java(class_path, &setting.folder, &group, app.port())?,
        None => peers::sidecar(&setting.sidecar, &setting.folder, &group, app.port())?,
    };
    peers::sample(&mut process, &app, setting.window).await
}
