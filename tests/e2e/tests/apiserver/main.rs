//! The chart and the operator against an API server alone.

use std::process::ExitCode;

use lockstep_tests_e2e::{
    lone::{LoneSite, SCENARIOS},
    runner,
};

fn main() -> ExitCode {
    runner::run(&[], SCENARIOS, LoneSite::start)
}
