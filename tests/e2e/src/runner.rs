//! Runs scenarios one by one: all, or those whose name contains one of the program's arguments.
#![allow(clippy::print_stdout, reason = "this program reports on its output")]

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use crate::plan::Plan;

/// A scenario that can be named, chosen and judged. `S` is what scenarios share.
#[derive(Debug)]
pub struct Scenario<S> {
    /// Its name.
    pub name: &'static str,
    /// What it does; it panics when something is wrong, and gives a line to report.
    pub run: fn(&S, &Plan) -> String,
}

/// Runs the wanted ones of `scenarios` against one site, made when it is first needed.
pub fn run<S>(scenarios: &[Scenario<S>], start: fn() -> S) -> ExitCode {
    let Some(plan) = Plan::from_environment() else {
        println!("not asked: clusters are tested by `bash tests/run.sh cluster` (LOCKSTEP_CLUSTER=normal)");
        return ExitCode::SUCCESS;
    };
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |scenario: &&Scenario<S>| {
        wanted.is_empty() || wanted.iter().any(|part| scenario.name.contains(part.as_str()))
    };
    let (mut passed, mut failed) = (0, Vec::new());
    let mut site = None;
    for scenario in scenarios.iter().filter(is_wanted) {
        let since = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let site = site.get_or_insert_with(start);
            (scenario.run)(site, &plan)
        }));
        let seconds = since.elapsed().as_secs();
        if let Ok(report) = outcome {
            passed += 1;
            println!("{} passed in {seconds} s: {report}", scenario.name);
        } else {
            println!("{} FAILED after {seconds} s", scenario.name);
            failed.push(scenario.name);
        }
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {} failed: {failed:?}", failed.len());
    if failed.is_empty() && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
