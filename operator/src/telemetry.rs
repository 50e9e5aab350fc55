//! Logs on standard error. Each line carries the object of the reconciliation that it belongs to, by its span.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    layer::SubscriberExt,
    util::{SubscriberInitExt, TryInitError},
};

use crate::args::{LogFormat, LogLevel};

/// Starts logging for the rest of the process. Fails when something logs already.
pub fn start(level: LogLevel, format: LogFormat) -> Result<(), TryInitError> {
    let level = filter(level);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    match format {
        LogFormat::Text => {
            let ansi = io::stderr().is_terminal();
            Registry::default().with(lines.with_ansi(ansi).with_filter(level)).try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
            Registry::default().with(lines.with_filter(level)).try_init()
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
