//! Runs scenarios with real servers one by one: all, or those whose name contains one of the program's arguments; with
//! `--skip=PART` those whose name does not contain that.
#![allow(clippy::print_stdout, reason = "this program reports on its output")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

/// A scenario that can be named, chosen and judged. `K` says which servers it wants, `S` are such servers when they run,
/// and `P` is how much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scenario<K, S, P> {
    /// Its name.
    pub name: &'static str,
    /// The servers it wants: those of neighbours in the list are shared.
    pub servers: K,
    /// What it does; it panics when the promise was broken, and gives a line to report.
    pub run: fn(&S, &P) -> String,
}

/// Runs the wanted ones in their order; without a plan nobody asked for them.
pub fn run<K, S, P>(scenarios: &[Scenario<K, S, P>], start: fn(K) -> S, plan: Option<P>) -> ExitCode
where
    K: Copy + PartialEq,
{
    let Some(plan) = plan else {
        println!(
            "not asked: real brokers are tested by `bash tests/run.sh brokers` (LOCKSTEP_BROKERS=normal)"
        );
        return ExitCode::SUCCESS;
    };
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let skipped: Vec<String> =
        std::env::args().filter_map(|argument| argument.strip_prefix("--skip=").map(str::to_owned)).collect();
    let has = |name: &str, parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
    let is_wanted = |name: &str| (wanted.is_empty() || has(name, &wanted)) && !has(name, &skipped);
    let mut failed = Vec::new();
    let mut count = 0;
    let mut site: Option<(K, S)> = None;
    for scenario in scenarios.iter().filter(|scenario| is_wanted(scenario.name)) {
        count += 1;
        let since = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if site.as_ref().is_none_or(|(servers, _)| *servers != scenario.servers) {
                // The old servers end before the new ones start: memory is scarce on small machines.
                site = None;
                site = Some((scenario.servers, start(scenario.servers)));
            }
            site.as_ref().map(|(_, site)| (scenario.run)(site, &plan)).unwrap_or_default()
        }));
        let seconds = since.elapsed().as_secs();
        match outcome {
            Ok(report) => println!("{} passed in {seconds} s: {report}", scenario.name),
            Err(_) => {
                println!("{} FAILED after {seconds} s", scenario.name);
                failed.push(scenario.name);
                // Whatever it left behind must not touch the next one.
                site = None;
            }
        }
    }
    let (verdict, passed) = (if failed.is_empty() { "ok" } else { "FAILED" }, count - failed.len());
    println!("test result: {verdict}. {passed} passed; {} failed: {failed:?}", failed.len());
    if failed.is_empty() && count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
