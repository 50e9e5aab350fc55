//! Benchmarks as ratios: every figure is measured against a baseline in the same interleaved run.
//!
//! `lockstep-bench table` runs the whole table, or the rows that `only=` names. The other words start one process of it:
//! `app` (the fixed counting application), `stub` (a name server and broker that replays one stored message),
//! `b0` (the same HTTP client without a broker).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool prints its results")]

mod activemq;
mod app;
mod args;
mod b0;
mod children;
mod latency;
mod measure;
mod peers;
mod rabbitmq;
mod real;
mod rocketmq;
mod scenarios;
mod statistics;
mod stored;
mod stub;
mod table;

use std::{error::Error, process::ExitCode};

/// What a benchmark's parts fail with: they end the whole run.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| {
            runtime.block_on(async {
                let mut words = std::env::args().skip(1);
                let word = words.next();
                let args = args::Args::parse(words)?;
                match word.as_deref() {
                    None | Some("table") => scenarios::run(&args).await,
                    Some("app") => app::serve(&args).await,
                    Some("stub") => stub::serve(&args).await,
                    Some("b0") => b0::run(&args).await,
                    Some(other) => Err(format!("unknown word {other:?}: use table, app, stub or b0").into()),
                }
            })
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lockstep-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
