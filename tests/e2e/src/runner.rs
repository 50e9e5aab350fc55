//! Runs scenarios: all, or those whose name contains one of the program's arguments.
#![allow(clippy::print_stdout, reason = "this program reports on its output")]

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
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

/// How many scenarios run beside each other where they may: mostly they wait.
const BESIDE: usize = 3;

/// Runs the wanted ones against one site: those in `beside` a few at a time, and then those in `alone` one by one, since
/// they bear no other. A site that does not come up is not tried again.
pub fn run<S: Sync>(beside: &[Scenario<S>], alone: &[Scenario<S>], start: fn() -> S) -> ExitCode {
    let Some(run) = Run::asked() else { return ExitCode::SUCCESS };
    if !beside.iter().chain(alone).any(|scenario| run.wants(scenario.name)) {
        return run.verdict();
    }
    let since = Instant::now();
    let Ok(site) = catch_unwind(start) else {
        println!("the site FAILED after {} s", since.elapsed().as_secs());
        return ExitCode::FAILURE;
    };
    println!("the site is ready after {} s", since.elapsed().as_secs());
    let left = Mutex::new(beside.iter().filter(|scenario| run.wants(scenario.name)));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                while let Some(scenario) = next() {
                    run.scenario(scenario.name, |plan| (scenario.run)(&site, plan));
                }
            });
        }
    });
    for scenario in alone.iter().filter(|scenario| run.wants(scenario.name)) {
        run.scenario(scenario.name, |plan| (scenario.run)(&site, plan));
    }
    run.verdict()
}

/// A run and what came of it so far.
#[derive(Debug)]
struct Run {
    plan: Plan,
    wanted: Vec<String>,
    /// How many passed, and which failed.
    outcomes: Mutex<(usize, Vec<&'static str>)>,
}

impl Run {
    /// `None` when nobody asked for it.
    fn asked() -> Option<Self> {
        let Some(plan) = Plan::from_environment() else {
            println!(
                "not asked: clusters are tested by `bash tests/run.sh cluster` (LOCKSTEP_CLUSTER=normal)"
            );
            return None;
        };
        let wanted = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        Some(Self { plan, wanted, outcomes: Mutex::default() })
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| name.contains(part.as_str()))
    }

    fn scenario(&self, name: &'static str, work: impl FnOnce(&Plan) -> String) {
        let since = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&self.plan)));
        let seconds = since.elapsed().as_secs();
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(report) = outcome {
            outcomes.0 += 1;
            println!("{name} passed in {seconds} s: {report}");
        } else {
            println!("{name} FAILED after {seconds} s");
            outcomes.1.push(name);
        }
    }

    fn verdict(&self) -> ExitCode {
        let (passed, failed) = &*self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
        println!("test result: {verdict}. {passed} passed; {} failed: {failed:?}", failed.len());
        if failed.is_empty() && *passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
