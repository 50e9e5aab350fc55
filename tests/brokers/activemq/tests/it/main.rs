//! Runs the scenarios.

use std::process::ExitCode;

use lockstep_tests_activemq::{SCENARIOS, plan::Plan, site::Servers};
use lockstep_tests_support::runner;

fn main() -> ExitCode {
    runner::run(SCENARIOS, Servers::start, Plan::from_environment())
}
