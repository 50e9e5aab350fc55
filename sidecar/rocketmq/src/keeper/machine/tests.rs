mod doubt;
mod giving_back;
mod locks;
mod restarts;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockstep_broker::EpochClock;
use lockstep_model::{Epoch, Moment, Position};

use super::{Action, Machine, Ticket, Timing, Verdict};
use crate::protocol::MessageQueue;

/// A lock life of 60 s.
const TIMING: Timing = Timing { lease: Duration::from_secs(30), renew_every: Duration::from_secs(10) };

struct Bench {
    machine: Machine,
    now: Moment,
}

fn key(id: i32) -> MessageQueue {
    MessageQueue { topic: Arc::from("t"), broker_name: Arc::from("b"), queue_id: id }
}

fn set(ids: &[i32]) -> BTreeSet<MessageQueue> {
    ids.iter().copied().map(key).collect()
}

impl Bench {
    fn joined() -> Self {
        let mut machine = Machine::new(TIMING, EpochClock::default());
        machine.join();
        let mut bench = Self { machine, now: Moment::from_millis(1_000_000) };
        bench.up(0);
        bench
    }

    /// A machine that owns queue 0 with the cursor 5.
    fn owning() -> (Self, Epoch) {
        let mut bench = Self::joined();
        let epoch = bench.own(0);
        (bench, epoch)
    }

    fn own(&mut self, id: i32) -> Epoch {
        let mut all: BTreeSet<MessageQueue> = self.machine.lines.keys().cloned().collect();
        all.insert(key(id));
        self.machine.assign(self.now, &all, true);
        let (ticket, _) = self.asked();
        self.machine.locked(self.now, ticket, Some(&set(&[id])));
        let Some(Action::FindPosition { ticket, .. }) = self.machine.poll() else {
            panic!("no position asked")
        };
        self.machine.positioned(self.now, &key(id), ticket, Some(Position(5)));
        let Some(Action::Acquired { epoch, cursor: Position(5), .. }) = self.machine.poll() else {
            panic!("not acquired")
        };
        epoch
    }

    fn up(&mut self, fresh_s: u64) {
        self.machine.link_up(self.now, &Arc::from("b"), Duration::from_secs(fresh_s));
    }

    fn down(&mut self) {
        self.machine.link_down(self.now, &Arc::from("b"));
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.machine.tick(self.now);
    }

    fn asked(&mut self) -> (Ticket, Vec<MessageQueue>) {
        match self.machine.poll() {
            Some(Action::Lock { ticket, queues, .. }) => (ticket, queues),
            other => panic!("expected a request for locks, got {other:?}"),
        }
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.machine.poll()).collect()
    }

    fn nothing(&mut self) {
        assert_eq!(self.actions(), []);
    }

    fn at(&self, millis: u64) -> Moment {
        self.now + Duration::from_millis(millis)
    }

    /// The lock is granted, and where to begin is asked for.
    fn locks(&mut self, id: i32) -> Ticket {
        let (ticket, _) = self.asked();
        self.machine.locked(self.now, ticket, Some(&set(&[id])));
        self.finding()
    }

    fn finding(&mut self) -> Ticket {
        match self.machine.poll() {
            Some(Action::FindPosition { ticket, .. }) => ticket,
            other => panic!("expected a question for the position, got {other:?}"),
        }
    }

    fn unlocking(&mut self) -> Ticket {
        match self.machine.poll() {
            Some(Action::Unlock { ticket, .. }) => ticket,
            other => panic!("expected an unlock, got {other:?}"),
        }
    }

    /// The connection breaks and is made again, the lock of queue 0 is granted, and the place is to be compared.
    fn doubts(&mut self, epoch: Epoch) -> Ticket {
        self.down();
        self.up(0);
        assert_eq!(self.machine.poll(), Some(Action::Doubtful { queue: key(0), epoch }));
        let (ticket, _) = self.asked();
        self.machine.locked(self.now, ticket, Some(&set(&[0])));
        match self.machine.poll() {
            Some(Action::Verify { ticket, epoch: same, .. }) if same == epoch => ticket,
            other => panic!("expected a comparison, got {other:?}"),
        }
    }
}
