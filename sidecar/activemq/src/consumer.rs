//! One consumer of a queue, from its beginning to its end: what came and was not taken, what is not settled, what is asked
//! for, and the ownership that it has become.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::Shared;
use lockstep_broker::{Clock, FetchRequest, Settle};
use lockstep_model::{Delivery, Epoch, Moment, Position, QueueId, QueueName};
use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::{self, Answer, Budget, ClientError, Deliveries, DeliveryEvent, Dispatch},
    config::{KeySource, Mode},
    message,
    unsettled::{Handed, NOTHING_DELIVERED, Standing, Unsettled},
    view::{Seen, View},
};

/// How long the broker waits for a message that was asked for. Asked again and again, it does not matter if one question is
/// lost, and each answer shows that the broker lives.
const PULL: Duration = Duration::from_secs(20);

/// The broker's answer to an acknowledgement, for all that wait for it.
pub(crate) type Told = Shared<Answer>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) queue: QueueId,
    pub(crate) name: QueueName,
    /// Its number in the queue's machine.
    pub(crate) number: u64,
    pub(crate) handle: client::Consumer,
    pub(crate) view: View,
    /// What was seen of the queue when it began.
    pub(crate) seen: Seen,
    plan: Plan,
    budget: Budget,
    clock: Clock,
    state: Mutex<State>,
    changed: Notify,
    /// Something is to be asked for when there is room.
    waits_for_room: Notify,
    /// There is an end that a settlement found.
    failed: Notify,
}

/// How messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    /// How many may be unsettled.
    pub(crate) lookahead: u32,
}

#[derive(Debug, Default)]
struct State {
    epoch: Option<Epoch>,
    deadline: Moment,
    doubtful: bool,
    over: bool,
    /// It was given back in order, so that nothing of it ran any more.
    given_back: bool,
    /// What a settlement found, until it is told.
    end: Option<End>,
    /// A message was asked for, and none has come.
    asked: bool,
    /// At most as many as the lookahead.
    inbox: VecDeque<(Position, Dispatch)>,
    /// The next one, read already and too large for the fetch before.
    next: Option<Delivery>,
    unsettled: Unsettled<Told>,
}

/// What a fetch finds.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Something, and where to go on.
    Deliveries(Vec<Delivery>, Position),
    /// Nothing now.
    Nothing,
    /// The ownership is over or in doubt.
    NotOwned,
}

/// What ended a consumer.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// The broker wants it to end.
    Cancelled,
    /// It ended, or the connection did.
    Closed(ClientError),
    /// An acknowledgement was refused: what we have is not ours, as far as the broker knows.
    Refused(ClientError),
    /// An acknowledgement was not answered: its fate is not known.
    Unanswered,
}

/// Whether one more message is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Now,
    WhenRoom,
    No,
}

impl Plan {
    /// A queue of which nothing is out may always ask for one, so that none waits for ever for what others hold.
    fn ask(self, untold: usize, asked: bool, has_room: bool) -> Ask {
        match self.mode {
            Mode::Push => Ask::No,
            Mode::Pull if asked || untold >= self.lookahead as usize => Ask::No,
            Mode::Pull if has_room || untold == 0 => Ask::Now,
            Mode::Pull => Ask::WhenRoom,
        }
    }
}

impl Consumer {
    pub(crate) fn new(
        (queue, name): (QueueId, QueueName),
        number: u64,
        handle: client::Consumer,
        (view, seen): (View, Seen),
        (plan, budget, clock): (Plan, Budget, Clock),
    ) -> Self {
        Self {
            queue,
            name,
            number,
            handle,
            view,
            seen,
            plan,
            budget,
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            waits_for_room: Notify::new(),
            failed: Notify::new(),
        }
    }

    /// Takes what comes until the end.
    pub(crate) async fn receive(&self, mut deliveries: Deliveries) -> End {
        loop {
            let room = async {
                self.waits_for_room.notified().await;
                self.budget.room().await;
            };
            let mut event = tokio::select! {
                biased;
                () = self.failed.notified() => None,
                event = deliveries.next() => Some(event),
                () = room => None,
            };
            let mut state = self.lock();
            if let Some(end) = state.end.take() {
                return end;
            }
            while let Some(arrived) = event {
                match arrived {
                    DeliveryEvent::Message(dispatch) => state.arrived(dispatch),
                    DeliveryEvent::Nothing => state.asked = false,
                    DeliveryEvent::Cancelled => return End::Cancelled,
                    DeliveryEvent::Closed(error) => return End::Closed(error),
                }
                event = deliveries.try_next();
            }
            self.ask_in(&mut state);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// It has become the queue's owner: messages may come.
    pub(crate) fn owns(&self, epoch: Epoch, deadline: Moment) {
        let mut state = self.lock();
        state.epoch = Some(epoch);
        state.deadline = deadline;
        match self.plan.mode {
            // A connection that has ended says so by itself.
            Mode::Push => drop(self.handle.prefetch(self.plan.lookahead)),
            Mode::Pull => self.ask_in(&mut state),
        }
    }

    pub(crate) fn renewed(&self, deadline: Moment) {
        let mut state = self.lock();
        state.deadline = deadline;
        self.ask_in(&mut state);
    }

    /// A settlement found that it is of no use any more.
    pub(crate) fn end(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.failed.notify_one();
    }

    pub(crate) fn doubtful(&self) {
        let mut state = self.lock();
        state.doubtful = true;
        state.forget();
        drop(state);
        self.changed.notify_one();
    }

    /// It was given back in order; the end of the ownership follows.
    pub(crate) fn given_back(&self) {
        self.lock().given_back = true;
    }

    /// The ownership is over; nothing of it is read or settled any more.
    pub(crate) fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        state.forget();
        drop(state);
        self.changed.notify_one();
    }

    /// Wakes when something has come or changed since this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Takes what a fetch asks for.
    pub(crate) fn take(&self, request: FetchRequest, key: &KeySource, most: usize) -> Taken {
        let mut state = self.lock();
        if !state.is_owned(request.epoch, self.clock.now()) {
            return Taken::NotOwned;
        }
        let context = message::Context { queue: self.queue, key, most };
        let mut deliveries = Vec::new();
        let mut bytes = 0_usize;
        while deliveries.len() < request.count as usize {
            let Some(delivery) = state.read(context) else { break };
            bytes = bytes.saturating_add(delivery.message.body.len());
            if !deliveries.is_empty() && bytes > request.bytes {
                state.next = Some(delivery);
                break;
            }
            state.unsettled.taken(delivery.position);
            deliveries.push(delivery);
        }
        match deliveries.last() {
            Some(last) => {
                let next = last.position.next();
                Taken::Deliveries(deliveries, next)
            }
            None => Taken::Nothing,
        }
    }

    /// How far the settlement of each has come; `None` where it is not owned under that epoch.
    pub(crate) fn standings(&self, batch: &[Settle]) -> Vec<Option<Standing<Told>>> {
        let now = self.clock.now();
        let state = self.lock();
        let standing = |settle: &Settle| {
            let position = settle.delivery.position;
            state.is_owned(settle.epoch, now).then(|| state.unsettled.standing(position))
        };
        batch.iter().map(standing).collect()
    }

    /// Runs something on what is not settled, if it is owned under that epoch, and asks for more where there is room then.
    pub(crate) fn with_unsettled<T>(
        &self,
        epoch: Epoch,
        run: impl FnOnce(&mut Unsettled<Told>, &client::Consumer) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        if !state.is_owned(epoch, self.clock.now()) {
            return None;
        }
        let result = run(&mut state.unsettled, &self.handle);
        self.ask_in(&mut state);
        Some(result)
    }

    /// The broker has done what it was told of it.
    pub(crate) fn settled(&self, position: Position) {
        self.lock().unsettled.settled(position);
    }

    /// Whether something goes back at the end only.
    pub(crate) fn has_given_back(&self) -> bool {
        self.lock().unsettled.has_given_back()
    }

    /// What the broker is told at the end.
    pub(crate) fn last_delivered(&self) -> i64 {
        let state = self.lock();
        // What runs was acknowledged before; what is left goes back as if nobody had seen it.
        if state.given_back { NOTHING_DELIVERED } else { state.unsettled.last_delivered() }
    }

    /// Asks for one more message where that is due.
    fn ask_in(&self, state: &mut State) {
        let now = self.clock.now();
        if !state.epoch.is_some_and(|epoch| state.is_owned(epoch, now)) {
            return;
        }
        match self.plan.ask(state.unsettled.untold(), state.asked, self.budget.has_room()) {
            // A consumer that has ended says so by itself.
            Ask::Now => state.asked = self.handle.pull(PULL).is_ok(),
            Ask::WhenRoom => self.waits_for_room.notify_one(),
            Ask::No => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No change leaves the state half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn arrived(&mut self, dispatch: Dispatch) {
        self.asked = false;
        let handed = Handed { destination: dispatch.destination.clone(), id: dispatch.id.clone() };
        let position = self.unsettled.arrived(handed);
        if !self.over && !self.doubtful {
            self.inbox.push_back((position, dispatch));
        }
    }

    /// The next one that was not taken.
    fn read(&mut self, context: message::Context<'_>) -> Option<Delivery> {
        self.next.take().or_else(|| {
            let (position, dispatch) = self.inbox.pop_front()?;
            Some(message::delivery(context, position, dispatch))
        })
    }

    fn forget(&mut self) {
        self.inbox.clear();
        self.next = None;
    }

    fn is_owned(&self, epoch: Epoch, now: Moment) -> bool {
        self.epoch == Some(epoch) && !self.over && !self.doubtful && now < self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_asked_for_at_a_time_while_fewer_are_out_than_may_be() {
        let plan = |lookahead| Plan { mode: Mode::Pull, lookahead };
        assert_eq!(plan(1).ask(0, false, true), Ask::Now);
        assert_eq!(plan(1).ask(0, true, true), Ask::No);
        assert_eq!(plan(1).ask(1, false, true), Ask::No);
        assert_eq!(plan(8).ask(7, false, true), Ask::Now);
        assert_eq!(plan(8).ask(8, false, true), Ask::No);
    }

    #[test]
    fn without_room_only_a_queue_that_has_nothing_asks() {
        let plan = Plan { mode: Mode::Pull, lookahead: 8 };
        assert_eq!(plan.ask(1, false, false), Ask::WhenRoom);
        assert_eq!(plan.ask(0, false, false), Ask::Now);
        assert_eq!(plan.ask(8, false, false), Ask::No);
    }

    #[test]
    fn nothing_is_asked_for_that_the_broker_sends_by_itself() {
        let plan = Plan { mode: Mode::Push, lookahead: 8 };
        assert_eq!(plan.ask(0, false, true), Ask::No);
    }
}
