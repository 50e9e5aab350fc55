//! The commands of the binary.

mod check;
mod demo;
mod dev;
mod local;
mod run;
mod source;

use std::{
    fmt::Display,
    future::Future,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use lockstep_contract::{EX_USAGE, names};

use crate::{
    args::{Cli, Command},
    service::{Signals, StartError},
    telemetry::{self, LogLevel},
};

/// Why a command did not do what it should.
#[derive(Debug)]
pub enum Failure {
    /// Its arguments or the manifest are faulty.
    Usage(String),
    /// It could not be started or done.
    Failed(String),
    /// A second signal ended it at once.
    Interrupted,
}

impl Failure {
    fn usage(problem: impl Display) -> Self {
        Self::Usage(problem.to_string())
    }

    fn failed(problem: impl Display) -> Self {
        Self::Failed(problem.to_string())
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(EX_USAGE),
            Self::Failed(_) | Self::Interrupted => ExitCode::FAILURE,
        }
    }

    /// What a person is told.
    pub fn message(&self) -> &str {
        match self {
            Self::Usage(problem) | Self::Failed(problem) => problem,
            Self::Interrupted => "ended at once by a second signal; what ran is delivered again",
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Delivery(_) | StartError::Settings(_) | StartError::NoDeadLetters => {
                Self::usage(error)
            }
            StartError::Admin(_) | StartError::Signals(_) => Self::failed(error),
        }
    }
}

/// Does what the command line says.
pub fn dispatch(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Dev(args) => dev::dev(args),
        Command::DemoMember(args) => dev::demo_member(args),
        Command::Demo(args) => demo::demo(&args),
        Command::Check(args) => check::check(&args),
        Command::PreStop(args) => local::pre_stop(&args),
        Command::Skip(args) => local::by_hand(names::admin::SKIP, &args),
        Command::DeadLetter(args) => local::by_hand(names::admin::DEAD_LETTER, &args),
    }
}

/// A line for a person.
fn say(line: impl Display) {
    // Nobody reads a closed standard output.
    writeln!(io::stdout(), "{line}").ok();
}

/// Runs to the end, or to a second signal.
fn block_on(task: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("failed to start: {error}")))?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = task => result,
            failure = second_signal() => Err(failure),
        }
    });
    // A name look-up in another thread must not hold the end up.
    runtime.shutdown_background();
    result
}

async fn second_signal() -> Failure {
    match Signals::new() {
        Ok(mut signals) => {
            signals.next().await;
            signals.next().await;
            Failure::Interrupted
        }
        Err(_) => std::future::pending().await,
    }
}

fn start_logs(level: &str) -> Result<LogLevel, Failure> {
    telemetry::start(level).map_err(Failure::failed)
}

fn secrets_folder(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| PathBuf::from(names::files::ROOT), Path::to_owned)
}

/// So many random bytes in hexadecimal digits.
fn random_name(bytes: usize) -> Result<String, Failure> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
