//! Membership of the broker group: joined at the first healthy check, left by pause, drain and lasting ill health.

use crate::{
    Engine, Event, Output, RunState,
    backoff::doubled,
    limits::{CALM, REJOIN_FIRST, REJOIN_LONGEST},
    queue::Leave,
    timers::TimerKey,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Membership {
    #[default]
    Out,
    In,
    Leaving,
}

/// Health and membership.
#[derive(Debug, Default)]
pub(crate) struct Group {
    membership: Membership,
    healthy: bool,
    handed_over: bool,
    repeats: u32,
}

impl Group {
    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy
    }

    pub(crate) fn is_member(&self) -> bool {
        self.membership == Membership::In
    }

    pub(crate) fn is_out(&self) -> bool {
        self.membership == Membership::Out
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over
    }

    pub(crate) fn forget_repeats(&mut self) {
        self.repeats = 0;
    }
}

impl<P: Clone> Engine<P> {
    /// Joins or leaves as health, state and drain have it.
    pub(crate) fn update_group(&mut self) {
        let wanted =
            self.config.state == RunState::Running && self.drain.is_none() && !self.group.handed_over;
        match self.group.membership {
            Membership::Out if wanted && self.group.healthy => {
                self.group.membership = Membership::In;
                self.emit(Output::JoinGroup);
            }
            Membership::In if !wanted => {
                self.group.membership = Membership::Leaving;
                self.emit(Output::LeaveGroup);
                for id in self.queues.keys().copied().collect::<Vec<_>>() {
                    self.begin_release(id, Leave::Group, self.drain);
                }
            }
            Membership::Out | Membership::In | Membership::Leaving => {}
        }
    }

    pub(crate) fn health(&mut self, healthy: bool) {
        if self.group.healthy == healthy {
            return;
        }
        self.group.healthy = healthy;
        if healthy {
            self.timers.clear(TimerKey::HandOver);
            // An application that went away and came back has got over what it asked the pause for.
            self.end_pause();
            for (queue, lane) in std::mem::take(&mut self.unreachable) {
                self.wake(queue, lane);
            }
            if self.group.handed_over {
                let times = self.group.repeats.saturating_sub(1);
                self.timers.set(TimerKey::Rejoin, self.now + doubled(REJOIN_FIRST, times, REJOIN_LONGEST));
            }
            self.timers.set(TimerKey::Calm, self.now + CALM);
        } else {
            self.timers.clear(TimerKey::Rejoin);
            self.timers.clear(TimerKey::Calm);
            self.timers.set(TimerKey::HandOver, self.now + self.config.hand_over);
        }
        self.look_at_all();
    }

    pub(crate) fn hand_over(&mut self) {
        if self.group.membership != Membership::In || self.group.handed_over {
            return;
        }
        self.group.handed_over = true;
        self.group.repeats = self.group.repeats.saturating_add(1);
    }

    pub(crate) fn rejoin(&mut self) {
        self.group.handed_over = false;
    }

    pub(crate) fn left(&mut self) {
        if self.group.membership == Membership::Leaving {
            self.group.membership = Membership::Out;
        } else {
            self.event(Event::Stale { queue: None, what: "left" });
        }
    }
}
