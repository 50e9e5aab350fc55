//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Ordered delivery from a message queue to an HTTP application.
#[derive(Debug, Parser)]
#[command(name = "lockstep-sidecar", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Deliver: in a pod, or anywhere with a manifest and the address of an application.
    Run(RunArgs),
    /// Deliver from a local broker that takes the source's place, to develop an application without a broker.
    Dev(DevArgs),
    /// Show what this is: a local broker, a small application, a retry, a dead letter, a crash. Ends by itself.
    Demo(DemoArgs),
    /// Read a manifest and tell every mistake; with --connect also whether the source can be used.
    Check(CheckArgs),
    /// Begin the drain of the sidecar that runs here: its container's preStop hook.
    PreStop(PortArgs),
    /// Drop a message that blocks its lane.
    Skip(MessageArgs),
    /// Move a message that blocks its lane to the dead-letter queue.
    DeadLetter(MessageArgs),
    /// A sidecar of the demonstration, which is killed in it.
    #[command(hide = true)]
    DemoMember(DevArgs),
}

/// Where a manifest comes from.
#[derive(Debug, Clone, Args)]
pub struct ManifestArgs {
    /// The manifest: a ConsumerGroup as YAML. Default: the files that the operator mounts.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The folder with the secrets that the manifest names: credentials/, tls-ca/, tls-client/, headers/, signing/.
    #[arg(long, value_name = "DIR")]
    pub credentials_dir: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented where it is defined")]
    pub manifest: ManifestArgs,
    /// Where to POST the messages instead of delivery.host, port and path.
    #[arg(long, value_name = "URL")]
    pub callback: Option<String>,
    /// A folder for attempt counts and the client id, so that they survive a restart. Default: none outside a pod.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// This member's name in the broker's group. Default: the pod's UID, else the one kept in the state folder, else
    /// a random one.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// A file with the queues that this member should take, as a JSON list; others are left to the other members. It is
    /// followed. For sources that don't share their queues out by themselves. Default: what the operator writes in a pod.
    #[arg(long, value_name = "FILE")]
    pub assignment: Option<PathBuf>,
}

/// Arguments of `dev`.
#[derive(Debug, Clone, Args)]
pub struct DevArgs {
    /// The manifest; its source is replaced by a local broker.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: PathBuf,
    /// Where to POST the messages.
    #[arg(long, value_name = "URL")]
    pub callback: String,
    /// The folder with the secrets that the manifest names.
    #[arg(long, value_name = "DIR")]
    pub credentials_dir: Option<PathBuf>,
    /// A folder for the messages and for attempt counts, so that they survive a restart. Default: a temporary one.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where to take messages: POST /publish. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub publish: std::net::SocketAddr,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Stay up at the end, to try it with curl.
    #[arg(long)]
    pub keep: bool,
}

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented where it is defined")]
    pub manifest: ManifestArgs,
    /// Also connect to the source and verify that it can be used.
    #[arg(long)]
    pub connect: bool,
}

/// Which sidecar is meant.
#[derive(Debug, Clone, Args)]
pub struct PortArgs {
    /// The running sidecar's admin port. Default: sidecar.adminPort of the mounted manifest, else 15464.
    #[arg(long, value_name = "PORT")]
    pub admin_port: Option<u16>,
}

/// Arguments of `skip` and `dead-letter`.
#[derive(Debug, Clone, Args)]
pub struct MessageArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented where it is defined")]
    pub port: PortArgs,
    /// The queue's name, as /status shows it.
    #[arg(long, value_name = "QUEUE")]
    pub queue: String,
    /// The message's id, as /status shows it.
    #[arg(long, value_name = "ID")]
    pub message_id: String,
}
