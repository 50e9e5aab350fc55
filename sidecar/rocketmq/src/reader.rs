//! The reading half: long polls of owned queues.

pub(crate) mod decode;

use std::{sync::Arc, time::Duration};

use lockstep_broker::{BrokerError, Class, FetchRequest, Fetched, Reader};
use lockstep_model::Position;
use tracing::warn;

use crate::{
    leases::Refusal,
    problem::reason,
    protocol::{MessageQueue, Pull, PullReply, PullStatus},
    shared::{Shared, not_owned, refusal},
};

const FETCH: &str = "fetch";
/// How long a broker holds a pull that finds nothing, as in the Java client; it looks every 5 s, so that the answer
/// may come as much later.
const HOLD: Duration = Duration::from_secs(15);
/// How long an answer may take, as in the Java client.
const PULL_TIMEOUT: Duration = Duration::from_secs(30);
/// More are never given by brokers (maxTransferCountOnMessageInMemory).
const MAX_COUNT: u32 = 32;
/// A broker that answers at once without anything must not be asked in a tight loop.
const IDLE_PAUSE: Duration = Duration::from_millis(100);
/// A broker that asked for mercy (2, 215) or does not know the subscription yet (24, 25) is left alone for a moment.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Reads owned queues. Clones share everything.
#[derive(Debug, Clone)]
pub struct RocketReader {
    shared: Arc<Shared>,
}

impl Reader for RocketReader {
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, BrokerError> {
        let now = self.shared.now();
        let queue = match self.shared.leases.may_fetch(request.queue, request.epoch, request.from, now) {
            Ok(queue) => queue,
            // Told already, and the telling may have been dropped with a cancelled call.
            Err(Refusal::Moved { to, reset }) => return Ok(Fetched::Moved { to, reset }),
            Err(refused) => {
                tokio::time::sleep(IDLE_PAUSE).await;
                return Err(not_owned(FETCH, refused));
            }
        };
        match self.pull(&queue, request).await {
            Ok(reply) => {
                let taken = self.take(&queue, request, reply).await;
                match &taken {
                    Ok(_) => self.shared.passed(&queue),
                    // The queue stands still, and nothing else would say so.
                    Err(error) => self.shared.stuck(&queue, &error.problem),
                }
                taken
            }
            Err(error) => {
                // Nobody waits for this answer but the queue's own next fetch.
                let wants_time =
                    matches!(error.problem.reason, reason::BROKER_BUSY | reason::SUBSCRIPTION_UNKNOWN);
                tokio::time::sleep(if wants_time { REFUSED_PAUSE } else { IDLE_PAUSE }).await;
                Err(error)
            }
        }
    }
}

impl RocketReader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn pull(&self, queue: &MessageQueue, request: FetchRequest) -> Result<PullReply, BrokerError> {
        let unknown =
            || refusal(FETCH, Class::Permanent, reason::NOT_OWNED, "the topic is not subscribed to");
        let subscription = self.shared.subscription(&queue.topic).ok_or_else(unknown)?;
        let pull = Pull {
            group: Arc::clone(&self.shared.group),
            topic: Arc::clone(&queue.topic),
            queue_id: queue.queue_id,
            offset: i64::try_from(request.from.0).unwrap_or(i64::MAX),
            count: request.count.clamp(1, MAX_COUNT),
            hold: HOLD,
            expression: Arc::from(subscription.expression.as_str()),
            expression_type: subscription.expression_type(),
            version: subscription.version,
        };
        let reply = self.shared.ask(queue, &pull, PULL_TIMEOUT, None).await;
        reply.map_err(|error| self.shared.failed(FETCH, queue, error))
    }

    async fn take(
        &self,
        queue: &MessageQueue,
        request: FetchRequest,
        reply: PullReply,
    ) -> Result<Fetched, BrokerError> {
        let next = position(reply.next)?;
        // What lies behind the last message is nobody's to pass over, whatever the broker says: a commit there would
        // lose all that is published until then.
        let most = position(reply.max)?.max(request.from);
        match reply.status {
            PullStatus::OffsetMoved if next > most && !reply.is_reset() => {
                Err(nonsense(format!("to go on at {next} behind the end of the queue, {most}")))
            }
            PullStatus::OffsetMoved => Ok(self.moved(queue, request, next, &reply)),
            PullStatus::NotFound | PullStatus::NoMatch => {
                let next = next.min(most);
                if next < request.from {
                    return Err(nonsense(format!("to go on at {next} after {}", request.from)));
                }
                if next == request.from && reply.status == PullStatus::NoMatch {
                    tokio::time::sleep(IDLE_PAUSE).await;
                }
                Ok(Fetched::Deliveries { deliveries: Vec::new(), next, end: end(reply.max) })
            }
            PullStatus::Found => {
                let subscription = self.shared.subscription(&queue.topic);
                let taken = decode::deliveries(
                    &decode::Context {
                        queue: request.queue,
                        from: request.from,
                        next,
                        most,
                        bytes: request.bytes,
                        limits: &self.shared.config.limits,
                        key: &self.shared.config.key,
                        subscription,
                    },
                    reply.messages,
                )
                .map_err(nonsense)?;
                Ok(Fetched::Deliveries {
                    deliveries: taken.deliveries,
                    next: taken.next,
                    end: end(reply.max),
                })
            }
        }
    }

    fn moved(&self, queue: &MessageQueue, request: FetchRequest, to: Position, reply: &PullReply) -> Fetched {
        let (reset, remark) = (reply.is_reset(), reply.remark.as_str());
        warn!(queue = %queue, from = %request.from, to = %to, remark, "the broker moved the queue's position");
        // Before it is told, so that a call dropped now is told again by the next one.
        self.shared.leases.moved(request.queue, request.epoch, to, reset);
        Fetched::Moved { to, reset }
    }
}

fn position(offset: i64) -> Result<Position, BrokerError> {
    u64::try_from(offset).map(Position).map_err(|_| nonsense(format!("the position {offset}")))
}

fn end(max: i64) -> Option<Position> {
    u64::try_from(max).ok().map(Position)
}

fn nonsense(what: String) -> BrokerError {
    refusal(FETCH, Class::Transient, reason::UNEXPECTED_ANSWER, format!("the broker answered {what}"))
}
