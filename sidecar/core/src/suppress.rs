//! Messages whose 2xx is known and whose settlement is not, over epochs: they are not attempted again.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_model::{Identity, QueueId};

use crate::{Engine, lane::LaneKey, limits::KNOWN_MOST};

/// The bounded set.
#[derive(Debug, Default)]
pub(crate) struct Known {
    since: BTreeMap<(QueueId, Identity), u64>,
    order: BTreeSet<(u64, QueueId, Identity)>,
    count: u64,
}

impl Known {
    fn insert(&mut self, queue: QueueId, identity: Identity) {
        self.remove(queue, &identity);
        self.count = self.count.saturating_add(1);
        self.since.insert((queue, identity.clone()), self.count);
        self.order.insert((self.count, queue, identity));
        if self.order.len() > KNOWN_MOST
            && let Some((_, queue, identity)) = self.order.pop_first()
        {
            self.since.remove(&(queue, identity));
        }
    }

    pub(crate) fn remove(&mut self, queue: QueueId, identity: &Identity) {
        if self.since.is_empty() {
            return;
        }
        let key = (queue, identity.clone());
        if let Some(at) = self.since.remove(&key) {
            self.order.remove(&(at, key.0, key.1));
        }
    }

    fn contains(&self, queue: QueueId, identity: &Identity) -> bool {
        self.since.contains_key(&(queue, identity.clone()))
    }
}

impl<P: Clone> Engine<P> {
    /// The head of that lane was answered 2xx.
    pub(crate) fn know(&mut self, id: QueueId, key: LaneKey) {
        let Some(identity) = self.head_identity(id, key) else { return };
        if matches!(identity, Identity::Unique(_)) {
            self.known.insert(id, identity);
        }
    }

    /// Whether the head of that lane was answered 2xx before; only asked for what the broker marks as redelivered.
    pub(crate) fn is_known(&self, id: QueueId, key: LaneKey) -> bool {
        self.head_identity(id, key).is_some_and(|identity| self.known.contains(id, &identity))
    }

    pub(crate) fn head_identity(&self, id: QueueId, key: LaneKey) -> Option<Identity> {
        Some(self.queues.get(&id)?.lanes.get(&key)?.waiting.front()?.identity.clone())
    }
}
