//! The end: finish what runs, give everything back, be done by the deadline.

use lockstep_model::Moment;

use crate::{
    Engine, Output,
    queue::{Leave, Phase},
    timers::TimerKey,
};

impl<P: Clone> Engine<P> {
    pub(crate) fn drain_requested(&mut self, deadline: Moment) {
        let deadline = self.drain.map_or(deadline, |earlier| earlier.min(deadline));
        self.drain = Some(deadline);
        self.timers.set(TimerKey::Drain, deadline);
        for id in self.queues.keys().copied().collect::<Vec<_>>() {
            self.begin_release(id, Leave::Group, Some(deadline));
        }
        if deadline <= self.now {
            self.drain_deadline();
        }
    }

    pub(crate) fn drain_deadline(&mut self) {
        for id in self.queues.keys().copied().collect::<Vec<_>>() {
            if self.queues.get(&id).is_some_and(|queue| queue.phase != Phase::Released) {
                self.release_deadline(id);
            }
            self.drop_queue(id);
        }
        let open: Vec<_> = self.running.iter().filter(|(_, r)| !r.cancelled).map(|(id, _)| *id).collect();
        for attempt in open {
            if let Some(running) = self.running.get_mut(&attempt) {
                running.cancelled = true;
            }
            self.emit(Output::CancelAttempt { attempt });
        }
        self.finish();
    }

    /// Ends a drain as soon as nothing is left.
    pub(crate) fn maybe_finish(&mut self) {
        if self.drain.is_some() && self.queues.is_empty() && self.running.is_empty() && self.group.is_out() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if !std::mem::replace(&mut self.finished, true) {
            self.timers.clear_all();
            self.emit(Output::Finished);
        }
    }
}
