//! The settling half: acknowledgements of what is done, one a message, written in order and answered beside each other.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::join_all};
use lockstep_broker::{BrokerError, Certainty, Class, Commit, Problem, Settle, Settlement, Settler};
use lockstep_model::{Moment, Position};
use tokio::time::{Instant, timeout_at};

use crate::{
    client::{self, AckVerdict, ClientError, Product},
    consumer::{Consumer, End, Told},
    problem::{failed, not_owned, reason, refusal},
    shared::Shared,
    unsettled::{Standing, Unsettled},
    view::DeadLetters,
};

const SETTLE: &str = "settle";
/// A whole call takes no longer.
const WITHIN: Duration = Duration::from_millis(4_900);
/// `DestinationPolicy`'s default: where dead letters of all queues go.
const SHARED_DEAD_LETTERS: &str = "ActiveMQ.DLQ";
/// What the names of queues begin with into which Classic puts the dead letters of one queue: the default, and what
/// `individualDeadLetterStrategy` is mostly given.
const DEAD_LETTER_PREFIXES: [&str; 2] = ["ActiveMQ.DLQ.", "DLQ."];
/// The property that Classic and Artemis give a dead letter.
const DIED_OF: &[u8] = b"dlqDeliveryFailureCause";

/// Settles deliveries. Clones share everything.
#[derive(Debug, Clone)]
pub struct ActiveSettler {
    shared: Arc<Shared>,
}

/// What has become of one settlement so far.
#[derive(Debug)]
enum Progress {
    /// The broker is to be told.
    Due(AckVerdict),
    /// It goes back at the consumer's end.
    GiveBack,
    /// The broker was told, and this is or will be its answer.
    Written(Told),
    Over(Result<(), BrokerError>),
}

impl ActiveSettler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Settler for ActiveSettler {
    async fn commit(&self, _: Commit) -> Result<(), BrokerError> {
        let message = "a queue of ActiveMQ is settled one by one";
        Err(refusal("commit", Class::Permanent, reason::NOT_SUPPORTED, message))
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        let Some(first) = batch.first() else { return Vec::new() };
        let owner =
            batch.iter().filter_map(|settle| self.shared.owner(first.delivery.queue, settle.epoch)).next();
        let Some(consumer) = owner else {
            return batch.iter().map(|_| Err(not_owned(SETTLE))).collect();
        };
        let until = Instant::now() + WITHIN;
        let now = self.shared.now();
        let rules = self.rules(&consumer);
        let standings = consumer.standings(&batch);
        let judged =
            batch.iter().zip(standings).map(|(settle, standing)| judge(&rules, settle, standing, now));
        let mut progress: Vec<_> = judged.collect();
        write(&consumer, &batch, &mut progress);
        let answers = progress.into_iter().zip(&batch).map(|(progress, settle)| {
            let (consumer, position) = (&consumer, settle.delivery.position);
            async move {
                match progress {
                    Progress::Over(result) => result,
                    Progress::Written(told) => answered(consumer, position, told, until).await,
                    Progress::Due(_) | Progress::GiveBack => Err(not_owned(SETTLE)),
                }
            }
        });
        join_all(answers).await
    }
}

impl ActiveSettler {
    fn rules<'a>(&'a self, consumer: &'a Consumer) -> Rules<'a> {
        Rules {
            queue: &consumer.name,
            group: &self.shared.config.group,
            is_ordered: self.shared.config.ordering.is_ordered(),
            product: consumer.seen.product,
            dead_letters: &consumer.seen.dead_letters,
        }
    }
}

/// Waits for what the broker says to an acknowledgement. One that is refused or not answered ends the ownership: what
/// else we hold may not be ours either.
async fn answered(
    consumer: &Consumer,
    position: Position,
    told: Told,
    until: Instant,
) -> Result<(), BrokerError> {
    let late = || ClientError::Timeout { what: "an acknowledgement", after: WITHIN };
    let error = match timeout_at(until, told).await.unwrap_or_else(|_| Err(late())) {
        Ok(()) => {
            consumer.settled(position);
            return Ok(());
        }
        Err(error) => error,
    };
    let end = if error.exception().is_some() {
        Some(End::Refused(error.clone()))
    } else {
        matches!(error, ClientError::Timeout { .. }).then_some(End::Unanswered)
    };
    if let Some(end) = end {
        consumer.end(end);
    }
    Err(failed(SETTLE, error))
}

/// What settlements of a queue are judged by.
#[derive(Debug, Clone, Copy)]
struct Rules<'a> {
    queue: &'a str,
    group: &'a str,
    is_ordered: bool,
    product: Product,
    dead_letters: &'a DeadLetters,
}

/// What a settlement needs, or why it is over before it has begun.
fn judge(rules: &Rules<'_>, settle: &Settle, standing: Option<Standing<Told>>, now: Moment) -> Progress {
    if settle.not_after.is_some_and(|not_after| not_after <= now) {
        let message = "it was not begun before the moment behind which the lease may be over";
        return Progress::Over(Err(refusal(SETTLE, Class::Transient, reason::TIMED_OUT, message)));
    }
    match standing {
        None => Progress::Over(Err(not_owned(SETTLE))),
        Some(Standing::Unknown) => {
            let message = "no delivery of that position has come";
            Progress::Over(Err(refusal(SETTLE, Class::Transient, reason::NOT_OWNED, message)))
        }
        Some(Standing::Settled) => Progress::Over(Ok(())),
        Some(Standing::Written(told)) => Progress::Written(told),
        Some(Standing::GivenBack) if settle.settlement == Settlement::Release => Progress::Over(Ok(())),
        Some(Standing::Out | Standing::GivenBack) => match settle.settlement {
            Settlement::Accept => Progress::Due(AckVerdict::Done),
            Settlement::Release if rules.is_ordered => {
                let message =
                    "nothing of an ordered queue is given back by itself, only the queue as a whole";
                Progress::Over(Err(refusal(SETTLE, Class::Permanent, reason::NOT_SUPPORTED, message)))
            }
            Settlement::Release => Progress::GiveBack,
            Settlement::DeadLetter => match rules.deletes(settle) {
                Some(problem) => Progress::Over(Err(BrokerError {
                    operation: SETTLE,
                    certainty: Certainty::NotDone,
                    class: Class::Permanent,
                    problem,
                    source: None,
                })),
                None => Progress::Due(AckVerdict::Poison {
                    cause: format!("{} attempts of group {} are spent", settle.attempts, rules.group),
                }),
            },
        },
    }
}

impl Rules<'_> {
    /// Why the broker would delete a dead letter instead of keeping it.
    fn deletes(&self, settle: &Settle) -> Option<Problem> {
        let queue = self.queue;
        let unsupported = |message: String| {
            Some(Problem { reason: reason::DEAD_LETTER_UNSUPPORTED, message, remedy: String::new() })
        };
        if settle.delivery.message.properties.get(DIED_OF).is_some() {
            return unsupported(
                "the message was a dead letter before, and the broker would delete it".to_owned(),
            );
        }
        match (self.product, self.dead_letters) {
            (Product::Classic, _) if is_for_dead_letters(queue) => unsupported(format!(
                "queue {queue} is one for dead letters: the broker would delete the message"
            )),
            (Product::Classic, _) => None,
            (Product::Artemis, DeadLetters::To(address)) if address == queue => unsupported(format!(
                "queue {queue} is its own dead-letter address: the broker would hand the message over again and again"
            )),
            (Product::Artemis, DeadLetters::To(_)) => None,
            (Product::Artemis, DeadLetters::Nowhere | DeadLetters::ByRule) => {
                Some(crate::problem::no_dead_letter_address(queue))
            }
            (Product::Artemis, DeadLetters::Unseen) => Some(crate::problem::unseen_dead_letters(queue)),
        }
    }
}

/// Whether Classic takes a queue for one of dead letters, as far as its name tells.
fn is_for_dead_letters(queue: &str) -> bool {
    queue == SHARED_DEAD_LETTERS || DEAD_LETTER_PREFIXES.iter().any(|prefix| queue.starts_with(prefix))
}

/// Writes what is due, all at once and in order.
fn write(consumer: &Consumer, batch: &[Settle], progress: &mut [Progress]) {
    let due = |progress: &Progress| matches!(progress, Progress::Due(_) | Progress::GiveBack);
    let Some(epoch) =
        batch.iter().zip(&*progress).find_map(|(settle, progress)| due(progress).then_some(settle.epoch))
    else {
        return;
    };
    // What is not written is not owned any more.
    let _: Option<()> = consumer.with_unsettled(epoch, |unsettled, handle| {
        for (settle, progress) in batch.iter().zip(progress) {
            write_one(unsettled, handle, settle.delivery.position, progress);
        }
    });
}

fn write_one(
    unsettled: &mut Unsettled<Told>,
    handle: &client::Consumer,
    position: Position,
    progress: &mut Progress,
) {
    let verdict = match progress {
        Progress::Due(verdict) => verdict.clone(),
        Progress::GiveBack => {
            unsettled.given_back(position);
            *progress = Progress::Over(Ok(()));
            return;
        }
        Progress::Written(_) | Progress::Over(_) => return,
    };
    // Named twice in one call.
    if let Standing::Written(told) = unsettled.standing(position) {
        *progress = Progress::Written(told);
        return;
    }
    let Some(ack) = unsettled.ack(position, verdict) else { return };
    *progress = match handle.ack(ack) {
        Ok(answer) => {
            let told = answer.shared();
            unsettled.written(position, told.clone());
            Progress::Written(told)
        }
        Err(error) => Progress::Over(Err(failed(SETTLE, error))),
    };
}
