//! The queue's position is moved from outside: by an operator's reset, or by retention.

use lockstep_model::{Epoch, Position, QueueId};

use crate::{DataLossPolicy, Engine, Event, queue::Phase};

impl<P: Clone> Engine<P> {
    pub(crate) fn moved(&mut self, id: QueueId, epoch: Epoch, to: Position, reset: bool) {
        let Some(queue) = self.current(id, epoch, "moved") else { return };
        if queue.phase == Phase::Released {
            self.stale(Some(id), "moved");
            return;
        }
        let from = queue.cursor.at();
        self.event(Event::Moved { queue: id, from, to, reset });
        let lossy = !reset && to > from;
        if lossy && self.config.on_data_loss == DataLossPolicy::Stop {
            self.abandon(id, false);
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.stopped = Some(to);
            }
            self.dirty.insert(id);
            return;
        }
        self.move_to(id, to);
    }

    /// Goes on at `to`: what is held is stale, and what runs only keeps its lane.
    pub(crate) fn move_to(&mut self, id: QueueId, to: Position) {
        self.abandon(id, false);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.fetch.next = to;
        queue.fetch.not_before = self.now;
        queue.cursor = crate::cursor::Cursor::new(to);
        let in_flight = queue.commit.in_flight;
        queue.commit = crate::queue::CommitState::new(to);
        queue.commit.in_flight = in_flight;
        queue.commit.overtaken = in_flight.is_some();
        // An unanswered commit of the old position may still arrive after the move.
        queue.commit.again = true;
        self.record(|ledger, _| ledger.moved(id, to));
        self.dirty.insert(id);
    }
}
