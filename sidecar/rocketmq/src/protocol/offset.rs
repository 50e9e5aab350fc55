use std::sync::Arc;

use super::{ReplyError, Request, ResponseCode, accepted, number};
use crate::codec::Command;

/// Asks for a group's committed offset. `None` when it never committed: asked so that 5.x says it honestly; 4.9 may
/// answer 0 for a young queue all the same.
#[derive(Debug, Clone)]
pub struct QueryOffset {
    /// The group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
}

impl Request for QueryOffset {
    type Reply = Option<i64>;

    const NAME: &'static str = "query the committed offset";

    fn command(&self) -> Command {
        queue(14, &self.topic, self.queue_id)
            .field("consumerGroup", &self.group)
            .field("setZeroIfNotFound", false)
    }

    fn reply(&self, reply: Command) -> Result<Option<i64>, ReplyError> {
        if ResponseCode::from(reply.code) == ResponseCode::QueryNotFound {
            return Ok(None);
        }
        offset(reply).map(Some)
    }
}

/// Commits a group's offset: the next one to be read. Brokers take any value from anyone.
#[derive(Debug, Clone)]
pub struct UpdateOffset {
    /// The group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
    /// The next offset to be read.
    pub offset: i64,
}

impl Request for UpdateOffset {
    /// Whether it was applied: after a reset by the broker's tools commits are ignored until the next pull.
    type Reply = bool;

    const NAME: &'static str = "commit the offset";

    fn command(&self) -> Command {
        queue(15, &self.topic, self.queue_id)
            .field("consumerGroup", &self.group)
            .field("commitOffset", self.offset)
    }

    fn reply(&self, reply: Command) -> Result<bool, ReplyError> {
        let reply = accepted(reply)?;
        Ok(!reply.remark.is_some_and(|remark| remark.contains("previously reset")))
    }
}

/// Asks for the offset behind the last message.
#[derive(Debug, Clone)]
pub struct MaxOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
}

impl Request for MaxOffset {
    type Reply = i64;

    const NAME: &'static str = "query the largest offset";

    fn command(&self) -> Command {
        queue(30, &self.topic, self.queue_id)
    }

    fn reply(&self, reply: Command) -> Result<i64, ReplyError> {
        offset(reply)
    }
}

/// Asks for the first offset that is still stored.
#[derive(Debug, Clone)]
pub struct MinOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
}

impl Request for MinOffset {
    type Reply = i64;

    const NAME: &'static str = "query the smallest offset";

    fn command(&self) -> Command {
        queue(31, &self.topic, self.queue_id)
    }

    fn reply(&self, reply: Command) -> Result<i64, ReplyError> {
        offset(reply)
    }
}

/// Which of several messages of one time is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundaryType {
    /// The first.
    Lower,
    /// The last.
    Upper,
}

/// Asks for the offset of a time.
#[derive(Debug, Clone)]
pub struct SearchOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The queue on the broker that is asked.
    pub queue_id: i32,
    /// Unix milliseconds.
    pub timestamp_ms: i64,
    /// Which of several messages of that time.
    pub boundary: BoundaryType,
}

impl Request for SearchOffset {
    type Reply = i64;

    const NAME: &'static str = "query the offset of a time";

    fn command(&self) -> Command {
        let boundary = match self.boundary {
            BoundaryType::Lower => "lower",
            BoundaryType::Upper => "upper",
        };
        queue(29, &self.topic, self.queue_id)
            .field("timestamp", self.timestamp_ms)
            .field("boundaryType", boundary)
    }

    fn reply(&self, reply: Command) -> Result<i64, ReplyError> {
        offset(reply)
    }
}

fn queue(code: i32, topic: &str, queue_id: i32) -> Command {
    Command::request(code).field("topic", topic).field("queueId", queue_id)
}

fn offset(reply: Command) -> Result<i64, ReplyError> {
    number(&accepted(reply)?, "offset")
}
