use std::{env, path::PathBuf};

use lockstep_broker::Clock;
use lockstep_contract::names;

use super::{Failure, block_on, random_name, secrets_folder, source::Source, start_logs};
use crate::{
    args::RunArgs,
    config::{Assignment, Loaded, Origin, in_pod},
    deliver::Endpoint,
    service::{Plan, level_name},
    state::State,
};

/// Delivers until a drain is over.
pub(super) fn run(args: RunArgs) -> Result<(), Failure> {
    let origin = Origin::of(args.manifest.file.as_deref());
    let loaded = origin.load().map_err(Failure::usage)?;
    let group = loaded.group.clone();
    let source = Source::of(&group)?;
    let callback = args.callback.as_deref().map(Endpoint::from_url).transpose().map_err(Failure::usage)?;
    let log_level = start_logs(level_name(loaded.group.spec.sidecar.log_level))?;
    warn_of(&loaded);
    let secrets = secrets_folder(args.manifest.credentials_dir.as_deref());
    let state = state(args.state_dir);
    let client_id = client_id(args.client_id, &state)?;
    block_on(async {
        let plan = Plan {
            origin,
            source: source.info(),
            loaded,
            assignment: args.assignment.as_deref().map_or_else(Assignment::mounted, Assignment::of),
            secrets,
            callback,
            state,
            client_id,
            log_level,
            clock: Clock::new(),
        };
        Ok(source.serve(&group, plan).await?)
    })
}

pub(super) fn warn_of(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("manifest: {warning}");
    }
}

fn state(given: Option<PathBuf>) -> State {
    let in_pod = || in_pod().then(|| PathBuf::from(names::files::STATE));
    given.or_else(in_pod).map_or_else(State::none, |folder| State::open(&folder))
}

fn client_id(given: Option<String>, state: &State) -> Result<String, Failure> {
    if let Some(id) = given.or_else(|| env::var(names::env::POD_UID).ok()) {
        return Ok(id);
    }
    let made = random_name(8)?;
    Ok(state.client_id(|| format!("lockstep-{made}")))
}
