//! Dead letters that we write: published to a named queue, confirmed, on a connection of their own, since a broker that is
//! short of memory or disk stops reading from connections that publish.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex as StdMutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use lockstep_broker::{BrokerError, Certainty, Class, Problem, Problems, Settle};
use lockstep_model::{Epoch, Position, QueueId};
use tokio::{
    sync::{Mutex, watch},
    time::{Instant, timeout_at},
};

use crate::{
    amqp::{ANSWER_WITHIN, AmqpError, Channel, Confirm, Confirmation, Connection, Field, Fields, Properties},
    config::{Config, DeadLetter},
    consumer::Origin,
    problem::{Rank, failed, of_connection, of_credentials, permissions, reason, refusal},
    shared::Shared,
};

const DEAD_LETTER: &str = "dead-letter";
/// The code of AMQP 0-9-1 for it.
const ACCESS_REFUSED: u16 = 403;
/// What our own headers begin with.
const PREFIX: &str = "x-lockstep-";

/// The connection for dead letters, made when the first one is to be written.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    session: Mutex<Option<Session>>,
    /// Tries to connect so far; each begins with another node.
    tries: AtomicUsize,
    /// Sent and not confirmed in time: they are waited for again and not sent twice. At most as many as are unsettled.
    unconfirmed: StdMutex<BTreeMap<Key, Confirm>>,
}

/// A delivery under one ownership.
type Key = (QueueId, Epoch, Position);

#[derive(Debug, Clone)]
struct Session {
    connection: Connection,
    channel: Channel,
}

impl Publisher {
    /// Writes one dead letter and waits until then for the broker's word that a queue has it.
    pub(crate) async fn publish(
        &self,
        shared: &Shared,
        queue: &str,
        (settle, origin): (&Settle, Option<Origin>),
        until: Instant,
    ) -> Result<(), BrokerError> {
        let DeadLetter::Queue(target) = &shared.config.dead_letter else {
            let message = "no queue for dead letters is configured";
            return Err(refusal(DEAD_LETTER, Class::Permanent, reason::DEAD_LETTER_UNSUPPORTED, message));
        };
        let key = (settle.delivery.queue, settle.epoch, settle.delivery.position);
        let known = self.take(key);
        let mut confirm = match known {
            Some(confirm) => confirm,
            None => {
                let channel = timeout_at(until, self.channel(shared));
                let channel = channel.await.unwrap_or_else(|_| Err(not_connected()))?;
                let send = self.send(shared, &channel, target, queue, (settle, origin));
                timeout_at(until, send).await.unwrap_or_else(|_| Err(not_sent()))?
            }
        };
        match timeout_at(until, confirm.answered()).await {
            Ok(Ok(confirmation)) => self.judge(shared, target, confirmation),
            Ok(Err(error)) => Err(not_published(&shared.config, error)),
            Err(_) => {
                self.keep(key, confirm);
                let after = ANSWER_WITHIN;
                Err(failed(
                    DEAD_LETTER,
                    AmqpError::Timeout { what: "basic.publish", after },
                    Certainty::Unknown,
                ))
            }
        }
    }

    /// Sends one. Cancel safe: a dropped call sent nothing.
    async fn send(
        &self,
        shared: &Shared,
        channel: &Channel,
        target: &str,
        queue: &str,
        (settle, origin): (&Settle, Option<Origin>),
    ) -> Result<Confirm, BrokerError> {
        if origin.as_ref().is_some_and(|origin| !origin.whole) {
            let message = "its body was too large to be kept, so that it can't be written";
            return Err(refusal(DEAD_LETTER, Class::Permanent, reason::NOT_SUPPORTED, message));
        }
        let undecodable = settle.delivery.undecodable.as_ref();
        let body = undecodable.map_or(&settle.delivery.message.body, |undecodable| &undecodable.raw).clone();
        let properties = properties(&shared.config, queue, settle, origin.as_ref());
        if settle.not_after.is_some_and(|not_after| not_after <= shared.now()) {
            let message = "there was no connection for it before the lease may be over";
            return Err(refusal(DEAD_LETTER, Class::Transient, reason::TIMED_OUT, message));
        }
        let sent = channel.send("", target, true, &properties, body).await;
        sent.map_err(|error| not_published(&shared.config, error))
    }

    /// The confirm that is waited for still. What is of an earlier ownership of the queue is forgotten.
    fn take(&self, key: Key) -> Option<Confirm> {
        let mut unconfirmed = self.unconfirmed();
        unconfirmed.retain(|(queue, epoch, _), _| *queue != key.0 || *epoch == key.1);
        unconfirmed.remove(&key)
    }

    fn keep(&self, key: Key, confirm: Confirm) {
        self.unconfirmed().insert(key, confirm);
    }

    fn unconfirmed(&self) -> MutexGuard<'_, BTreeMap<Key, Confirm>> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, shared: &Shared, target: &str, confirmation: Confirmation) -> Result<(), BrokerError> {
        let error = |class, problem| BrokerError {
            operation: DEAD_LETTER,
            certainty: Certainty::NotDone,
            class,
            problem,
            source: None,
        };
        match confirmation {
            Confirmation::Acked => {
                shared.problems.clear(Rank::DeadLetter, target);
                Ok(())
            }
            Confirmation::Returned { .. } => {
                let problem = not_found(&shared.config, target);
                shared.problems.set(Rank::DeadLetter, target, problem.clone());
                Err(error(Class::Permanent, problem))
            }
            Confirmation::Nacked => {
                let message = format!("the broker did not take a dead letter for queue {target}");
                let remedy = "see whether the queue is full (x-max-length with reject-publish)".to_owned();
                Err(error(Class::Transient, Problem { reason: reason::BROKER_BLOCKED, message, remedy }))
            }
        }
    }

    /// A channel in confirm mode. Who comes while one is made waits for it.
    async fn channel(&self, shared: &Shared) -> Result<Channel, BrokerError> {
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|session| session.channel.is_open()) {
            return Ok(session.channel.clone());
        }
        let connection = match session.take().filter(|session| session.connection.is_open()) {
            Some(session) => session.connection,
            // Who asks does not wait long enough for a node that says nothing: the next one begins behind it.
            None => connect(shared, self.tries.fetch_add(1, Ordering::Relaxed)).await?,
        };
        let not_done = |error| failed(DEAD_LETTER, error, Certainty::NotDone);
        let (channel, _deliveries) = connection.open_channel().await.map_err(not_done)?;
        channel.confirm_select().await.map_err(not_done)?;
        *session = Some(Session { connection, channel: channel.clone() });
        Ok(channel)
    }

    /// Ends the connection, if there is one.
    pub(crate) async fn close(&self) {
        let session = self.session.lock().await.take();
        if let Some(session) = session {
            session.connection.close().await;
        }
    }
}

async fn connect(shared: &Shared, from: usize) -> Result<Connection, BrokerError> {
    let config = &shared.config;
    let refused = |problem: Problem| refusal(DEAD_LETTER, Class::Transient, problem.reason, problem.message);
    let name = format!("{} dead letters", config.name);
    let open = shared.open_config(&name).await.map_err(|bad| refused(of_credentials(&bad)))?;
    let mut last = AmqpError::ClosedByUs;
    let nodes = config.nodes.len().max(1);
    for node in config.nodes.iter().cycle().skip(from % nodes).take(nodes) {
        match Connection::open(node, &open).await {
            Ok(connection) => {
                tokio::spawn(tell_blocked(connection.blocked(), Arc::clone(&shared.problems)));
                return Ok(connection);
            }
            Err(error) => last = error,
        }
    }
    Err(refused(of_connection(&last, config)))
}

/// Tells while the broker takes none of the connection's messages, until that is dropped. A broker blocks who publishes, so
/// that something waits then.
async fn tell_blocked(mut blocked: watch::Receiver<Option<Arc<str>>>, problems: Arc<Problems<Rank>>) {
    loop {
        let reason = blocked.borrow_and_update().clone();
        match reason {
            Some(reason) => drop(problems.set(
                Rank::DeadLetter,
                "",
                Problem {
                    reason: reason::BROKER_BLOCKED,
                    message: format!("the broker takes no messages for now ({reason}): dead letters wait"),
                    remedy: "end the alarm: rabbitmqctl status shows it".to_owned(),
                },
            )),
            None => drop(problems.clear(Rank::DeadLetter, "")),
        }
        if blocked.changed().await.is_err() {
            problems.clear(Rank::DeadLetter, "");
            return;
        }
    }
}

/// There was no connection for it in time.
fn not_connected() -> BrokerError {
    let message = "no node answered in time that takes dead letters; the next one is tried";
    refusal(DEAD_LETTER, Class::Transient, reason::UNREACHABLE, message)
}

/// There was no room for it in time.
fn not_sent() -> BrokerError {
    let message = "the broker took no dead letter in time: it may be short of memory or disk";
    refusal(DEAD_LETTER, Class::Transient, reason::BROKER_BLOCKED, message)
}

/// A refusal of access ends the channel and is no doubt; everything else may have been published.
fn not_published(config: &Config, error: AmqpError) -> BrokerError {
    let Some(close) = error.close().filter(|close| close.code == ACCESS_REFUSED) else {
        let certainty = error.certainty();
        return failed(DEAD_LETTER, error, certainty);
    };
    let problem = Problem {
        reason: reason::ACCESS_REFUSED,
        message: format!("dead letters may not be published by this user: {}", close.text),
        remedy: format!("give permission: {}", permissions(config, false)),
    };
    BrokerError {
        operation: DEAD_LETTER,
        certainty: Certainty::NotDone,
        class: Class::Permanent,
        problem,
        source: Some(Arc::new(error)),
    }
}

/// The queue for dead letters does not exist.
pub(crate) fn not_found(config: &Config, target: &str) -> Problem {
    Problem {
        reason: reason::DEAD_LETTER_QUEUE_NOT_FOUND,
        message: format!(
            "the queue {target} for dead letters does not exist in the virtual host {}",
            config.vhost
        ),
        remedy: format!(
            "declare it: rabbitmqadmin -V '{}' declare queue name='{target}' durable=true \
             arguments='{{\"x-queue-type\":\"quorum\"}}'",
            config.vhost
        ),
    }
}

/// The message's own properties, persistent, and where it comes from. Left out is what would make the broker refuse, drop
/// or copy it: the user id (it must be the publisher's), the expiration, and the carbon copies.
fn properties(config: &Config, queue: &str, settle: &Settle, origin: Option<&Origin>) -> Properties {
    let raw = origin.and_then(|origin| origin.properties.as_ref());
    let of_message = |name: &[u8]| {
        !matches!(name, b"CC" | b"BCC") && !name.to_ascii_lowercase().starts_with(PREFIX.as_bytes())
    };
    // A broken table can't be sent again; what is nested in it is not looked into.
    let headers =
        raw.and_then(|raw| raw.headers()).and_then(|table| Fields::copy_of(&table, of_message).ok());
    let mut headers = headers
        .unwrap_or_default()
        .text("x-lockstep-queue", queue)
        .text("x-lockstep-consumer-group", &config.group)
        .int("x-lockstep-attempts", settle.attempts.into())
        .text("x-lockstep-message-id", &settle.delivery.message.id)
        .text("x-lockstep-position", &format!("{}/{}", settle.epoch, settle.delivery.position));
    if let Some(undecodable) = &settle.delivery.undecodable {
        headers = headers.text("x-lockstep-reason", &undecodable.reason);
    }
    if let Some(origin) = origin {
        headers = headers
            .text("x-lockstep-exchange", &String::from_utf8_lossy(&origin.exchange))
            .text("x-lockstep-routing-key", &String::from_utf8_lossy(&origin.routing_key));
    }
    if let Some(user) = raw.and_then(|raw| raw.get(Field::UserId)) {
        headers = headers.text("x-lockstep-user-id", &String::from_utf8_lossy(&user));
    }
    raw.map(Properties::copy_of)
        .unwrap_or_default()
        .without(Field::UserId)
        .without(Field::Expiration)
        .with_byte(Field::DeliveryMode, 2)
        .with_headers(headers)
}
