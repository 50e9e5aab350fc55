//! Logs: text on a terminal, JSON otherwise; the level can be changed while running.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    layer::SubscriberExt,
    reload::{self, Handle},
    util::{SubscriberInitExt, TryInitError},
};

/// Changes the level of the running process's logs.
#[derive(Debug, Clone)]
pub struct LogLevel {
    handle: Option<Handle<LevelFilter, Registry>>,
}

/// The level has no such name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level \"{0}\"; use one of off, error, warn, info, debug, trace")]
pub struct UnknownLevel(String);

impl LogLevel {
    /// A level that can't be changed, for tests.
    pub fn fixed() -> Self {
        Self { handle: None }
    }

    /// Sets the level by its name.
    pub fn set(&self, level: &str) -> Result<(), UnknownLevel> {
        let filter = parse(level)?;
        if let Some(handle) = &self.handle {
            // It fails only when the subscriber is gone, and then nothing is logged anyway.
            drop(handle.modify(|current| *current = filter));
        }
        Ok(())
    }
}

/// Starts logging to standard error for the rest of the process. Fails when something logs already.
pub fn start(level: &str) -> Result<LogLevel, TryInitError> {
    let (filter, handle) = reload::Layer::new(parse(level).unwrap_or(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    if io::stderr().is_terminal() {
        Registry::default().with(lines.with_filter(filter)).try_init()?;
    } else {
        Registry::default().with(lines.json().flatten_event(true).with_filter(filter)).try_init()?;
    }
    Ok(LogLevel { handle: Some(handle) })
}

fn parse(level: &str) -> Result<LevelFilter, UnknownLevel> {
    level.parse().map_err(|_| UnknownLevel(level.to_owned()))
}
