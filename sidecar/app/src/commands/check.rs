use std::time::Duration;

use lockstep_broker::{Broker, Clock, LeaseEvent, LeaseKeeper, SourceState};
use tokio::time::timeout;

use super::{Failure, block_on, random_name, run::rocketmq, say, secrets_folder};
use crate::{
    args::CheckArgs,
    config::{Origin, rocketmq_config},
    state::State,
};

/// Connecting, asking for routes and joining take a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
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
        match connect(lockstep_rocketmq::RocketMq::new(config)).await {
            Some(SourceState { problem: Some(problem), .. }) => {
                Err(Failure::failed(format!("the source can't be used ({}): {problem}", problem.reason)))
            }
            Some(SourceState { connected: true, queues_total, .. }) => {
                say(format!("the source can be used: {queues_total} queues"));
                Ok(())
            }
            Some(_) | None => Err(Failure::failed(format!(
                "the source did not answer within {} s; check spec.source and the network between here and there",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    })
}

/// Joins as a member, which verifies all that a sidecar needs, and leaves at once. Answers the first clear state.
async fn connect<B: Broker>(broker: B) -> Option<SourceState> {
    let (_reader, _settler, mut keeper) = broker.split();
    keeper.join();
    let clear = async {
        loop {
            if let LeaseEvent::Source(state) = keeper.next().await
                && (state.connected || state.problem.is_some())
            {
                return state;
            }
        }
    };
    let state = timeout(CONNECT_TIMEOUT, clear).await.ok();
    keeper.leave();
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
    state
}
