//! What a person's command and a status page need to see of single deliveries.

use lockstep_model::{Moment, Position, QueueId};

use crate::{Engine, Hold};

/// The first delivery of a lane.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a, P> {
    /// Its place.
    pub position: Position,
    /// What was handed in with it.
    pub payload: &'a P,
    /// Attempts spent.
    pub attempts: u32,
    /// Why it is reported as blocked.
    pub hold: Option<Hold>,
    /// Since when it is the head.
    pub since: Moment,
}

impl<P: Clone> Engine<P> {
    /// The head of each lane of a queue, as long as it is owned.
    pub fn heads(&self, queue: QueueId) -> impl Iterator<Item = Head<'_, P>> {
        let lanes = self.queues.get(&queue).into_iter().flat_map(|queue| queue.lanes.values());
        lanes.filter_map(|lane| {
            let held = lane.waiting.front()?;
            Some(Head {
                position: held.position,
                payload: &held.payload,
                attempts: lane.head.attempts,
                hold: lane.head.hold,
                since: lane.head.since,
            })
        })
    }

    /// The payload of the held delivery of a queue with the lowest position.
    pub fn oldest(&self, queue: QueueId) -> Option<&P> {
        let (_, lane) = self.queues.get(&queue)?.pending.first_key_value()?;
        Some(&self.queues.get(&queue)?.lanes.get(lane)?.waiting.front()?.payload)
    }

    /// Whether the queues were given up because the application was unhealthy for too long.
    pub fn is_handed_over(&self) -> bool {
        self.group.is_handed_over()
    }
}
