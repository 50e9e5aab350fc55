//! The chart, the operator and its pods in a whole cluster.

use std::process::ExitCode;

use lockstep_tests_e2e::{
    runner,
    site::Site,
    whole::{ALONE, BESIDE},
};

fn main() -> ExitCode {
    runner::run(BESIDE, ALONE, Site::start)
}
