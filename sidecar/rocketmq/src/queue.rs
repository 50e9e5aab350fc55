//! Queues by the name that people see.

use std::fmt;

use crate::protocol::MessageQueue;

impl fmt::Display for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.broker_name, self.queue_id)
    }
}
