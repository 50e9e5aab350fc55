//! The recording application as a process of its own, so that it can be killed.
//!
//! Usage: recording-app PORT LOG [IDLE_SECONDS]. Serves until its standard input closes.

use std::{error::Error, io, path::Path, time::Duration};

use lockstep_tests_support::app::{App, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().ok_or("PORT is missing")?.parse()?;
    let log = arguments.next().ok_or("LOG is missing")?;
    let idle = arguments.next().map(|seconds| seconds.parse().map(Duration::from_secs)).transpose()?;
    let app = App::start(Options { port, log: Some(Path::new(&log)), idle, ..Options::default() })?;
    app.forget_requests();
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
