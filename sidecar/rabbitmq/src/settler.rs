//! The settling half: acknowledgements of what is done, the fewest that say it, and dead letters.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lockstep_broker::{BrokerError, Certainty, Class, Commit, Settle, Settlement, Settler};
use lockstep_model::Moment;
use tokio::time::{Instant, timeout_at};

use crate::{
    amqp::{ANSWER_WITHIN, AmqpError, Channel},
    config::DeadLetter,
    consumer::{Consumer, Origin, tag},
    problem::{failed, not_owned, reason, refusal},
    shared::Shared,
    unsettled::{Standing, Unsettled},
};

const SETTLE: &str = "settle";
/// Dead letters that are not confirmed within this time have an unknown fate.
const PUBLISH_WITHIN: Duration = Duration::from_millis(2_900);
/// A whole call takes no longer.
const WITHIN: Duration = Duration::from_millis(4_900);

/// Settles deliveries. Clones share everything.
#[derive(Debug, Clone)]
pub struct RabbitSettler {
    shared: Arc<Shared>,
}

/// What has become of one settlement so far.
enum Progress {
    /// To be acknowledged, given back or rejected.
    Due(NonZeroU64, Settlement),
    /// A dead letter that has to be published first.
    Publish(NonZeroU64),
    /// The broker was told and has to confirm that it has read it.
    Written(NonZeroU64),
    Over(Result<(), BrokerError>),
}

impl RabbitSettler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Settler for RabbitSettler {
    async fn commit(&self, _: Commit) -> Result<(), BrokerError> {
        let message = "a queue of RabbitMQ is settled one by one";
        Err(refusal("commit", Class::Permanent, reason::NOT_SUPPORTED, message))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        let Some(first) = batch.first() else { return Vec::new() };
        let newest = batch
            .iter()
            .map(|settle| settle.epoch)
            .filter_map(|epoch| self.shared.owner(first.delivery.queue, epoch))
            .next();
        let Some(consumer) = newest else {
            return batch.iter().map(|_| Err(not_owned(SETTLE))).collect();
        };
        let begun = Instant::now();
        let now = self.shared.now();
        let standings = consumer.standings(&batch, now);
        let judged = batch
            .iter()
            .zip(standings)
            .map(|(settle, standing)| self.judge(&consumer, settle, standing, now));
        let mut progress: Vec<_> = judged.collect();
        self.write(&consumer, &batch, &mut progress);
        self.publish(&consumer, &batch, &mut progress, begun + PUBLISH_WITHIN).await;
        self.write(&consumer, &batch, &mut progress);
        let written: Vec<_> = progress.iter().filter_map(Progress::written).collect();
        let confirmed =
            if written.is_empty() { Ok(()) } else { self.confirm(&consumer, begun + WITHIN).await };
        if confirmed.is_ok() {
            consumer.settled(written.into_iter(), self.shared.now());
        }
        let answer = |progress| match progress {
            Progress::Over(result) => result,
            Progress::Written(_) => confirmed.clone(),
            Progress::Due(..) | Progress::Publish(_) => Err(not_owned(SETTLE)),
        };
        progress.into_iter().map(answer).collect()
    }
}

impl RabbitSettler {
    /// What a settlement needs, or why it is over before it has begun.
    fn judge(
        &self,
        consumer: &Consumer,
        settle: &Settle,
        standing: Option<Standing>,
        now: Moment,
    ) -> Progress {
        if settle.not_after.is_some_and(|not_after| not_after <= now) {
            let message = "it was not begun before the moment behind which the lease may be over";
            return Progress::Over(Err(refusal(SETTLE, Class::Transient, reason::TIMED_OUT, message)));
        }
        let unsupported = |message| {
            let reason = reason::DEAD_LETTER_UNSUPPORTED;
            Progress::Over(Err(refusal(SETTLE, Class::Permanent, reason, message)))
        };
        // Whatever asks for it: a message that is requeued by itself loses its place.
        if settle.settlement == Settlement::Release && self.shared.config.ordering.is_ordered() {
            let message = "nothing of an ordered queue is given back by itself, only the queue as a whole";
            return Progress::Over(Err(refusal(SETTLE, Class::Permanent, reason::NOT_SUPPORTED, message)));
        }
        match (standing, tag(settle.delivery.position)) {
            (None, _) | (_, None) => Progress::Over(Err(not_owned(SETTLE))),
            (Some(Standing::Unknown), _) => {
                let message = "no delivery of that position has come";
                Progress::Over(Err(refusal(SETTLE, Class::Transient, reason::NOT_OWNED, message)))
            }
            (Some(Standing::Settled), _) => Progress::Over(Ok(())),
            (Some(Standing::Written), Some(tag)) => Progress::Written(tag),
            (Some(Standing::Out), Some(tag)) => match (settle.settlement, &self.shared.config.dead_letter) {
                (Settlement::DeadLetter, DeadLetter::Queue(_)) => Progress::Publish(tag),
                (Settlement::DeadLetter, DeadLetter::Broker) if !consumer.may_reject => unsupported(format!(
                    "it is not known that queue {} has a dead-letter exchange; the broker would drop the message",
                    consumer.name
                )),
                (Settlement::DeadLetter, DeadLetter::None) => {
                    unsupported("no place for dead letters is configured".to_owned())
                }
                (settlement, _) => Progress::Due(tag, settlement),
            },
        }
    }

    /// Writes what is due, all at once, so that nothing gets between the choice of acknowledgements and their writing.
    fn write(&self, consumer: &Consumer, batch: &[Settle], progress: &mut [Progress]) {
        let Some(epoch) = batch
            .iter()
            .zip(&*progress)
            .find_map(|(settle, progress)| matches!(progress, Progress::Due(..)).then_some(settle.epoch))
        else {
            return;
        };
        let written = consumer.with_unsettled(epoch, self.shared.now(), |unsettled, channel| {
            write(unsettled, channel, progress)
        });
        if written.is_none() {
            for progress in progress.iter_mut().filter(|progress| matches!(progress, Progress::Due(..))) {
                *progress = Progress::Over(Err(not_owned(SETTLE)));
            }
        }
    }

    /// Publishes dead letters beside each other; what is confirmed is due for an acknowledgement.
    async fn publish(
        &self,
        consumer: &Consumer,
        batch: &[Settle],
        progress: &mut [Progress],
        until: Instant,
    ) {
        let publishing =
            batch.iter().zip(&*progress).enumerate().filter_map(|(index, (settle, progress))| {
                let Progress::Publish(tag) = progress else { return None };
                let origin = consumer.origin(tag.get());
                let publish =
                    self.shared.publisher.publish(&self.shared, &consumer.name, (settle, origin), until);
                Some(async move { (index, *tag, publish.await) })
            });
        let publishing: Vec<_> = publishing.collect();
        for (index, tag, result) in join_all(publishing).await {
            if let Some(place) = progress.get_mut(index) {
                *place = match result {
                    Ok(()) => Progress::Due(tag, Settlement::Accept),
                    Err(error) => Progress::Over(Err(error)),
                };
            }
        }
    }

    /// Waits until the broker has read all that was written. That is no proof of the ownership: the channel's process answers
    /// without asking the queue.
    async fn confirm(&self, consumer: &Consumer, until: Instant) -> Result<(), BrokerError> {
        let late = || AmqpError::Timeout { what: "basic.qos", after: ANSWER_WITHIN };
        let answer = timeout_at(until, consumer.channel.round_trip()).await.unwrap_or_else(|_| Err(late()));
        // What was written before is of unknown fate, whatever became of the question.
        answer.map_err(|error| failed(SETTLE, error, Certainty::Unknown))
    }
}

/// Writes acknowledgements for what is accepted, and gives back or rejects what is to be so.
fn write(unsettled: &mut Unsettled<Option<Origin>>, channel: &Channel, progress: &mut [Progress]) {
    let mut accepted: Vec<u64> = progress.iter().filter_map(Progress::accepted).collect();
    accepted.sort_unstable();
    accepted.dedup();
    // One acknowledgement may tell of several, so that a failure is that of all; the channel has ended then.
    let mut certainty = Certainty::NotDone;
    let mut failure = None;
    for ack in unsettled.plan(&accepted) {
        if let (None, Some(tag)) = (&failure, NonZeroU64::new(ack.tag)) {
            match channel.ack(tag, ack.multiple) {
                Ok(()) => certainty = Certainty::Unknown,
                Err(error) => failure = Some(error),
            }
        }
    }
    for progress in progress.iter_mut() {
        let Progress::Due(tag, settlement) = *progress else { continue };
        let result = match settlement {
            Settlement::Accept => failure.clone().map_or(Ok(()), Err),
            Settlement::Release => channel.nack(tag, true),
            Settlement::DeadLetter => channel.reject(tag, false),
        };
        *progress = match result {
            Ok(()) => {
                unsettled.written(tag.get());
                Progress::Written(tag)
            }
            Err(error) => Progress::Over(Err(failed(SETTLE, error, certainty))),
        };
    }
}

impl Progress {
    fn accepted(&self) -> Option<u64> {
        if let Self::Due(tag, Settlement::Accept) = self { Some(tag.get()) } else { None }
    }

    fn written(&self) -> Option<u64> {
        if let Self::Written(tag) = self { Some(tag.get()) } else { None }
    }
}
