//! The recording application as a process of its own, so that it can be killed.
//!
//! Usage: recording-app PORT LOG RULES. RULES is a file with one rule a line, which holds from the first request on. Serves
//! until its standard input closes.

use std::{error::Error, fs, io, path::Path};

use lockstep_tests_support::app::{App, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().ok_or("PORT is missing")?.parse()?;
    let log = arguments.next().ok_or("LOG is missing")?;
    let rules = fs::read_to_string(arguments.next().ok_or("RULES is missing")?)?;
    let rules = rules.lines().map(str::parse).collect::<Result<_, String>>()?;
    let app = App::start(Options { port, log: Some(Path::new(&log)), rules, ..Options::default() })?;
    app.forget_requests();
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
