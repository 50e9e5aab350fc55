use std::{collections::BTreeMap, time::Duration};

use lockstep_broker::{Broker, Clock, LeaseEvent, LeaseKeeper, SourceState};
use lockstep_rocketmq::reason;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Failure, block_on, random_name, run::rocketmq, say, secrets_folder};
use crate::{
    args::CheckArgs,
    config::{Origin, rocketmq_config},
    state::State,
};

/// Connecting, asking for routes and joining take a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// After the first word so much longer for the rest.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// What is no fault of the source: the check is one member more than usual, and a restarted broker is ready soon.
const HARMLESS: [&str; 2] = [reason::MORE_MEMBERS_THAN_QUEUES, reason::BROKER_RESTARTED];
/// Leaving takes one round trip to each broker.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells every mistake of the manifest, and with `--connect` what is wrong with the source.
pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let origin = Origin::of(args.manifest.file.as_deref());
    let loaded = origin.load().map_err(Failure::usage)?;
    for warning in &loaded.warnings {
        say(format!("warning: {warning}"));
    }
    let source = rocketmq(&loaded.group)?;
    say("the manifest is valid");
    if !args.connect {
        return Ok(());
    }
    let secrets = secrets_folder(args.manifest.credentials_dir.as_deref());
    let client_id = format!("lockstep-check-{}", random_name(8)?);
    block_on(async {
        let state = State::none();
        let config = rocketmq_config(&loaded.group, source, &secrets, &state, client_id, Clock::new());
        let Some(state) = connect(lockstep_rocketmq::RocketMq::new(config)).await else {
            return Err(Failure::failed(format!(
                "the source did not answer within {} s; check spec.source and the network between here and there",
                CONNECT_TIMEOUT.as_secs()
            )));
        };
        let queues = state.queues_total;
        match state.problem {
            Some(problem) if !(state.connected && HARMLESS.contains(&problem.reason)) => {
                Err(Failure::failed(format!("the source can't be used ({}): {problem}", problem.reason)))
            }
            Some(problem) => {
                say(format!("the source can be used: {queues} queues; {problem}"));
                Ok(())
            }
            None => {
                say(format!("the source can be used: {queues} queues"));
                Ok(())
            }
        }
    })
}

/// Joins as a member, which verifies all that a sidecar needs, and leaves again; other members hold still for that
/// long. Answers the last state that was told.
async fn connect<B: Broker>(broker: B) -> Option<SourceState> {
    let (_reader, _settler, mut keeper) = broker.split();
    keeper.join();
    let mut told = None;
    let mut until = Instant::now() + CONNECT_TIMEOUT;
    let mut held = BTreeMap::new();
    while let Ok(event) = timeout_at(until, keeper.next()).await {
        match event {
            LeaseEvent::Source(state) if state.connected || state.problem.is_some() => {
                // Name servers and brokers answer one after the other.
                if told.is_none() {
                    until = Instant::now() + SETTLE_TIME;
                }
                told = Some(state);
            }
            LeaseEvent::Acquired { queue, epoch, .. } => drop(held.insert(queue, epoch)),
            LeaseEvent::Lost { queue, .. } => drop(held.remove(&queue)),
            LeaseEvent::Source(_)
            | LeaseEvent::Renewed { .. }
            | LeaseEvent::Doubtful { .. }
            | LeaseEvent::Revoking { .. }
            | LeaseEvent::RevocationCancelled { .. }
            | LeaseEvent::Released { .. }
            | LeaseEvent::Moved { .. }
            | LeaseEvent::Left => {}
        }
    }
    keeper.leave();
    for (queue, epoch) in held {
        keeper.release(queue, epoch);
    }
    let left = async {
        loop {
            match keeper.next().await {
                LeaseEvent::Left => return,
                LeaseEvent::Acquired { queue, epoch, .. } => keeper.release(queue, epoch),
                LeaseEvent::Renewed { .. }
                | LeaseEvent::Doubtful { .. }
                | LeaseEvent::Revoking { .. }
                | LeaseEvent::RevocationCancelled { .. }
                | LeaseEvent::Lost { .. }
                | LeaseEvent::Released { .. }
                | LeaseEvent::Moved { .. }
                | LeaseEvent::Source(_) => {}
            }
        }
    };
    // A broker that does not answer forgets the member by itself.
    timeout(LEAVE_TIMEOUT, left).await.ok();
    told
}
