//! The operator's binary: reads the command line and does what it says.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};
use lockstep_contract::EX_USAGE;
use lockstep_operator::{
    args::{Cli, Command, RunArgs},
    render, run,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match cli.command {
        Command::Run(args) => serve(args),
        Command::Crd => print(&lockstep_crds::yaml()),
        Command::Render(args) => match render::command(&args) {
            Ok(rendered) => {
                complain(&rendered.notices);
                print(&rendered.yaml)
            }
            Err(error) => fail(&error, error.exit_code()),
        },
    }
}

fn serve(args: RunArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run::run(args)),
        Err(error) => return fail(&format!("failed to start: {error}"), ExitCode::FAILURE),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, ExitCode::FAILURE),
    }
}

fn print(text: &str) -> ExitCode {
    // Nobody reads a closed standard output.
    write!(io::stdout(), "{text}").ok();
    ExitCode::SUCCESS
}

fn complain(notices: &[String]) {
    for notice in notices {
        writeln!(io::stderr(), "lockstep-operator: note: {notice}").ok();
    }
}

fn fail(error: &dyn std::fmt::Display, code: ExitCode) -> ExitCode {
    // Nobody reads a closed standard error.
    writeln!(io::stderr(), "lockstep-operator: {error}").ok();
    code
}

/// Help and version are answers, all else is a mistake in the arguments.
fn explain(error: &clap::Error) -> ExitCode {
    error.print().ok();
    match matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EX_USAGE),
    }
}
