use std::{env, path::PathBuf};

use lockstep_broker::Clock;
use lockstep_contract::{ConsumerGroup, RocketMq, SourceKind, names};

use super::{Failure, block_on, random_name, secrets_folder, start_logs};
use crate::{
    args::RunArgs,
    config::{Assignment, Loaded, Origin, in_pod, rocketmq_config},
    deliver::{Endpoint, ROCKETMQ_HIDDEN, SourceInfo},
    service::{self, Plan, level_name},
    state::State,
};

/// Delivers until a drain is over.
pub(super) fn run(args: RunArgs) -> Result<(), Failure> {
    let origin = Origin::of(args.manifest.file.as_deref());
    let loaded = origin.load().map_err(Failure::usage)?;
    let source = rocketmq(&loaded.group)?.clone();
    let callback = args.callback.as_deref().map(Endpoint::from_url).transpose().map_err(Failure::usage)?;
    let log_level = start_logs(level_name(loaded.group.spec.sidecar.log_level))?;
    warn_of(&loaded);
    let secrets = secrets_folder(args.manifest.credentials_dir.as_deref());
    let state = state(args.state_dir);
    let client_id = client_id(args.client_id, &state)?;
    block_on(async move {
        let clock = Clock::new();
        let config = rocketmq_config(&loaded.group, &source, &secrets, &state, client_id.clone(), clock);
        let plan = Plan {
            origin,
            source: source_info(&source),
            loaded,
            assignment: Assignment::mounted(),
            secrets,
            callback,
            state,
            client_id,
            log_level,
            clock,
        };
        service::serve(lockstep_rocketmq::RocketMq::new(config), plan).await?;
        Ok(())
    })
}

/// The one source that this version has.
pub(super) fn rocketmq(group: &ConsumerGroup) -> Result<&RocketMq, Failure> {
    let absent = |name: &str| {
        Failure::usage(format!(
            "spec.source.{name}: this version has no {name} source; use rocketmq, or lockstep-sidecar dev to try \
             the application without a broker"
        ))
    };
    match group.spec.source.kind() {
        Some(SourceKind::RocketMq(source)) => Ok(source),
        Some(SourceKind::RabbitMq(_)) => Err(absent("rabbitmq")),
        Some(SourceKind::ActiveMq(_)) => Err(absent("activemq")),
        None => Err(Failure::usage("spec.source: no source is given; add rocketmq")),
    }
}

pub(super) fn warn_of(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("manifest: {warning}");
    }
}

fn source_info(source: &RocketMq) -> SourceInfo {
    SourceInfo {
        scheme: "rocketmq",
        authority: source.consumer_group.clone(),
        hidden_properties: ROCKETMQ_HIDDEN,
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
