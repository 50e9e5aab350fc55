//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Makes pods of ConsumerGroup resources.
#[derive(Debug, Parser)]
#[command(name = "lockstep-operator", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator.
    Run(RunArgs),
    /// Print the definition of the ConsumerGroup resource as YAML.
    Crd,
    /// Print what the operator would make of a ConsumerGroup, as YAML, without a cluster; or every mistake in it.
    Render(RenderArgs),
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The sidecar's image where a group names none.
    #[arg(long, env = "LOCKSTEP_SIDECAR_IMAGE", value_name = "IMAGE")]
    pub sidecar_image: String,
    /// The namespaces to look after, parted by commas. Default: all.
    #[arg(long, env = "LOCKSTEP_WATCH_NAMESPACES", value_name = "NAMES", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,
    /// The namespace of the operator's own Lease.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub namespace: String,
    /// The Lease by which the replicas of the operator agree on a leader.
    #[arg(long, value_name = "NAME", default_value = "lockstep-operator")]
    pub lease_name: String,
    /// This process's name in the Lease.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: String,
    /// Where to serve /metrics, /live and /ready.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddr,
    /// How many groups may roll to a new sidecar image at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub upgrade_groups: u16,
    /// How much is logged.
    #[arg(long, env = "LOCKSTEP_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevel,
    /// How it is written.
    #[arg(long, env = "LOCKSTEP_LOG_FORMAT", value_name = "FORMAT", default_value = "json")]
    pub log_format: LogFormat,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What needs a person.
    Error,
    /// And surprises that were got over.
    Warn,
    /// And changes of state.
    Info,
    /// And every reconciliation.
    Debug,
    /// And every step.
    Trace,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Arguments of `render`.
#[derive(Debug, Clone, Args)]
pub struct RenderArgs {
    /// The manifest: one ConsumerGroup as YAML; `-` reads standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: PathBuf,
    /// The sidecar's image where the group names none.
    #[arg(
        long,
        env = "LOCKSTEP_SIDECAR_IMAGE",
        value_name = "IMAGE",
        default_value = concat!("lockstep-sidecar:", env!("CARGO_PKG_VERSION"))
    )]
    pub sidecar_image: String,
}
