//! The settling half: awaited commits, and dead letters.

mod dead_letter;

use std::{sync::Arc, time::Duration};

use lockstep_broker::{BrokerError, Class, Commit, Settle, Settlement, Settler};
use lockstep_model::Moment;

use crate::{
    leases::Confirmed,
    problem::reason,
    protocol::UpdateOffset,
    shared::{Shared, Stats, not_owned, refusal},
};

const COMMIT: &str = "commit";
const SETTLE: &str = "settle";
/// How long one request may take, as for the Java client's commits; a call of this half makes two at most.
const TIMEOUT: Duration = Duration::from_millis(2_500);

/// Commits cursors and writes dead letters. Clones share everything.
#[derive(Debug, Clone)]
pub struct RocketSettler {
    shared: Arc<Shared>,
}

impl Settler for RocketSettler {
    async fn commit(&self, commit: Commit) -> Result<(), BrokerError> {
        let shared = &self.shared;
        let now = shared.now();
        in_time(COMMIT, commit.not_after, now)?;
        let queue = shared
            .leases
            .may_commit(commit.queue, commit.epoch, commit.position, now)
            .map_err(|refused| not_owned(COMMIT, refused))?;
        let update = UpdateOffset {
            group: Arc::clone(&shared.group),
            topic: Arc::clone(&queue.topic),
            queue_id: queue.queue_id,
            offset: i64::try_from(commit.position.0).unwrap_or(i64::MAX),
        };
        let deadline = shared.leases.deadline(commit.queue, commit.epoch);
        match shared.ask(&queue, &update, TIMEOUT, earlier(commit.not_after, deadline)).await {
            Ok(applied) => {
                // A commit that a pending reset swallowed is no failure: the next pull tells the new position.
                if applied {
                    let confirmed = Confirmed { position: commit.position, last: commit.last };
                    shared.leases.confirmed(commit.queue, commit.epoch, confirmed);
                    Stats::count(&shared.stats.commits);
                }
                Ok(())
            }
            Err(error) => Err(shared.failed(COMMIT, &queue, error)),
        }
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        let mut results = Vec::with_capacity(batch.len());
        for settle in batch {
            results.push(self.settle_one(settle).await);
        }
        results
    }
}

impl RocketSettler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn settle_one(&self, settle: Settle) -> Result<(), BrokerError> {
        match settle.settlement {
            Settlement::DeadLetter => self.dead_letter(&settle).await,
            Settlement::Accept | Settlement::Release => {
                let message = "a log is settled by its cursor only";
                Err(refusal(SETTLE, Class::Permanent, reason::NOT_SUPPORTED, message))
            }
        }
    }
}

/// Fails when it is too late to begin.
fn in_time(operation: &'static str, not_after: Option<Moment>, now: Moment) -> Result<(), BrokerError> {
    if not_after.is_some_and(|not_after| not_after <= now) {
        let message = "it was not begun before the moment behind which the lease may be over";
        return Err(refusal(operation, Class::Transient, reason::TIMED_OUT, message));
    }
    Ok(())
}

fn earlier(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
