//! Added latency in an open loop: from the stub's write to the application's read, less what the client alone takes.

use std::time::Duration;

use crate::{
    Result,
    children::{self, Own},
    peers::{self, Folder},
    scenarios::{self, Setting},
    statistics::{median, percentile},
    table,
};

/// Messages a second.
const RATE: u64 = 1_000;
/// Messages of one run; the first tenth only warms up.
const COUNT: u64 = 3_000;

/// Prints two lines: the median over the runs of p50 and of p99.
pub(crate) async fn measure(setting: &Setting, runs: usize) -> Result<Vec<String>> {
    let (mut halves, mut tails) = (Vec::new(), Vec::new());
    let interval = format!("interval_us={}", 1_000_000 / RATE);
    for _ in 0..runs {
        let base = client(&setting.folder, &interval).await?;
        let side = sidecar(setting, &interval).await?;
        halves.push((percentile(&side, 50) - percentile(&base, 50)) / 1e3);
        tails.push((percentile(&side, 99) - percentile(&base, 50)) / 1e3);
    }
    let line = |name: &str, values: &[f64], floor: f64, aim: f64| {
        table::plain(
            &format!("added latency at {RATE}/s, {name}, median of {runs} runs"),
            median(values),
            "us",
            floor,
            aim,
        )
    };
    Ok(vec![line("p50", &halves, 200.0, 60.0), line("p99", &tails, 2_000.0, 500.0)])
}

async fn client(folder: &Folder, interval: &str) -> Result<Vec<f64>> {
    let app = Own::start("app", &["latency=1".to_owned()]).await?;
    let more = [interval.to_owned(), format!("count={COUNT}")];
    let mut process = peers::client_loop(folder, 1, app.port(), &more)?;
    finish(&app, &mut process).await
}

async fn sidecar(setting: &Setting, interval: &str) -> Result<Vec<f64>> {
    let app = Own::start("app", &["latency=1".to_owned()]).await?;
    let stub = Own::start("stub", &[interval.to_owned(), format!("messages={COUNT}")]).await?;
    let group = scenarios::stub_group(&stub, "PerQueue", 32);
    let mut process = peers::sidecar(&setting.sidecar, &setting.folder, &group, app.port())?;
    finish(&app, &mut process).await
}

async fn finish(app: &Own, process: &mut children::Process) -> Result<Vec<f64>> {
    let limit = Duration::from_secs(60);
    // B0 ends by itself after its last message, so the last one is not waited for with a living process.
    children::until_seen(app.port(), COUNT - 1, process, limit).await?;
    let seen = children::seen(app.port()).await?;
    let warm = seen.latencies.len() / 10;
    Ok(seen.latencies.iter().skip(warm).map(|n| f64::from(u32::try_from(*n).unwrap_or(u32::MAX))).collect())
}
