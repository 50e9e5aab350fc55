//! `render`: what the operator would make of a group, without a cluster.

mod manifest;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use k8s_openapi::serde::Serialize;
use lockstep_contract::EX_USAGE;
use thiserror::Error;

use crate::{
    args::RenderArgs,
    build::{BuildError, Children, build},
    facts::{Observed, Settings},
    rollout::{Hashes, Wave, WaveView, plan},
    validate::validate,
};

/// The largest manifest in bytes: Kubernetes stores no larger one.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;
/// Stands for the UID that the API server gives.
const PLACEHOLDER_UID: &str = "00000000-0000-0000-0000-000000000000";

/// What the operator would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The children, one document each.
    pub yaml: String,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// Nothing can be rendered.
#[derive(Debug, Error)]
pub enum RenderError {
    /// The manifest can't be read.
    #[error("failed to read {}: {source}; name a manifest with -f", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What is in it is wrong: a line each.
    #[error("{}", list(.0))]
    Mistakes(Vec<String>),
    /// The rules passed and yet nothing can be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A child can't be written down.
    #[error("failed to write a child as YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
}

impl RenderError {
    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Read { .. } | Self::Mistakes(_) | Self::Build(_) => ExitCode::from(EX_USAGE),
            Self::Yaml(_) => ExitCode::FAILURE,
        }
    }
}

/// Reads the manifest and renders it.
pub fn command(args: &RenderArgs) -> Result<Rendered, RenderError> {
    let text = read(&args.file).map_err(|source| RenderError::Read { path: args.file.clone(), source })?;
    let settings = Settings {
        sidecar_image: args.sidecar_image.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        upgrade_groups_max: 1,
    };
    render(&text, &settings)
}

/// The children of the group that is written in `text`.
///
/// # Errors
///
/// Every mistake at once.
pub fn render(text: &str, settings: &Settings) -> Result<Rendered, RenderError> {
    let mut group = manifest::read(text).map_err(RenderError::Mistakes)?;
    group.metadata.uid.get_or_insert_with(|| PLACEHOLDER_UID.to_owned());
    let observed = Observed::alone(group);
    let verdict = validate(&observed);
    if !verdict.faults.is_empty() {
        let faults = verdict.faults.into_iter().map(|fault| fault.message);
        return Err(RenderError::Mistakes(faults.collect()));
    }
    let wave = Wave::default();
    let view = WaveView { wave: &wave, candidates: &[] };
    let plan = plan(&observed, settings, &view, &Hashes::of(&observed.group));
    let children = build(&observed, &plan)?;
    let notices = verdict.notices.into_iter().map(|notice| notice.message).collect();
    Ok(Rendered { yaml: documents(&children)?, notices })
}

/// In the order in which `kubectl apply` should take them.
fn documents(children: &Children) -> Result<String, serde_yaml::Error> {
    let Children { deployment, cold, hot, disruption_budget } = children;
    let mut all = vec![document(cold)?, document(hot)?];
    if let Some(budget) = disruption_budget {
        all.push(document(budget)?);
    }
    all.push(document(deployment)?);
    Ok(all.join("---\n"))
}

fn document(object: &impl Serialize) -> Result<String, serde_yaml::Error> {
    serde_yaml::to_string(object)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(fs::File::open(path)?) };
    // One byte more, so that a larger one is told as such and not as cut YAML.
    input.take(MANIFEST_BYTES_MAX + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn list(mistakes: &[String]) -> String {
    let noun = if mistakes.len() == 1 { "mistake" } else { "mistakes" };
    format!("the manifest has {} {noun}:\n{}", mistakes.len(), mistakes.join("\n"))
}
