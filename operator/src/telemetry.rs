//! Logs on standard error. Each line carries the object of the reconciliation that it belongs to, by its span.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    layer::SubscriberExt,
    util::{SubscriberInitExt, TryInitError},
};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

impl Format {
    /// What suits standard error: text on a terminal, JSON otherwise.
    pub fn suitable() -> Self {
        if io::stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// Starts logging for the rest of the process. Fails when something logs already.
pub fn start(level: LevelFilter, format: Format) -> Result<(), TryInitError> {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    match format {
        Format::Text => {
            let ansi = io::stderr().is_terminal();
            Registry::default().with(lines.with_ansi(ansi).with_filter(level)).try_init()
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
            Registry::default().with(lines.with_filter(level)).try_init()
        }
    }
}
