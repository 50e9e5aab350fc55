//! What a change of the hot settings does to what is under way.
//!
//! | field | heads not attempted | running attempts | waiting heads | held heads (blocked, storm, undecodable) |
//! |---|---|---|---|---|
//! | `state` | `Paused`: abandoned when the queue is released; `Running`: join when healthy | end by themselves | abandoned at once | abandoned at once |
//! | `max_in_flight` | start under the new bound | end by themselves | - | - |
//! | `timeout` | next attempt | keep theirs | next attempt | next attempt |
//! | `max_attempts` | next outcome | next outcome | next outcome | tried at once, judged anew |
//! | `backoff` | next wait | next wait | a shorter maximum: tried at once | a shorter maximum: tried at once |
//! | `retry_after_max` | next answer | next answer | a pause or snooze under way stays | - |
//! | `when_exhausted` | next outcome | next outcome | next outcome | tried at once, judged anew |
//! | `status_codes` | next outcome | next outcome | misconfigured ones are tried at once | tried at once, judged anew |
//! | `storm` | next outcome | next outcome | - | tried at once, judged anew |
//! | `undecodable` | when it becomes the head | - | - | undecodable ones are decided at once |
//! | `on_data_loss` | `Continue` ends a stop at once; `Stop` counts from the next loss | - | - | - |
//! | `hand_over` | - | - | - | an ill application's time counts anew from now |
//! | `buffer_count`, `buffer_bytes`, `span` | kept; the next fetch keeps to the new bound | - | - | - |
//! | `blocked_age` | looked at anew at once | same | same | - |
//!
//! `mode`, `capabilities`, `seed` and `quiet_until` never change.

use crate::{
    Config, DataLossPolicy, Engine, Hold,
    lane::{LaneState, Why},
    timers::TimerKey,
};

impl<P: Clone> Engine<P> {
    pub(crate) fn reconfigured(&mut self, config: Config) {
        debug_assert!(
            config.mode == self.config.mode && config.capabilities == self.config.capabilities,
            "mode and capabilities must stay the same for the life of an engine"
        );
        let old = std::mem::replace(&mut self.config, config);
        self.config.mode = old.mode;
        self.config.capabilities = old.capabilities;
        self.config.seed = old.seed;
        self.config.quiet_until = old.quiet_until;
        self.limit.set_max(self.config.max_in_flight);
        let judged_anew = old.when_exhausted != self.config.when_exhausted
            || old.max_attempts != self.config.max_attempts
            || old.status_codes != self.config.status_codes
            || old.storm != self.config.storm;
        let decoded_anew = old.undecodable != self.config.undecodable;
        let sooner = self.config.backoff.longest() < old.backoff.longest();
        let mut wake = Vec::new();
        let mut decode = Vec::new();
        for (id, queue) in &self.queues {
            for (key, lane) in &queue.lanes {
                match lane.state {
                    LaneState::Waiting(Why::Blocked | Why::Storm | Why::Misconfigured)
                        if judged_anew || sooner =>
                    {
                        wake.push((*id, *key));
                    }
                    LaneState::Waiting(Why::Later | Why::Unreachable) if sooner => wake.push((*id, *key)),
                    LaneState::Stuck if decoded_anew && lane.head.hold == Some(Hold::Undecodable) => {
                        decode.push((*id, *key));
                    }
                    LaneState::Waiting(_)
                    | LaneState::Stuck
                    | LaneState::Idle
                    | LaneState::Ready
                    | LaneState::Running(_)
                    | LaneState::Settling => {}
                }
            }
        }
        for (id, key) in wake {
            self.wake(id, key);
        }
        for (id, key) in decode {
            self.undecodable(id, key);
        }
        if self.config.on_data_loss == DataLossPolicy::Continue {
            let stopped: Vec<_> =
                self.queues.iter().filter_map(|(id, queue)| Some((*id, queue.stopped?))).collect();
            for (id, to) in stopped {
                self.move_to(id, to);
            }
        }
        if old.hand_over != self.config.hand_over && self.timers.is_set(TimerKey::HandOver) {
            self.timers.set(TimerKey::HandOver, self.now + self.config.hand_over);
        }
        if old.blocked_age != self.config.blocked_age {
            for id in self.queues.keys().copied().collect::<Vec<_>>() {
                self.age_timer(id);
            }
        }
        self.look_at_all();
    }
}
