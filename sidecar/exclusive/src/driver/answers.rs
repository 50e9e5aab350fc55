//! What the jobs bring back.

use std::sync::Arc;

use lockstep_broker::Problem;
use lockstep_model::QueueId;
use tracing::debug;

use super::Driver;
use crate::{Failure, Held as _, Looked, Meaning, NotConnected, Opened, Pace, Sessions, machine::Input};

/// What a job brings back.
pub(super) enum Done<S: Sessions> {
    Connected(Result<S::Connection, NotConnected>),
    /// What a refusal was for may have changed, or not.
    Renewed(bool),
    /// The connection of that number ended.
    Disconnected(u64, Problem),
    Opened {
        queue: QueueId,
        number: u64,
        /// `None` = somebody else consumes it.
        result: Result<Option<Opened<S>>, Failure>,
    },
    Ended {
        queue: QueueId,
        number: u64,
        end: S::End,
    },
    Looked {
        queue: QueueId,
        number: u64,
        looked: Looked,
    },
    /// `sure` = the broker has read of it, or the connection is over.
    Closed {
        queue: QueueId,
        number: u64,
        sure: bool,
    },
    Counted {
        queue: QueueId,
        consumers: Result<u32, Failure>,
    },
    /// The connections are closed.
    Left,
}

impl<S: Sessions> Driver<S> {
    pub(super) fn done(&mut self, done: Done<S>) {
        match done {
            Done::Connected(result) => self.connected(result),
            Done::Renewed(renewed) => self.renewed(renewed),
            Done::Disconnected(number, problem) => {
                if number == self.connections {
                    self.disconnected(problem);
                }
            }
            Done::Opened { queue, number, result } => self.opened(queue, number, result),
            Done::Ended { queue, number, end } => self.ended(queue, number, &end),
            Done::Looked { queue, number, looked } => {
                self.looked(queue);
                let Looked { sent, consumers, starved } = looked;
                self.feed(queue, Input::Looked { number, sent, consumers, starved });
            }
            Done::Closed { queue, number, sure } => {
                if !sure {
                    self.drop_connection();
                }
                // It may be another consumer by now.
                if let Some(entry) = self.queue(queue) {
                    entry.consumer.take_if(|consumer| consumer.number() == number);
                }
                self.feed(queue, Input::Closed { number });
            }
            Done::Counted { queue, consumers } => self.counted(queue, consumers),
            Done::Left => self.left(),
        }
    }

    fn looked(&mut self, id: QueueId) {
        let sessions = Arc::clone(&self.sessions);
        if let Some(queue) = self.queue(id) {
            sessions.looked(id, &queue.name);
        }
    }

    fn opened(&mut self, id: QueueId, number: u64, result: Result<Option<Opened<S>>, Failure>) {
        let sessions = Arc::clone(&self.sessions);
        let Some(queue) = self.queue(id) else { return };
        let Opened { consumer, sent, receiving } = match result {
            Ok(Some(opened)) => opened,
            Ok(None) => {
                sessions.problems().clear(S::QUEUE, &queue.name);
                return self.feed(id, Input::Taken { number });
            }
            Err(Failure { pace: Pace::Reconnect, .. }) => return,
            Err(Failure { pace, problem }) => {
                if let Some(problem) = problem {
                    sessions.problems().set(S::QUEUE, &queue.name, problem);
                }
                return self.feed(id, Input::Refused { number, pace });
            }
        };
        sessions.problems().clear(S::QUEUE, &queue.name);
        sessions.opened(&consumer);
        queue.consumer = Some(consumer);
        // A task of its own, so that what comes for one queue waits for no other.
        let receiving = tokio::spawn(receiving);
        self.jobs.push(Box::pin(async move {
            match receiving.await {
                Ok(end) => Done::Ended { queue: id, number, end },
                // Only a panic ends it so, and the runtime has told of it.
                Err(_) => std::future::pending().await,
            }
        }));
        self.feed(id, Input::Opened { number, sent });
    }

    pub(super) fn ended(&mut self, id: QueueId, number: u64, end: &S::End) {
        let sessions = Arc::clone(&self.sessions);
        let Some(queue) = self.queue(id) else { return };
        let Meaning::Over { open, failure } = sessions.meaning(id, &queue.name, end) else { return };
        // Told by the connection's own end: no loss yet, and no failure of the queue.
        if failure.pace == Pace::Reconnect {
            return;
        }
        debug!(queue = %queue.name, number, ?end, "the queue's consumer has ended");
        if let Some(problem) = failure.problem {
            sessions.problems().set(S::QUEUE, &queue.name, problem);
        }
        self.feed(id, Input::Ended { number, open, pace: failure.pace });
    }

    fn counted(&mut self, id: QueueId, consumers: Result<u32, Failure>) {
        self.looked(id);
        let sessions = Arc::clone(&self.sessions);
        let Some(queue) = self.queue(id) else { return };
        let consumers = match consumers {
            Ok(consumers) => {
                // Where a consumer is opened next, that says whether anything is wrong still.
                if consumers > 0 || !queue.machine.is_wanted() {
                    sessions.problems().clear(S::QUEUE, &queue.name);
                }
                Ok(consumers)
            }
            Err(Failure { pace: Pace::Reconnect, .. }) => return,
            Err(Failure { pace, problem }) => {
                if let Some(problem) = problem {
                    sessions.problems().set(S::QUEUE, &queue.name, problem);
                }
                Err(pace)
            }
        };
        self.feed(id, Input::Counted(consumers));
    }
}
