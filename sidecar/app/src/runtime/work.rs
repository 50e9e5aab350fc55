//! The futures of the loop: what each does and what it brings back.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::{
    future::{AbortHandle, Abortable, BoxFuture},
    stream::FuturesUnordered,
};
use lockstep_broker::{
    BrokerError, Certainty, Class, Clock, Commit, FetchRequest, Fetched, Reader, Settle, Settler,
};
use lockstep_core::{AttemptId, AttemptResult, Failure, FetchId, TransportFailure};
use lockstep_model::{Delivery, Epoch, Moment, Position, QueueId};

use crate::deliver::{AttemptRequest, Attempted, Deliver};

/// Futures of one kind.
pub(super) type Set<T> = FuturesUnordered<BoxFuture<'static, T>>;

/// A fetch ended.
#[derive(Debug)]
pub(super) struct FetchDone {
    pub(super) id: FetchId,
    pub(super) request: FetchRequest,
    /// `None` when the engine had it dropped.
    pub(super) result: Option<Result<Fetched, BrokerError>>,
}

/// An attempt ended.
#[derive(Debug)]
pub(super) struct AttemptDone {
    pub(super) id: AttemptId,
    pub(super) delivery: Arc<Delivery>,
    /// When it was started.
    pub(super) started: Moment,
    /// `None` when the engine had it dropped, or when it came too late to be started.
    pub(super) attempted: Option<Attempted>,
}

/// The broker answered.
#[derive(Debug)]
pub(super) enum SettlingDone {
    Commit {
        queue: QueueId,
        epoch: Epoch,
        position: Position,
        result: Result<(), BrokerError>,
    },
    /// `alone` = beside the queue's batches.
    Settle {
        queue: QueueId,
        settled: Vec<Settled>,
        alone: bool,
    },
}

/// One settlement's answer.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) epoch: Epoch,
    pub(super) delivery: Arc<Delivery>,
    pub(super) result: Result<(), Failure>,
    pub(super) error: Option<BrokerError>,
}

/// A fetch that can be dropped from outside.
pub(super) fn fetch<R: Reader>(
    reader: &R,
    id: FetchId,
    request: FetchRequest,
) -> (AbortHandle, BoxFuture<'static, FetchDone>) {
    let reader = reader.clone();
    let (handle, registration) = AbortHandle::new_pair();
    let call = Abortable::new(async move { reader.fetch(request).await }, registration);
    (handle, Box::pin(async move { FetchDone { id, request, result: call.await.ok() } }))
}

/// An attempt that can be dropped from outside.
pub(super) fn attempt<D: Deliver>(
    deliver: &Arc<D>,
    clock: Clock,
    id: AttemptId,
    request: AttemptRequest,
) -> (AbortHandle, BoxFuture<'static, AttemptDone>) {
    let deliver = Arc::clone(deliver);
    let delivery = Arc::clone(&request.delivery);
    let (handle, registration) = AbortHandle::new_pair();
    let future = async move {
        let started = clock.now();
        // The process may have stood still since the engine decided.
        let in_time = request.not_after.is_none_or(|not_after| started <= not_after);
        let attempted = match in_time {
            true => Abortable::new(deliver.attempt(request), registration).await.ok(),
            false => None,
        };
        AttemptDone { id, delivery, started, attempted }
    };
    (handle, Box::pin(future))
}

/// A commit, unless its time is over.
pub(super) fn commit<S: Settler>(
    settler: &S,
    clock: Clock,
    commit: Commit,
) -> BoxFuture<'static, SettlingDone> {
    let settler = settler.clone();
    Box::pin(async move {
        let Commit { queue, epoch, position, not_after, .. } = commit;
        let result = match in_time(clock, not_after) {
            true => settler.commit(commit).await,
            false => Err(too_late("commit")),
        };
        SettlingDone::Commit { queue, epoch, position, result }
    })
}

/// A queue's settlements, in their order, without those whose time is over.
pub(super) fn settle<S: Settler>(
    settler: &S,
    clock: Clock,
    queue: QueueId,
    (batch, alone): (Vec<Settle>, bool),
) -> BoxFuture<'static, SettlingDone> {
    let settler = settler.clone();
    Box::pin(async move {
        let (due, late): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|settle| in_time(clock, settle.not_after));
        let sent: Vec<_> = due.iter().map(|settle| (settle.epoch, Arc::clone(&settle.delivery))).collect();
        let mut results =
            if due.is_empty() { Vec::new() } else { settler.settle(due).await }.into_iter().map(Some);
        let late = late
            .into_iter()
            .map(|settle| Settled::of(settle.epoch, settle.delivery, Some(Err(too_late("settle")))));
        // The expired ones are told first: their answers can't overtake anything that was sent.
        let mut settled: Vec<_> = late.collect();
        settled.extend(
            sent.into_iter().map(|(epoch, delivery)| Settled::of(epoch, delivery, results.next().flatten())),
        );
        SettlingDone::Settle { queue, settled, alone }
    })
}

impl Settled {
    /// An answer that is missing is not a success.
    fn of(epoch: Epoch, delivery: Arc<Delivery>, result: Option<Result<(), BrokerError>>) -> Self {
        match result {
            Some(Ok(())) => Self { epoch, delivery, result: Ok(()), error: None },
            Some(Err(error)) => Self { epoch, delivery, result: Err(failure(&error)), error: Some(error) },
            None => Self { epoch, delivery, result: Err(Failure::Unknown), error: None },
        }
    }
}

/// What the engine has to know of an error.
pub(super) fn failure(error: &BrokerError) -> Failure {
    match (error.certainty, error.class) {
        (Certainty::Unknown, _) => Failure::Unknown,
        (Certainty::NotDone, Class::Transient) => Failure::NotDone,
        (Certainty::NotDone, Class::Permanent) => Failure::Permanent,
    }
}

/// The engine's fact for an attempt that we ended or never started.
pub(super) fn cancelled() -> AttemptResult {
    AttemptResult::Failed(TransportFailure::Cancelled)
}

fn in_time(clock: Clock, not_after: Option<Moment>) -> bool {
    not_after.is_none_or(|not_after| clock.now() <= not_after)
}

fn too_late(operation: &'static str) -> BrokerError {
    BrokerError {
        operation,
        certainty: Certainty::NotDone,
        class: Class::Transient,
        problem: lockstep_broker::Problem {
            reason: "LeaseOver",
            message: "the lease may be over".to_owned(),
            remedy: String::new(),
        },
        source: None,
    }
}
