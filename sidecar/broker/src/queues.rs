use std::{
    collections::HashMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use lockstep_model::{Epoch, QueueId, QueueName};

/// Gives each queue name one number for the life of the process.
#[derive(Debug, Default)]
pub struct QueueTable {
    names: Vec<QueueName>,
    ids: HashMap<QueueName, QueueId>,
}

impl QueueTable {
    /// The number of a name, a new one when it was never seen. The table holds as many entries as the group has
    /// queues.
    pub fn id(&mut self, name: &str) -> QueueId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = QueueId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        let name: QueueName = Arc::from(name);
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// The name of a number given out before.
    pub fn name(&self, id: QueueId) -> Option<QueueName> {
        self.names.get(usize::try_from(id.0).ok()?).cloned()
    }
}

/// Makes epochs: the wall clock in milliseconds, raised above the last one made or observed.
#[derive(Debug, Default)]
pub struct EpochClock {
    last: u64,
}

impl EpochClock {
    /// Starts above an epoch kept from an earlier life of the process.
    pub fn above(last: Epoch) -> Self {
        Self { last: last.0 }
    }

    /// The next epoch.
    pub fn advance(&mut self) -> Epoch {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.last = u64::try_from(now).unwrap_or(u64::MAX).max(self.last.saturating_add(1));
        Epoch(self.last)
    }
}
