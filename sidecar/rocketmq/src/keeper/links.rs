//! Sessions with brokers: a connection on which our heartbeat was answered. One to each master and each slave.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lockstep_broker::Problem;
use lockstep_model::Moment;
use tracing::info;

use super::{
    driver::Driver,
    jobs::{self, Entry, Session, SessionError},
};
use crate::{
    problem::{self, Peer, Rank, reason},
    remoting::{CallError, Lost},
    shared::{Master, Stats},
};

/// As for the Java client; brokers forget a member after 120 s.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How soon a failed session or heartbeat is tried again when the connection itself has no opinion.
const AGAIN: Duration = Duration::from_secs(1);
/// The shortest wait between two tries.
const SOON: Duration = Duration::from_millis(100);
/// A broker keeps a connection that broke without a word for as long, counted from when it is there again; until then
/// our own old one may be listed as a second process with our client id.
const HALF_OPEN: Duration = Duration::from_secs(130);

/// How many addresses are remembered that left the routes; beyond it our own connections there may be taken for another
/// process until the broker has found them dead.
const DEPARTED: usize = 256;

#[derive(Debug)]
struct Link {
    broker: Arc<str>,
    master: bool,
    state: State,
    /// Changes with each try and each loss, so that late answers are known.
    turn: u64,
    /// Since the process joined.
    registered: bool,
    beat: Moment,
    beating: bool,
    /// When it broke last, and from when it stands again then.
    lost: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle { at: Moment },
    Opening,
    Up,
}

impl Link {
    fn new(now: Moment, broker: &Arc<str>, master: bool) -> Self {
        Self {
            broker: Arc::clone(broker),
            master,
            state: State::Idle { at: now },
            turn: 0,
            registered: false,
            beat: now,
            beating: false,
            lost: None,
        }
    }
}

/// Which broker lies at each address, and whether as its master. An address that is named twice is the master's.
fn roles(addresses: &BTreeSet<(Arc<str>, i64, String)>) -> BTreeMap<&str, (&Arc<str>, bool)> {
    let mut roles = BTreeMap::new();
    for (broker, id, address) in addresses {
        let role = roles.entry(address.as_str()).or_insert((broker, *id == 0));
        if *id == 0 && !role.1 {
            *role = (broker, true);
        }
    }
    roles
}

/// All links, by advertised address. Bounded by the brokers in the routes.
#[derive(Debug, Default)]
pub(super) struct Links(BTreeMap<Arc<str>, Link>);

impl Links {
    /// Begins a new session on each connection, after a farewell that may not have arrived yet. Answers where a session
    /// was being opened: whether we are a member there is not known.
    pub(super) fn register_again(&mut self, now: Moment) -> Vec<Arc<str>> {
        let mut opening = Vec::new();
        for (address, link) in &mut self.0 {
            if link.state == State::Opening {
                opening.push(Arc::clone(address));
            }
            link.registered = false;
            (link.beat, link.beating) = (now, false);
            link.turn += 1;
            link.state = State::Idle { at: now };
        }
        opening
    }

    fn masters(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let masters = self.0.iter().filter(|(_, link)| link.master);
        masters.map(|(address, link)| (Arc::clone(&link.broker), Arc::clone(address))).collect()
    }

    pub(super) fn beat_now(&mut self, now: Moment) {
        for link in self.0.values_mut() {
            link.beat = now;
        }
    }

    /// The addresses at which we are a member.
    pub(super) fn registered(&self) -> Vec<Arc<str>> {
        let up = self.0.iter().filter(|(_, link)| link.registered && link.state == State::Up);
        up.map(|(address, _)| Arc::clone(address)).collect()
    }

    /// When a session is to be opened.
    pub(super) fn opening(&self) -> Option<Moment> {
        let due = self.0.values().filter_map(|link| match link.state {
            State::Idle { at } => Some(at),
            State::Up | State::Opening => None,
        });
        due.min()
    }

    pub(super) fn wake(&self) -> Option<Moment> {
        let due = self.0.values().filter_map(|link| match link.state {
            State::Idle { at } => Some(at),
            State::Up if !link.beating => Some(link.beat),
            State::Up | State::Opening => None,
        });
        due.min()
    }

    /// Whether a second listing of our client id may be our own connection that broke.
    pub(super) fn may_be_half_open(&self, broker: &str, now: Moment) -> bool {
        let mut links = self.0.values().filter(|link| *link.broker == *broker && link.master);
        links.any(|link| link.lost.is_some_and(|lost| now.since(lost) < HALF_OPEN))
    }

    /// Whether every master is up.
    pub(super) fn are_up(&self) -> bool {
        self.0.values().all(|link| !link.master || link.state == State::Up)
    }
}

impl Driver {
    /// Makes links as the routes say and opens those that are due.
    pub(super) fn open_links(&mut self, now: Moment) {
        let addresses = self.topology.addresses();
        let vanished: BTreeSet<Arc<str>> =
            self.topology.vanished().map(|queue| Arc::clone(&queue.broker_name)).collect();
        let named: BTreeSet<&str> = addresses.iter().map(|(_, _, address)| address.as_str()).collect();
        let gone: Vec<Arc<str>> = self
            .links
            .0
            .iter()
            .filter(|(address, link)| !named.contains(address.as_ref()) && !vanished.contains(&link.broker))
            .map(|(address, _)| Arc::clone(address))
            .collect();
        for address in gone {
            info!(%address, "the address is in no route any more");
            if self.links.0.get(&address).is_some_and(|link| link.registered)
                && self.departed.len() < DEPARTED
            {
                self.departed.insert(Arc::clone(&address));
            }
            self.close_link(now, &address);
        }
        for (address, (broker, master)) in roles(&addresses) {
            match self.links.0.get(address) {
                Some(link) if *link.broker == **broker && link.master == master => {}
                Some(_) => self.change_role(now, address, broker, master),
                None => {
                    let mut link = Link::new(now, broker, master);
                    if self.departed.remove(address) {
                        (link.registered, link.lost) = (true, Some(now));
                    }
                    self.links.0.insert(Arc::from(address), link);
                }
            }
        }
        let mut due = Vec::new();
        for (address, link) in &mut self.links.0 {
            if matches!(link.state, State::Idle { at } if at <= now) {
                link.state = State::Opening;
                link.turn += 1;
                let entry = match (self.joined, link.registered) {
                    (false, _) => Entry::Unregistered,
                    (true, false) => Entry::First,
                    (true, true) => Entry::Again,
                };
                due.push((Arc::clone(address), link.turn, link.master, entry));
            }
        }
        for (address, turn, master, entry) in due {
            self.start(jobs::session(Arc::clone(&self.shared), address, turn, master, entry));
        }
    }

    pub(super) fn send_heartbeats(&mut self, now: Moment) {
        let mut due = Vec::new();
        for (address, link) in &mut self.links.0 {
            if link.state == State::Up && !link.beating && link.beat <= now {
                (link.beating, link.beat) = (true, now + HEARTBEAT);
                due.push((Arc::clone(address), link.turn));
            }
        }
        for (address, turn) in due {
            self.start(jobs::beat(Arc::clone(&self.shared), address, turn));
        }
    }

    pub(super) fn opened(
        &mut self,
        now: Moment,
        address: &Arc<str>,
        turn: u64,
        result: Result<Session, SessionError>,
    ) {
        let Some(link) = self.links.0.get_mut(address).filter(|link| link.turn == turn) else { return };
        let (broker, master) = (Arc::clone(&link.broker), link.master);
        match result {
            Ok(session) => {
                link.state = State::Up;
                (link.registered, link.beating, link.beat) = (self.joined, false, now + HEARTBEAT);
                if let Some(lost) = link.lost.as_mut() {
                    Stats::count(&self.shared.stats.reconnects);
                    // One that stood still meanwhile finds our broken connections only now.
                    *lost = now;
                }
                info!(%broker, %address, master, "session with the broker stands");
                self.shared.problems.clear(Rank::Broker, address);
                self.shared.problems.clear(Rank::Membership, address);
                if master {
                    self.master_is_up(now, &broker, address, session);
                }
            }
            Err(SessionError::Duplicate) => {
                link.state = State::Idle { at: now + AGAIN };
                self.shared.problems.set(Rank::Membership, address, self.duplicate());
            }
            Err(SessionError::Call(error)) => {
                let wait = match &error {
                    CallError::Backoff { retry_in, .. } => (*retry_in).max(SOON),
                    CallError::Connect { .. } | CallError::Lost { .. } => SOON,
                    CallError::Timeout { .. }
                    | CallError::TooLate { .. }
                    | CallError::Busy { .. }
                    | CallError::Encode(_)
                    | CallError::Reply { .. } => AGAIN,
                };
                link.state = State::Idle { at: now + wait };
                self.broker_failed_at(&broker, address, &error);
            }
        }
    }

    fn master_is_up(&mut self, now: Moment, broker: &Arc<str>, address: &Arc<str>, session: Session) {
        let lease = self.shared.config.lease();
        // A broker that does not say how long it has run may just have been started.
        let mut fresh_for = session.uptime.map_or(lease, |uptime| lease.saturating_sub(uptime));
        // Another master than before knows no locks, however long it has run as a slave.
        let last = self.last_masters.insert(Arc::clone(broker), Arc::clone(address));
        if last.is_some_and(|last| last != *address) {
            fresh_for = lease;
        }
        if self.shared.masters.get(broker).is_some_and(|master| master.address != *address) {
            // Locks and commits lie with the one before.
            self.machine.link_down(now, broker);
        }
        let master = Master { address: Arc::clone(address), honest: session.honest };
        self.shared.masters.up(broker, master);
        self.machine.link_up(now, broker, fresh_for);
        self.membership.rebalance_soon();
        self.membership.routes_are_stale(now);
    }

    pub(super) fn beaten(
        &mut self,
        now: Moment,
        address: &Arc<str>,
        turn: u64,
        result: Result<(), CallError>,
    ) {
        let Some(link) = self.links.0.get_mut(address).filter(|link| link.turn == turn) else { return };
        link.beating = false;
        if let Err(error) = result {
            link.beat = now + AGAIN;
            let broker = Arc::clone(&link.broker);
            self.broker_failed_at(&broker, address, &error);
        } else {
            self.shared.problems.clear(Rank::Broker, address);
        }
    }

    /// The connection to an address is gone. It is told before a new one can be made.
    pub(super) fn link_lost(&mut self, now: Moment, address: &str, why: &Lost) {
        let Some(link) = self.links.0.get_mut(address) else { return };
        let was_up = link.state == State::Up;
        link.turn += 1;
        (link.state, link.lost) = (State::Idle { at: now }, Some(now));
        let (broker, master) = (Arc::clone(&link.broker), link.master);
        if was_up {
            info!(%broker, %address, reason = %why, "connection to the broker lost");
        }
        if master {
            self.forget_listing(&broker);
            self.master_is_down(now, &broker, address);
        }
    }

    /// Goes back to where nothing is registered: each session begins with the question whether our client id is in use.
    pub(super) fn begin_sessions_anew(&mut self, now: Moment) {
        for (broker, address) in self.links.masters() {
            self.master_is_down(now, &broker, &address);
        }
        self.register_again(now + AGAIN);
    }

    /// Begins each session anew after a farewell. A heartbeat on its way would make a member of us that no farewell
    /// reaches, and that we would take for another process until the broker forgot it; a broker forgets at once who
    /// closes the connection.
    pub(super) fn register_again(&mut self, now: Moment) {
        self.departed.clear();
        for address in self.links.register_again(now) {
            self.shared.remoting.close(&address);
        }
    }

    /// A slave became the master, or the other way round: the session begins anew on the connection that is there.
    fn change_role(&mut self, now: Moment, address: &str, broker: &Arc<str>, master: bool) {
        let Some(link) = self.links.0.get_mut(address) else { return };
        info!(%broker, %address, master, "the address has another role now");
        let before = (Arc::clone(&link.broker), link.master);
        (link.broker, link.master) = (Arc::clone(broker), master);
        link.turn += 1;
        (link.state, link.beating) = (State::Idle { at: now }, false);
        if before.1 {
            self.master_is_down(now, &before.0, address);
        }
    }

    /// An address does not serve a broker's queues any more; another one may.
    fn master_is_down(&mut self, now: Moment, broker: &Arc<str>, address: &str) {
        if self.shared.masters.get(broker).is_some_and(|master| *master.address == *address) {
            self.shared.masters.down(broker);
            self.machine.link_down(now, broker);
            // Routes that are of two minds name two masters: the other one's session is asked for again.
            for link in self.links.0.values_mut().filter(|link| link.broker == *broker && link.master) {
                if link.state == State::Up {
                    link.turn += 1;
                    (link.state, link.beating) = (State::Idle { at: now }, false);
                }
            }
        }
    }

    fn close_link(&mut self, now: Moment, address: &Arc<str>) {
        let Some(link) = self.links.0.remove(address) else { return };
        if link.master {
            self.master_is_down(now, &link.broker, address);
        }
        self.shared.problems.clear(Rank::Broker, address);
        self.shared.problems.clear(Rank::Membership, address);
        self.shared.remoting.close(address);
    }

    /// Closes everything, when the group is left.
    pub(super) fn close_links(&mut self) {
        let now = self.shared.now();
        self.departed.clear();
        let all: Vec<Arc<str>> = self.links.0.keys().cloned().collect();
        for address in all {
            self.close_link(now, &address);
        }
        for server in &self.shared.config.name_servers {
            self.shared.remoting.close(server);
        }
    }

    /// A request to a master failed: what a person should know.
    pub(super) fn broker_failed(&mut self, broker: &Arc<str>, error: &CallError) {
        if let Some(master) = self.shared.masters.get(broker) {
            self.broker_failed_at(broker, &master.address, error);
        }
    }

    pub(super) fn broker_answered(&mut self, broker: &Arc<str>) {
        if let Some(master) = self.shared.masters.get(broker) {
            self.shared.problems.clear(Rank::Broker, &master.address);
        }
    }

    fn broker_failed_at(&mut self, broker: &str, address: &Arc<str>, error: &CallError) {
        let problem = problem::of_call(error, self.shared.about(Peer::Broker(broker), None));
        tracing::debug!(broker, %address, error = %error, "request to the broker failed");
        self.shared.problems.set(Rank::Broker, address, problem);
    }

    pub(super) fn duplicate(&self) -> Problem {
        Problem {
            reason: reason::DUPLICATE_CLIENT_ID,
            message: format!(
                "another live process is in group {} as {}; the broker's locks can't keep the two apart, so no queue \
                 is taken",
                self.shared.group, self.shared.config.client_id
            ),
            remedy: format!(
                "stop the other process, or give each its own --client-id; a broker may list one that was killed for {} s",
                HALF_OPEN.as_secs()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
