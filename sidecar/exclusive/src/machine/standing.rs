//! What there is to be seen of a queue's machine.

use lockstep_model::Moment;

use super::{Link, Machine};

impl Machine {
    /// When there is something to do without an input.
    pub(crate) fn next(&self) -> Option<Moment> {
        let look = match self.link {
            Link::Consuming { look, .. } => (!look.asked).then_some(look.at),
            Link::None if self.is_wanted() && !self.exclusive => self.connected.then_some(self.retry_at),
            Link::None if self.is_wanted() && self.connected => {
                (!self.watch.asked).then_some(self.watch.at.max(self.retry_at))
            }
            Link::None if self.is_watched() => (!self.watch.asked).then_some(self.watch.at),
            Link::None | Link::Opening(_) | Link::Closing(_) => None,
        };
        let deadline = self.owned.map(|owned| owned.deadline);
        [look, deadline, self.adopted_until].into_iter().flatten().min()
    }

    /// Whether there is neither ownership nor consumer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.owned.is_none() && self.link == Link::None
    }

    /// Whether there is a consumer, or the queue is seen to be another's.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_consuming() || self.seen
    }

    pub(super) fn is_consuming(&self) -> bool {
        matches!(self.link, Link::Consuming { .. })
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.owned.is_some()
    }

    /// Whether it is ours to take.
    pub(crate) fn is_wanted(&self) -> bool {
        self.joined && (self.hint != Some(false) || self.adopted_until.is_some())
    }

    pub(super) fn is_watched(&self) -> bool {
        self.joined && self.connected && !self.is_wanted()
    }
}
