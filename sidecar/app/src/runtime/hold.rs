//! Dispatch held by the application's own shutdown hook.
//!
//! The hook can't know whether the pod ends or only the application's container is restarted. So dispatch stays held
//! until a drain begins (the pod ends), until the application's health failed once and passed again (it was
//! restarted), or until the application's shutdown time has gone by with its health unbroken (nothing was shut down).

use std::time::Duration;

use lockstep_model::Moment;

/// Whether dispatch is held, and why it still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Hold {
    /// It is not.
    #[default]
    Free,
    /// The hook was called and the application's health has not failed since.
    Unbroken {
        /// When the shutdown time has gone by.
        until: Moment,
    },
    /// The application's health failed: it is down until it passes again.
    Down,
    /// A drain began: it never ends.
    Draining,
}

impl Hold {
    /// The hook was called. Answers whether dispatch has to be held from now on.
    pub(super) fn begin(&mut self, now: Moment, shutdown_time: Duration) -> bool {
        match self {
            Self::Free => {
                *self = Self::Unbroken { until: now + shutdown_time };
                true
            }
            Self::Unbroken { until } => {
                *until = now + shutdown_time;
                false
            }
            Self::Down | Self::Draining => false,
        }
    }

    /// A health check ended. Answers whether dispatch is free again.
    pub(super) fn health(&mut self, healthy: bool) -> bool {
        match (*self, healthy) {
            (Self::Unbroken { .. }, false) => {
                *self = Self::Down;
                false
            }
            (Self::Down, true) => {
                *self = Self::Free;
                true
            }
            (Self::Free | Self::Unbroken { .. } | Self::Down | Self::Draining, _) => false,
        }
    }

    /// Time passed. Answers whether dispatch is free again.
    pub(super) fn tick(&mut self, now: Moment) -> bool {
        match *self {
            Self::Unbroken { until } if until <= now => {
                *self = Self::Free;
                true
            }
            Self::Free | Self::Unbroken { .. } | Self::Down | Self::Draining => false,
        }
    }

    /// A drain began.
    pub(super) fn drain(&mut self) {
        *self = Self::Draining;
    }

    /// When [`Hold::tick`] has something to do.
    pub(super) fn until(self) -> Option<Moment> {
        match self {
            Self::Unbroken { until } => Some(until),
            Self::Free | Self::Down | Self::Draining => None,
        }
    }

    /// Whether the application's health is to be watched closely.
    pub(super) fn watches(self) -> bool {
        matches!(self, Self::Unbroken { .. } | Self::Down)
    }

    /// Whether dispatch is held by the hook.
    pub(super) fn is_held(self) -> bool {
        self != Self::Free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_failed_and_passed_check_frees_and_a_passed_one_alone_does_not() {
        let mut hold = Hold::Free;
        assert!(hold.begin(at(0), TIME));
        assert!(!hold.health(true));
        assert!(!hold.health(false));
        assert!(!hold.tick(at(100)), "a broken shutdown time frees nothing");
        assert!(hold.health(true));
        assert!(!hold.is_held() && !hold.watches());
    }

    #[test]
    fn an_unbroken_shutdown_time_frees_and_a_second_call_begins_it_anew() {
        let mut hold = Hold::Free;
        assert!(hold.begin(at(0), TIME));
        assert!(!hold.begin(at(20), TIME));
        assert_eq!(hold.until(), Some(at(50)));
        assert!(!hold.tick(at(49)));
        assert!(hold.tick(at(50)));
    }

    #[test]
    fn a_drain_is_never_left() {
        let mut hold = Hold::Free;
        hold.drain();
        assert!(!hold.begin(at(0), TIME) && !hold.health(false) && !hold.health(true) && !hold.tick(at(99)));
        assert!(hold.is_held() && !hold.watches());
    }
}
