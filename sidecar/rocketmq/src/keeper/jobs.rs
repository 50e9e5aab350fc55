//! Requests on their way: each is a future of its own in the keeper's task and ends in one answer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockstep_model::{Epoch, Moment, Position, QueueId};

use super::{
    machine::{Ticket, Verdict},
    topology::{Looked, Route},
};
use crate::{
    position::{self, Place, Start},
    problem::{self, Peer},
    protocol::{
        BrokerRuntimeInfo, Heartbeat, LockQueues, MemberList, MessageQueue, ResponseCode, RouteRequest,
        RuntimeInfoRequest, TopicConfigRequest, TopicQueues, TopicRoute, UnlockQueues, Unregister,
    },
    remoting::CallError,
    shared::{AskError, Shared},
};

/// As for the Java client.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// As for the Java client.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// A last word that nobody must wait for.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(1);
/// More queues of one topic are nonsense, or more than a group can be served with.
const MAX_QUEUES: usize = 16_384;
/// More addresses of one topic's brokers are nonsense; so many connections are never opened.
const MAX_ADDRESSES: usize = 512;

/// How a request ended.
#[derive(Debug)]
pub(super) enum Done {
    Route {
        topic: Arc<str>,
        looked: Result<Looked, lockstep_broker::Problem>,
    },
    Session {
        address: Arc<str>,
        turn: u64,
        result: Result<Session, SessionError>,
    },
    Beat {
        address: Arc<str>,
        turn: u64,
        result: Result<(), CallError>,
    },
    Members {
        topic: Arc<str>,
        broker: Arc<str>,
        result: Result<Vec<String>, MembersError>,
    },
    Locked {
        broker: Arc<str>,
        ticket: Ticket,
        granted: Option<BTreeSet<MessageQueue>>,
        error: Option<CallError>,
    },
    Unlocked {
        queue: MessageQueue,
        ticket: Ticket,
    },
    Positioned {
        queue: MessageQueue,
        ticket: Ticket,
        result: Result<Start, AskError>,
    },
    Verified {
        queue: MessageQueue,
        ticket: Ticket,
        result: Result<Verdict, AskError>,
    },
    Reset {
        queue: MessageQueue,
        id: QueueId,
        epoch: Epoch,
        to: Position,
    },
    Unregistered,
    SteppedBack,
}

/// What is known of a broker whose session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    /// How long it has been running; `None` when it does not say.
    pub(super) uptime: Option<Duration>,
    /// Whether it is of 5.0 or later.
    pub(super) honest: bool,
}

/// Why no session stands.
#[derive(Debug)]
pub(super) enum SessionError {
    /// Another connection is registered under our client id.
    Duplicate,
    Call(CallError),
}

/// Why a topic's members are not known.
#[derive(Debug)]
pub(super) enum MembersError {
    /// The topic is of a kind that is not served.
    Unsupported(String),
    Ask(AskError),
}

/// Asks the name servers in turn, `first` first, until one answers.
pub(super) async fn route(shared: Arc<Shared>, topic: Arc<str>, first: usize) -> Done {
    let servers = &shared.config.name_servers;
    let mut looked = Err(lockstep_broker::Problem {
        reason: problem::reason::NAME_SERVER_UNREACHABLE,
        message: "no name server is configured".to_owned(),
        remedy: "set nameServers".to_owned(),
    });
    for turn in 0..servers.len() {
        let Some(server) = servers.get((first + turn) % servers.len()) else { continue };
        let request = RouteRequest { topic: topic.to_string() };
        looked = match shared.remoting.call(server, &request, SESSION_TIMEOUT).await {
            Ok(route) => Ok(understood(&topic, route)),
            Err(error) if error.refusal() == Some(ResponseCode::TopicNotExist) => Ok(Looked::Missing),
            Err(error) => Err(problem::of_call(&error, shared.about(Peer::NameServer, Some(&topic)))),
        };
        if looked.is_ok() {
            break;
        }
    }
    Done::Route { topic, looked }
}

pub(super) fn understood(topic: &Arc<str>, route: TopicRoute) -> Looked {
    if route.logical {
        return Looked::Unsupported("it is a static topic (its queues are mapped over brokers)".to_owned());
    }
    let count = |queues: &TopicQueues| usize::try_from(queues.read_queues).unwrap_or(0);
    let readable = || route.queues.iter().filter(|queues| queues.readable());
    let queues = readable().map(count).fold(0, usize::saturating_add);
    let addresses: usize = route.brokers.iter().map(|broker| broker.addresses.len()).sum();
    // Before anything is made of the numbers: they are only words of a name server.
    if queues > MAX_QUEUES || addresses > MAX_ADDRESSES {
        return Looked::Unsupported(format!(
            "the name server says that it has {queues} queues on brokers with {addresses} addresses"
        ));
    }
    let mut understood = Route::default();
    for queues in readable() {
        let broker: Arc<str> = Arc::from(queues.broker.as_str());
        understood.queues.extend((0..queues.read_queues).map(|queue_id| MessageQueue {
            topic: Arc::clone(topic),
            broker_name: Arc::clone(&broker),
            queue_id,
        }));
    }
    for broker in route.brokers {
        understood.brokers.insert(Arc::from(broker.broker), broker.addresses);
    }
    Looked::Found(understood)
}

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// This process has not been registered there since it joined, so that our client id must not be.
    First,
    /// It has.
    Again,
    /// The group was left, and queues that are still busy keep their locks until they are released.
    Unregistered,
}

/// Registers on a fresh connection and learns what is to be known of the broker.
pub(super) async fn session(
    shared: Arc<Shared>,
    address: Arc<str>,
    turn: u64,
    master: bool,
    entry: Entry,
) -> Done {
    let result = open(&shared, &address, master, entry).await;
    Done::Session { address, turn, result }
}

async fn open(shared: &Shared, address: &str, master: bool, entry: Entry) -> Result<Session, SessionError> {
    if entry == Entry::First && master {
        let members = MemberList { group: shared.config.group.clone() };
        match shared.remoting.call(address, &members, SESSION_TIMEOUT).await {
            Ok(members) if members.contains(&shared.config.client_id) => return Err(SessionError::Duplicate),
            Ok(_) => {}
            // A broker may refuse the question before it knows the group; without a connection the heartbeat fails too.
            Err(error) if error.refusal().is_some() => {}
            Err(error) => return Err(SessionError::Call(error)),
        }
    }
    if entry != Entry::Unregistered {
        let heartbeat = heartbeat(shared);
        shared.remoting.call(address, &heartbeat, SESSION_TIMEOUT).await.map_err(SessionError::Call)?;
    }
    if !master {
        return Ok(Session { uptime: None, honest: true });
    }
    let info = match shared.remoting.call(address, &RuntimeInfoRequest, SESSION_TIMEOUT).await {
        Ok(info) => info,
        // Asking is allowed to administrators only where permissions are on: then its uptime stays unknown.
        Err(error) if entry != Entry::Unregistered || error.refusal().is_some() => {
            BrokerRuntimeInfo::default()
        }
        Err(error) => return Err(SessionError::Call(error)),
    };
    Ok(Session { uptime: uptime(&info), honest: honest(&info) })
}

/// The broker's own count, `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`: its boot time is by a clock that we do not know.
pub(super) fn uptime(info: &BrokerRuntimeInfo) -> Option<Duration> {
    let text = info.table.get("runtime")?;
    let mut parts = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut seconds = 0_u64;
    let mut units = 0;
    while let (Some(count), Some(unit)) = (parts.next(), parts.next()) {
        let unit = match unit {
            "days" => 86_400,
            "hours" => 3_600,
            "minutes" => 60,
            "seconds" => 1,
            _ => return None,
        };
        seconds = seconds.saturating_add(count.parse::<u64>().ok()?.saturating_mul(unit));
        units += 1;
    }
    (units > 0).then(|| Duration::from_secs(seconds))
}

fn honest(info: &BrokerRuntimeInfo) -> bool {
    let version = info.version.as_deref().and_then(|version| version.strip_prefix('V'));
    let major =
        version.and_then(|version| version.split(['_', '.']).next()).and_then(|major| major.parse().ok());
    major.is_some_and(|major: u32| major >= 5)
}

pub(super) fn heartbeat(shared: &Shared) -> Heartbeat {
    Heartbeat {
        client_id: shared.config.client_id.clone(),
        group: shared.config.group.clone(),
        subscriptions: shared.subscriptions.clone(),
    }
}

pub(super) async fn beat(shared: Arc<Shared>, address: Arc<str>, turn: u64) -> Done {
    let result = shared.remoting.call(&address, &heartbeat(&shared), SESSION_TIMEOUT).await;
    Done::Beat { address, turn, result }
}

/// Asks one broker for the group's members, and at the first time whether the topic is of a kind that is served.
pub(super) async fn members(shared: Arc<Shared>, topic: Arc<str>, broker: Arc<str>, vetted: bool) -> Done {
    let anywhere = MessageQueue { topic: Arc::clone(&topic), broker_name: Arc::clone(&broker), queue_id: 0 };
    if !vetted {
        let request = TopicConfigRequest { topic: topic.to_string() };
        // Brokers that can't say have no such topics either.
        if let Ok(config) = shared.ask(&anywhere, &request, SESSION_TIMEOUT, None).await {
            let kind = config.attributes.get("queue.type").filter(|kind| kind.as_str() == "BatchCQ");
            if kind.is_some() {
                let why = "it is a batch queue (queue.type=BatchCQ)".to_owned();
                return Done::Members { topic, broker, result: Err(MembersError::Unsupported(why)) };
            }
        }
    }
    let request = MemberList { group: shared.config.group.clone() };
    let result = shared.ask(&anywhere, &request, SESSION_TIMEOUT, None).await.map_err(MembersError::Ask);
    Done::Members { topic, broker, result }
}

pub(super) async fn lock(
    shared: Arc<Shared>,
    broker: Arc<str>,
    ticket: Ticket,
    queues: Vec<MessageQueue>,
) -> Done {
    let anywhere = queues.first().cloned();
    let request =
        LockQueues { group: shared.config.group.clone(), client_id: shared.config.client_id.clone(), queues };
    let result = match anywhere {
        Some(queue) => shared.ask(&queue, &request, LOCK_TIMEOUT, None).await,
        None => Ok(BTreeSet::new()),
    };
    match result {
        Ok(granted) => Done::Locked { broker, ticket, granted: Some(granted), error: None },
        Err(AskError::Call(error)) => Done::Locked { broker, ticket, granted: None, error: Some(error) },
        Err(AskError::NotConnected) => Done::Locked { broker, ticket, granted: None, error: None },
    }
}

/// Unlocks, and tries once more: a lock that stays behind starves the queue until it runs out.
pub(super) async fn unlock(shared: Arc<Shared>, queue: MessageQueue, ticket: Ticket) -> Done {
    let request = UnlockQueues {
        group: shared.config.group.clone(),
        client_id: shared.config.client_id.clone(),
        queues: vec![queue.clone()],
    };
    for _ in 0..2 {
        match shared.ask(&queue, &request, LOCK_TIMEOUT, None).await {
            Ok(()) | Err(AskError::NotConnected) => break,
            Err(AskError::Call(error)) => {
                tracing::warn!(queue = %queue, error = %error, "failed to unlock the queue, its lock may run out instead");
            }
        }
    }
    Done::Unlocked { queue, ticket }
}

pub(super) async fn find_position(
    shared: Arc<Shared>,
    queue: MessageQueue,
    ticket: Ticket,
    new: bool,
    not_after: Moment,
) -> Done {
    let result = position::find(&shared, &queue, new, not_after).await;
    Done::Positioned { queue, ticket, result }
}

pub(super) async fn verify(
    shared: Arc<Shared>,
    queue: MessageQueue,
    ticket: Ticket,
    (id, epoch): (QueueId, Epoch),
    not_after: Moment,
) -> Done {
    let result = position::verify(&shared, &queue, (id, epoch), not_after).await.map(|place| match place {
        Place::Kept => Verdict::Ours,
        Place::Moved(to) => Verdict::Moved(to),
        Place::Ahead => Verdict::Ahead,
    });
    Done::Verified { queue, ticket, result }
}

/// Commits a position that an operator set. The leases know it already, so that no older commit follows.
pub(super) async fn reset(
    shared: Arc<Shared>,
    queue: MessageQueue,
    (id, epoch): (QueueId, Epoch),
    to: Position,
    not_after: Moment,
) -> Done {
    if let Err(error) = position::commit(&shared, &queue, to, not_after).await {
        tracing::warn!(queue = %queue, to = %to, error = ?error, "failed to commit the position that was set by hand");
    }
    Done::Reset { queue, id, epoch, to }
}

/// The end of the membership, as asked.
pub(super) async fn unregister(shared: Arc<Shared>, addresses: Vec<Arc<str>>) -> Done {
    say_farewell(&shared, &addresses).await;
    Done::Unregistered
}

/// The end of a membership that should not have begun.
pub(super) async fn farewell(shared: Arc<Shared>, addresses: Vec<Arc<str>>) -> Done {
    say_farewell(&shared, &addresses).await;
    Done::SteppedBack
}

async fn say_farewell(shared: &Shared, addresses: &[Arc<str>]) {
    let request =
        Unregister { client_id: shared.config.client_id.clone(), group: shared.config.group.clone() };
    let calls = addresses.iter().map(|address| shared.remoting.call(address, &request, UNREGISTER_TIMEOUT));
    for (address, result) in addresses.iter().zip(futures_util::future::join_all(calls).await) {
        if let Err(error) = result {
            tracing::warn!(%address, error = %error, "failed to unregister, the broker notices when the connection ends");
        }
    }
}

#[cfg(test)]
mod tests;
