//! Runs the scenarios one by one: all, or those whose name contains one of the arguments.
#![allow(clippy::print_stdout, reason = "this program reports on its output")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use lockstep_tests_rocketmq::{SCENARIOS, Scenario, plan::Plan, world::Servers, world::Site};

fn main() -> ExitCode {
    let Some(plan) = Plan::from_environment() else {
        println!(
            "not asked: real brokers are tested by `bash tests/run.sh brokers` (LOCKSTEP_BROKERS=normal)"
        );
        return ExitCode::SUCCESS;
    };
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |scenario: &&Scenario| {
        wanted.is_empty() || wanted.iter().any(|part| scenario.name.contains(part.as_str()))
    };
    let mut failed = Vec::new();
    let mut count = 0;
    let mut site: Option<(Servers, Site)> = None;
    for scenario in SCENARIOS.iter().filter(is_wanted) {
        count += 1;
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if site.as_ref().is_none_or(|(servers, _)| *servers != scenario.servers) {
                // The old servers end before the new ones start: memory is scarce on small machines.
                site = None;
                site = Some((scenario.servers, scenario.servers.start()));
            }
            site.as_ref().map(|(_, site)| (scenario.run)(site, &plan)).unwrap_or_default()
        }));
        let seconds = start.elapsed().as_secs();
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
