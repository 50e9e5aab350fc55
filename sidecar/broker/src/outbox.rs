//! Events on their way to the shell. A shell that is slow to read them never holds up the keeper, and a renewal that it
//! has not read yet is overtaken by the next one, so that the number of events stays bounded by changes.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lockstep_model::{Epoch, QueueId};
use tokio::sync::Notify;

use crate::LeaseEvent;

/// Events of a lease keeper's task, for [`crate::LeaseKeeper::next`].
#[derive(Debug, Default)]
pub struct Outbox {
    events: Mutex<VecDeque<LeaseEvent>>,
    added: Notify,
}

impl Outbox {
    /// Adds an event.
    pub fn push(&self, event: LeaseEvent) {
        let mut events = self.lock();
        if let Some(renewed) = renewed(&event) {
            // Only the latest word about a queue may be replaced: order among different words matters.
            let latest = events.iter_mut().rev().find(|waiting| queue(waiting) == Some(renewed.0));
            if let Some(latest) = latest.filter(|waiting| self::renewed(waiting) == Some(renewed)) {
                *latest = event;
                return;
            }
        }
        events.push_back(event);
        drop(events);
        self.added.notify_one();
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&self) -> LeaseEvent {
        loop {
            if let Some(event) = self.lock().pop_front() {
                return event;
            }
            self.added.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<LeaseEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn renewed(event: &LeaseEvent) -> Option<(QueueId, Epoch)> {
    if let LeaseEvent::Renewed { queue, epoch, .. } = event { Some((*queue, *epoch)) } else { None }
}

fn queue(event: &LeaseEvent) -> Option<QueueId> {
    match event {
        LeaseEvent::Acquired { queue, .. }
        | LeaseEvent::Renewed { queue, .. }
        | LeaseEvent::Doubtful { queue, .. }
        | LeaseEvent::Revoking { queue, .. }
        | LeaseEvent::RevocationCancelled { queue, .. }
        | LeaseEvent::Lost { queue, .. }
        | LeaseEvent::Released { queue, .. }
        | LeaseEvent::Moved { queue, .. } => Some(*queue),
        LeaseEvent::Source(_) | LeaseEvent::Left => None,
    }
}

#[cfg(test)]
mod tests {
    use lockstep_model::Moment;

    use super::*;

    fn renewal(queue: u32, millis: u64) -> LeaseEvent {
        let deadline = Some(Moment::from_millis(millis));
        LeaseEvent::Renewed { queue: QueueId(queue), epoch: Epoch(1), deadline }
    }

    fn shown(outbox: &Outbox) -> Vec<String> {
        outbox.lock().iter().map(|event| format!("{event:?}")).collect()
    }

    #[test]
    fn an_unread_renewal_is_overtaken_but_never_moved_past_another_word() {
        let outbox = Outbox::default();
        let doubt = LeaseEvent::Doubtful { queue: QueueId(0), epoch: Epoch(1) };
        for event in
            [renewal(0, 1), renewal(1, 1), renewal(0, 2), doubt.clone(), renewal(0, 3), renewal(0, 4)]
        {
            outbox.push(event);
        }
        let expected: Vec<_> = [renewal(0, 2), renewal(1, 1), doubt, renewal(0, 4)]
            .iter()
            .map(|event| format!("{event:?}"))
            .collect();
        assert_eq!(shown(&outbox), expected);
    }
}
