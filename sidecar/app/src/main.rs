//! The sidecar's binary: reads the command line and does what it says.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};
use lockstep_contract::EX_USAGE;
use lockstep_sidecar::{args::Cli, commands};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match commands::dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody reads a closed standard error.
            writeln!(io::stderr(), "lockstep-sidecar: {}", failure.message()).ok();
            failure.exit_code()
        }
    }
}

/// Help and version are answers, all else is a mistake in the arguments.
fn explain(error: &clap::Error) -> ExitCode {
    error.print().ok();
    match matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EX_USAGE),
    }
}
