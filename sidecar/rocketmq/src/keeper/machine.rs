//! The states of this member's queues, without I/O and without a clock: what happened goes in, what to do comes out.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use lockstep_broker::EpochClock;
use lockstep_model::{Epoch, Moment, Position};

use crate::protocol::MessageQueue;

/// How soon a refused lock of an allocated queue is asked for again: a member that gives a queue up unlocks it at once.
const REFUSED_AGAIN: Duration = Duration::from_millis(300);
/// How soon a failed request for locks is repeated.
const FAILED_AGAIN: Duration = Duration::from_secs(1);

/// Matches an answer with what was asked.
pub(super) type Ticket = u64;

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask a broker for the locks of its queues; held ones are renewed by it. Answer with [`Machine::locked`].
    Lock { broker: Arc<str>, ticket: Ticket, queues: Vec<MessageQueue> },
    /// Give a lock back. Answer with [`Machine::unlocked`].
    Unlock { queue: MessageQueue, ticket: Ticket },
    /// Find where to begin and commit it. Answer with [`Machine::positioned`].
    FindPosition { queue: MessageQueue, ticket: Ticket, not_after: Moment },
    /// Compare the broker's committed position with ours. Answer with [`Machine::verified`].
    Verify { queue: MessageQueue, ticket: Ticket, epoch: Epoch, not_after: Moment },
    /// The queue is ours.
    Acquired { queue: MessageQueue, epoch: Epoch, deadline: Moment, cursor: Position },
    /// The lease lives on.
    Renewed { queue: MessageQueue, epoch: Epoch, deadline: Moment },
    /// The connection to the queue's broker is lost.
    Doubtful { queue: MessageQueue, epoch: Epoch },
    /// The group gave the queue to another member.
    Revoking { queue: MessageQueue, epoch: Epoch },
    /// It stays with us after all.
    RevocationCancelled { queue: MessageQueue, epoch: Epoch },
    /// The ownership is over.
    Lost { queue: MessageQueue, epoch: Epoch },
    /// The queue was given back.
    Released { queue: MessageQueue, epoch: Epoch },
    /// The broker's committed position holds, not ours.
    Moved { queue: MessageQueue, epoch: Epoch, to: Position },
    /// A lock was refused (for the counters).
    Refused,
}

/// What a comparison with the broker's committed position found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ours, or older and was committed again.
    Ours,
    /// It is older and our own place can't be proven any more: the broker's holds.
    Moved(Position),
    /// It is above what we ever sent: somebody else owned the queue in between.
    Ahead,
}

#[derive(Debug)]
struct Line {
    /// Whether the group's allocation gives it to this member.
    assigned: bool,
    /// Changes whenever answers to earlier requests stop to concern it.
    turn: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Its lock is to be asked for.
    Wanted { at: Moment },
    /// Its lock is being asked for.
    Asking,
    /// Locked; where to begin is being found (`ticket`) or will be at `again`.
    Positioning { deadline: Moment, asked: Moment, ticket: Option<Ticket>, again: Moment },
    /// Ours.
    Owned { epoch: Epoch, deadline: Moment, asked: Moment, revoking: bool, doubt: Doubt },
    /// Being unlocked.
    Releasing { epoch: Epoch, ticket: Ticket },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    /// The connection was lost; the lock is to be asked for again.
    Lost {
        at: Moment,
    },
    /// It is being asked for.
    Asking,
    /// It was granted until `deadline`; the committed position is being compared.
    Checking {
        ticket: Ticket,
        deadline: Moment,
        asked: Moment,
    },
}

#[derive(Debug, Default)]
struct BrokerState {
    up: bool,
    /// Until then it may have forgotten locks that are still in use.
    fresh_until: Moment,
    /// Queues held when the connection broke, until others can have taken their locks regularly.
    held: BTreeMap<MessageQueue, Moment>,
    renewing: bool,
    asking: bool,
    /// Not before this moment after a failure.
    renew_again: Moment,
    ask_again: Moment,
}

#[derive(Debug)]
struct Ask {
    broker: Arc<str>,
    sent: Moment,
    renewal: bool,
    queues: Vec<(MessageQueue, u64)>,
}

/// Durations that follow from the lock's lifetime.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// How long a lock counts as ours after it was asked for.
    pub(super) lease: Duration,
    /// How often it is renewed.
    pub(super) renew_every: Duration,
}

/// All queues that this member wants or holds. At most as many as the group has.
#[derive(Debug)]
pub(super) struct Machine {
    timing: Timing,
    epochs: EpochClock,
    joined: bool,
    /// Off while another process with our client id is alive: the broker can't keep the two apart.
    acquiring: bool,
    lines: BTreeMap<MessageQueue, Line>,
    brokers: BTreeMap<Arc<str>, BrokerState>,
    asks: BTreeMap<Ticket, Ask>,
    /// Unlocks on their way. Until they are answered no lock is asked for: a broker works on several requests at a
    /// time, and an unlock that it does after the lock would leave us believing in a lock that anybody can take.
    unlocking: BTreeMap<MessageQueue, u32>,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

impl Machine {
    pub(super) fn new(timing: Timing, epochs: EpochClock) -> Self {
        Self {
            timing,
            epochs,
            joined: false,
            acquiring: true,
            lines: BTreeMap::new(),
            brokers: BTreeMap::new(),
            asks: BTreeMap::new(),
            unlocking: BTreeMap::new(),
            last_ticket: 0,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, until there is none.
    pub(super) fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn join(&mut self) {
        self.joined = true;
    }

    /// Wants nothing new; what is owned stays until it is released.
    pub(super) fn leave(&mut self, now: Moment) {
        self.assign(now, &BTreeSet::new(), false);
        self.joined = false;
    }

    /// Whether nothing is held and neither a lock nor an unlock is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.asks.is_empty() && self.unlocking.is_empty()
    }

    /// Whether an unlock is on its way.
    pub(super) fn is_releasing(&self) -> bool {
        self.lines.values().any(|line| matches!(line.state, State::Releasing { .. }))
    }

    /// Whether every allocated queue is ours and nothing else is.
    pub(super) fn is_achieved(&self) -> bool {
        self.lines.values().all(|line| line.assigned && matches!(line.state, State::Owned { .. }))
    }

    /// Queues owned or being acquired under a lock, and not asked for.
    pub(super) fn holds(&self, queue: &MessageQueue) -> bool {
        self.lines.get(queue).is_some_and(|line| line.held_deadline().is_some())
    }

    /// The owned queues.
    pub(super) fn owned(&self) -> impl Iterator<Item = (&MessageQueue, Epoch)> {
        self.lines.iter().filter_map(|(queue, line)| match line.state {
            State::Owned { epoch, .. } => Some((queue, epoch)),
            State::Wanted { .. } | State::Asking | State::Positioning { .. } | State::Releasing { .. } => {
                None
            }
        })
    }

    /// Whether a wanted queue waits for a broker that was started less than one lease ago.
    pub(super) fn waits_for_fresh(&self, now: Moment) -> Option<Arc<str>> {
        let waits = |queue: &MessageQueue, line: &Line| {
            let broker = self.brokers.get(&queue.broker_name);
            matches!(line.state, State::Wanted { .. })
                && broker.is_some_and(|b| b.up && !b.may_lock(queue, now))
        };
        self.lines
            .iter()
            .find(|(queue, line)| waits(queue, line))
            .map(|(queue, _)| Arc::clone(&queue.broker_name))
    }

    /// Stops or allows new locks.
    pub(super) fn allow_acquiring(&mut self, allowed: bool) {
        self.acquiring = allowed;
    }

    /// A broker can be asked again; `fresh_for` is how long it may still have forgotten locks that are in use.
    pub(super) fn link_up(&mut self, now: Moment, broker: &Arc<str>, fresh_for: Duration) {
        self.expire(now);
        let state = self.brokers.entry(Arc::clone(broker)).or_default();
        state.up = true;
        state.fresh_until = now + fresh_for;
        (state.renewing, state.asking) = (false, false);
        (state.renew_again, state.ask_again) = (now, now);
        self.tick(now);
    }

    /// The connection to a broker is lost.
    pub(super) fn link_down(&mut self, now: Moment, broker: &Arc<str>) {
        self.expire(now);
        let state = self.brokers.entry(Arc::clone(broker)).or_default();
        state.up = false;
        state.held.retain(|_, until| *until > now);
        self.asks.retain(|_, ask| ask.broker != *broker);
        for (queue, line) in self.lines.iter_mut().filter(|(queue, _)| queue.broker_name == *broker) {
            if let Some(deadline) = line.held_deadline() {
                state.held.insert(queue.clone(), deadline + self.timing.lease);
            }
            match &mut line.state {
                State::Wanted { .. } | State::Releasing { .. } => {}
                State::Asking | State::Positioning { .. } => line.want(now),
                State::Owned { epoch, doubt, .. } => {
                    if *doubt == Doubt::None {
                        self.actions.push_back(Action::Doubtful { queue: queue.clone(), epoch: *epoch });
                    }
                    *doubt = Doubt::Lost { at: now };
                }
            }
        }
    }

    /// The group's allocation: everything that belongs to this member.
    pub(super) fn assign(&mut self, now: Moment, assigned: &BTreeSet<MessageQueue>, wanted: bool) {
        self.expire(now);
        let mut dropped = Vec::new();
        for (queue, line) in &mut self.lines {
            line.assigned = assigned.contains(queue);
            match &mut line.state {
                State::Owned { epoch, revoking, .. }
                    if *revoking == line.assigned && (wanted || line.assigned) =>
                {
                    *revoking = !line.assigned;
                    let (queue, epoch) = (queue.clone(), *epoch);
                    self.actions.push_back(if line.assigned {
                        Action::RevocationCancelled { queue, epoch }
                    } else {
                        Action::Revoking { queue, epoch }
                    });
                }
                State::Owned { .. } | State::Releasing { .. } => {}
                State::Wanted { .. } | State::Asking | State::Positioning { .. } => {
                    if !line.assigned {
                        dropped.push(queue.clone());
                    }
                }
            }
        }
        for queue in dropped {
            self.drop_line(&queue);
        }
        for queue in assigned {
            let turn = self.ticket();
            self.lines.entry(queue.clone()).or_insert_with(|| Line {
                assigned: true,
                turn,
                state: State::Wanted { at: now },
            });
        }
        self.tick(now);
    }

    /// Queues that do not exist any more.
    pub(super) fn removed(&mut self, now: Moment, queues: &BTreeSet<MessageQueue>) {
        self.expire(now);
        for queue in queues {
            match self.lines.get_mut(queue) {
                Some(line @ Line { state: State::Releasing { .. }, .. }) => line.assigned = false,
                Some(Line { state: State::Owned { epoch, .. }, .. }) => {
                    self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
                    self.drop_line(queue);
                }
                Some(_) => self.drop_line(queue),
                None => {}
            }
        }
    }

    /// Forgets every lock without giving it back: another process has them under our name.
    pub(super) fn forsake(&mut self, now: Moment) {
        self.acquiring = false;
        self.asks.clear();
        let held: Vec<MessageQueue> = self.lines.keys().cloned().collect();
        for queue in held {
            if let Some(Line { state: State::Owned { epoch, .. }, .. }) = self.lines.get(&queue) {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
            }
            if !matches!(self.lines.get(&queue), Some(Line { state: State::Releasing { .. }, .. })) {
                self.want_or_drop(&queue, now);
            }
        }
    }

    /// Gives one queue back.
    pub(super) fn release(&mut self, now: Moment, queue: &MessageQueue, epoch: Epoch) {
        self.expire(now);
        let ticket = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        match line.state {
            State::Owned { epoch: current, .. } if current == epoch => {
                line.turn = ticket;
                line.state = State::Releasing { epoch, ticket };
                self.unlock(queue, ticket);
            }
            State::Owned { .. }
            | State::Wanted { .. }
            | State::Asking
            | State::Positioning { .. }
            | State::Releasing { .. } => {}
        }
    }

    /// An unlock was answered, or will never be: then the lock runs out at the broker.
    pub(super) fn unlocked(&mut self, now: Moment, queue: &MessageQueue, ticket: Ticket) {
        if let Some(count) = self.unlocking.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.unlocking.remove(queue);
            }
        }
        self.tick(now);
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Releasing { epoch, ticket: current } = line.state else { return };
        if current != ticket {
            return;
        }
        self.actions.push_back(Action::Released { queue: queue.clone(), epoch });
        if let Some(broker) = self.brokers.get_mut(&queue.broker_name) {
            broker.held.remove(queue);
        }
        self.want_or_drop(queue, now);
        self.tick(now);
    }

    /// A request for locks was answered with those granted, or failed.
    pub(super) fn locked(&mut self, now: Moment, ticket: Ticket, granted: Option<&BTreeSet<MessageQueue>>) {
        self.expire(now);
        let Some(ask) = self.asks.remove(&ticket) else { return };
        let state = self.brokers.entry(Arc::clone(&ask.broker)).or_default();
        let again = if granted.is_some() { now } else { now.max(ask.sent + FAILED_AGAIN) };
        if ask.renewal {
            (state.renewing, state.renew_again) = (false, again);
        } else {
            (state.asking, state.ask_again) = (false, again);
        }
        for (queue, turn) in ask.queues {
            let answer = granted.map(|granted| granted.contains(&queue));
            match self.lines.get(&queue) {
                Some(line) if line.turn == turn => self.answer(now, ask.sent, &queue, answer),
                // Granted and not wanted any more. A broker works on several requests at a time, so that a renewal may
                // have come after the unlock that was sent behind it.
                Some(Line { state: State::Releasing { .. }, .. }) | None if answer == Some(true) => {
                    self.unlock_quietly(&queue);
                }
                Some(_) | None => {}
            }
        }
        self.tick(now);
    }

    fn answer(&mut self, now: Moment, asked: Moment, queue: &MessageQueue, answer: Option<bool>) {
        let granted_until = asked + self.timing.lease;
        let ticket = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        match (&mut line.state, answer) {
            (State::Asking, None) => line.want(now),
            (State::Asking | State::Positioning { .. }, Some(false)) => {
                line.want(now + REFUSED_AGAIN);
                self.refused(queue);
            }
            (State::Asking, Some(true)) if granted_until <= now => line.want(now),
            (State::Asking, Some(true)) => {
                line.state =
                    State::Positioning { deadline: granted_until, asked, ticket: Some(ticket), again: now };
                self.find_position(queue, ticket, granted_until);
            }
            (State::Positioning { deadline, asked: last, .. }, Some(true)) => {
                (*deadline, *last) = (granted_until.max(*deadline), asked.max(*last));
            }
            (State::Owned { epoch, .. }, Some(false)) => {
                let epoch = *epoch;
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch });
                self.refused(queue);
                self.want_or_drop(queue, now + REFUSED_AGAIN);
            }
            (State::Owned { epoch, deadline, asked: last, doubt: Doubt::None, .. }, Some(true)) => {
                if granted_until > *deadline {
                    (*deadline, *last) = (granted_until, asked);
                    let renewed =
                        Action::Renewed { queue: queue.clone(), epoch: *epoch, deadline: granted_until };
                    self.actions.push_back(renewed);
                }
            }
            (State::Owned { epoch, deadline, doubt: doubt @ Doubt::Asking, .. }, Some(true)) => {
                *doubt = Doubt::Checking { ticket, deadline: granted_until, asked };
                let verify =
                    Action::Verify { queue: queue.clone(), ticket, epoch: *epoch, not_after: *deadline };
                self.actions.push_back(verify);
            }
            (State::Owned { doubt: doubt @ Doubt::Asking, .. }, None) => *doubt = Doubt::Lost { at: now },
            (
                State::Owned { .. }
                | State::Positioning { .. }
                | State::Wanted { .. }
                | State::Releasing { .. },
                _,
            ) => {}
        }
    }

    /// Where to begin was found and committed, or could not be.
    pub(super) fn positioned(
        &mut self,
        now: Moment,
        queue: &MessageQueue,
        ticket: Ticket,
        found: Option<Position>,
    ) {
        self.expire(now);
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Positioning { deadline, asked, ticket: current, .. } = line.state else { return };
        if current != Some(ticket) {
            return;
        }
        match found {
            Some(cursor) => {
                let epoch = self.epochs.advance();
                line.state = State::Owned { epoch, deadline, asked, revoking: false, doubt: Doubt::None };
                self.actions.push_back(Action::Acquired { queue: queue.clone(), epoch, deadline, cursor });
            }
            None => {
                line.state = State::Positioning { deadline, asked, ticket: None, again: now + FAILED_AGAIN }
            }
        }
        self.tick(now);
    }

    /// The broker's committed position was compared with ours, or could not be.
    pub(super) fn verified(
        &mut self,
        now: Moment,
        queue: &MessageQueue,
        ticket: Ticket,
        verdict: Option<Verdict>,
    ) {
        self.expire(now);
        let next = self.ticket();
        let Some(line) = self.lines.get_mut(queue) else { return };
        let State::Owned { epoch, deadline, asked, doubt, .. } = &mut line.state else { return };
        let Doubt::Checking { ticket: current, deadline: granted_until, asked: asked_again } = *doubt else {
            return;
        };
        if current != ticket {
            return;
        }
        let epoch = *epoch;
        match verdict {
            None => *doubt = Doubt::Lost { at: now + FAILED_AGAIN },
            Some(Verdict::Ahead) => {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch });
                line.turn = next;
                line.state = State::Positioning {
                    deadline: granted_until,
                    asked: asked_again,
                    ticket: Some(next),
                    again: now,
                };
                self.find_position(queue, next, granted_until);
                if !self.lines.get(queue).is_some_and(|line| line.assigned) {
                    self.drop_line(queue);
                }
            }
            Some(Verdict::Ours | Verdict::Moved(_)) => {
                (*deadline, *asked, *doubt) = (granted_until, asked_again, Doubt::None);
                self.actions.push_back(Action::Renewed {
                    queue: queue.clone(),
                    epoch,
                    deadline: granted_until,
                });
                if let Some(Verdict::Moved(to)) = verdict {
                    self.actions.push_back(Action::Moved { queue: queue.clone(), epoch, to });
                }
            }
        }
        self.tick(now);
    }

    /// Ends leases whose time is over, before anything else is looked at: the process may have been frozen.
    pub(super) fn expire(&mut self, now: Moment) {
        let over: Vec<MessageQueue> = self
            .lines
            .iter()
            .filter(|(_, line)| line.held_deadline().is_some_and(|deadline| deadline <= now))
            .map(|(queue, _)| queue.clone())
            .collect();
        for queue in over {
            if let Some(Line { state: State::Owned { epoch, .. }, .. }) = self.lines.get(&queue) {
                self.actions.push_back(Action::Lost { queue: queue.clone(), epoch: *epoch });
            }
            self.want_or_drop(&queue, now);
        }
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Moment) {
        self.expire(now);
        let brokers: Vec<Arc<str>> = self.brokers.keys().cloned().collect();
        for broker in brokers {
            self.ask_due(now, &broker, true);
            self.ask_due(now, &broker, false);
        }
        let due: Vec<(MessageQueue, Moment)> = self
            .lines
            .iter()
            .filter_map(|(queue, line)| match line.state {
                State::Positioning { ticket: None, again, deadline, .. } if again <= now => {
                    Some((queue.clone(), deadline))
                }
                State::Positioning { .. }
                | State::Wanted { .. }
                | State::Asking
                | State::Owned { .. }
                | State::Releasing { .. } => None,
            })
            .collect();
        for (queue, not_after) in due {
            let next = self.ticket();
            if let Some(Line { state: State::Positioning { ticket, .. }, .. }) = self.lines.get_mut(&queue) {
                *ticket = Some(next);
            }
            self.find_position(&queue, next, not_after);
        }
    }

    /// When [`Machine::tick`] has something to do at the latest.
    pub(super) fn wake(&self) -> Option<Moment> {
        let mut wake: Option<Moment> = None;
        let mut at = |moment: Moment| wake = Some(wake.map_or(moment, |w| w.min(moment)));
        for (queue, line) in &self.lines {
            if let Some(deadline) = line.held_deadline() {
                at(deadline);
            }
            if let State::Positioning { ticket: None, again, .. } = line.state {
                at(again);
            }
            let Some(broker) = self.brokers.get(&queue.broker_name).filter(|broker| broker.up) else {
                continue;
            };
            if let (Some(due), false) = (line.renew_due(self.timing.renew_every), broker.renewing) {
                at(due.max(broker.renew_again));
            }
            if let (Some(due), false) = (line.ask_due(), broker.asking) {
                let fresh = if broker.held.contains_key(queue) { Moment::ZERO } else { broker.fresh_until };
                let acquiring = self.acquiring && !self.unlocking.contains_key(queue);
                let open = acquiring || matches!(line.state, State::Owned { .. });
                if open {
                    at(due.max(broker.ask_again).max(fresh));
                }
            }
        }
        wake
    }

    fn ask_due(&mut self, now: Moment, name: &Arc<str>, renewal: bool) {
        let Some(broker) = self.brokers.get_mut(name).filter(|broker| broker.up) else { return };
        let (busy, again) = if renewal {
            (broker.renewing, broker.renew_again)
        } else {
            broker.held.retain(|_, until| *until > now);
            (broker.asking, broker.ask_again)
        };
        if busy || again > now {
            return;
        }
        let every = self.timing.renew_every;
        let ours = || self.lines.iter().filter(|(queue, _)| queue.broker_name == *name);
        let queues: Vec<(MessageQueue, u64)> = if renewal {
            if !ours().any(|(_, line)| line.renew_due(every).is_some_and(|due| due <= now)) {
                return;
            }
            // All at once: one request, one rhythm.
            ours()
                .filter(|(_, line)| line.renew_due(every).is_some())
                .map(|(q, line)| (q.clone(), line.turn))
                .collect()
        } else {
            let acquiring = self.acquiring && self.joined;
            ours()
                .filter(|(_, line)| line.ask_due().is_some_and(|due| due <= now))
                .filter(|(queue, line)| match line.state {
                    State::Owned { .. } => true,
                    State::Wanted { .. }
                    | State::Asking
                    | State::Positioning { .. }
                    | State::Releasing { .. } => {
                        acquiring && broker.may_lock(queue, now) && !self.unlocking.contains_key(queue)
                    }
                })
                .map(|(queue, line)| (queue.clone(), line.turn))
                .collect()
        };
        if queues.is_empty() {
            return;
        }
        if renewal {
            broker.renewing = true
        } else {
            broker.asking = true
        }
        for (queue, _) in &queues {
            match self.lines.get_mut(queue).map(|line| &mut line.state) {
                Some(state @ State::Wanted { .. }) => *state = State::Asking,
                Some(State::Owned { doubt: doubt @ Doubt::Lost { .. }, .. }) => *doubt = Doubt::Asking,
                Some(_) | None => {}
            }
        }
        let ticket = self.ticket();
        let keys = queues.iter().map(|(queue, _)| queue.clone()).collect();
        self.asks.insert(ticket, Ask { broker: Arc::clone(name), sent: now, renewal, queues });
        self.actions.push_back(Action::Lock { broker: Arc::clone(name), ticket, queues: keys });
    }

    fn find_position(&mut self, queue: &MessageQueue, ticket: Ticket, not_after: Moment) {
        self.actions.push_back(Action::FindPosition { queue: queue.clone(), ticket, not_after });
    }

    fn refused(&mut self, queue: &MessageQueue) {
        self.actions.push_back(Action::Refused);
        // Another owner is certain: the queue is not ours to lock early any more.
        if let Some(broker) = self.brokers.get_mut(&queue.broker_name) {
            broker.held.remove(queue);
        }
    }

    fn want_or_drop(&mut self, queue: &MessageQueue, at: Moment) {
        let turn = self.ticket();
        match self.lines.get_mut(queue) {
            Some(line) if line.assigned && self.joined => {
                line.turn = turn;
                line.state = State::Wanted { at };
            }
            Some(_) => {
                self.lines.remove(queue);
            }
            None => {}
        }
    }

    /// Forgets a queue and gives its lock back without waiting for it.
    fn drop_line(&mut self, queue: &MessageQueue) {
        if self.lines.remove(queue).is_some_and(|line| line.held_deadline().is_some()) {
            self.unlock_quietly(queue);
        }
    }

    fn unlock_quietly(&mut self, queue: &MessageQueue) {
        let ticket = self.ticket();
        self.unlock(queue, ticket);
    }

    fn unlock(&mut self, queue: &MessageQueue, ticket: Ticket) {
        *self.unlocking.entry(queue.clone()).or_default() += 1;
        self.actions.push_back(Action::Unlock { queue: queue.clone(), ticket });
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        self.last_ticket
    }
}

impl BrokerState {
    fn may_lock(&self, queue: &MessageQueue, now: Moment) -> bool {
        now >= self.fresh_until || self.held.contains_key(queue)
    }
}

impl Line {
    fn want(&mut self, at: Moment) {
        self.state = State::Wanted { at };
    }

    /// When the lease of a held lock ends.
    fn held_deadline(&self) -> Option<Moment> {
        match self.state {
            State::Positioning { deadline, .. } | State::Owned { deadline, .. } => Some(deadline),
            State::Wanted { .. } | State::Asking | State::Releasing { .. } => None,
        }
    }

    /// When the lock is to be renewed.
    fn renew_due(&self, every: Duration) -> Option<Moment> {
        match self.state {
            State::Positioning { asked, .. } | State::Owned { asked, doubt: Doubt::None, .. } => {
                Some(asked + every)
            }
            State::Owned { .. } | State::Wanted { .. } | State::Asking | State::Releasing { .. } => None,
        }
    }

    /// When the lock is to be asked for (again).
    fn ask_due(&self) -> Option<Moment> {
        match self.state {
            State::Wanted { at } | State::Owned { doubt: Doubt::Lost { at }, .. } => Some(at),
            State::Owned { .. } | State::Asking | State::Positioning { .. } | State::Releasing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
