//! Who consumes a queue, and what else a broker says of it: Classic by the advisories that it repeats to each who asks for
//! them, Artemis by its management address. A broker that refuses both leaves us alone with the queue, as far as is seen.

mod advisories;
mod management;

use crate::client::{ClientError, Connection, Product};

/// A connection, and the way to ask about queues on it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) connection: Connection,
    management: management::Management,
}

/// What a broker says of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) product: Product,
    /// How many consume it, we among them; or why that can't be seen.
    pub(crate) consumers: Result<u32, ClientError>,
    /// Whether an Artemis queue goes to one consumer at a time; `None` = not known.
    pub(crate) exclusive: Option<bool>,
    pub(crate) dead_letters: DeadLetters,
}

/// What becomes of a message that we refuse for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeadLetters {
    /// Classic has a place for them, whatever its rules.
    ByRule,
    /// They go to this address.
    To(String),
    /// They are dropped.
    Nowhere,
    /// It can't be seen.
    Unseen,
}

impl View {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, management: management::Management::default() }
    }

    /// Asks the broker who consumes a queue.
    ///
    /// # Errors
    /// No answer, or the connection ended. A refusal is none.
    pub(crate) async fn look(&self, queue: &str) -> Result<Seen, ClientError> {
        match self.connection.broker().product {
            Product::Classic => {
                let consumers = tolerated(advisories::count(&self.connection, queue).await)?;
                Ok(Seen {
                    product: Product::Classic,
                    consumers,
                    exclusive: None,
                    dead_letters: DeadLetters::ByRule,
                })
            }
            Product::Artemis => {
                let answers = tolerated(self.management.ask(&self.connection, queue).await)?;
                Ok(match answers {
                    Ok(answers) => answers.seen(),
                    Err(refusal) => Seen {
                        product: Product::Artemis,
                        consumers: Err(refusal),
                        exclusive: None,
                        dead_letters: DeadLetters::Unseen,
                    },
                })
            }
        }
    }
}

impl Seen {
    /// How many others consume it, of whom one is seen for sure, when so many of the consumers are ours.
    pub(crate) fn others(&self, ours: u32) -> u32 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.saturating_sub(ours))
    }
}

/// What the broker refuses is known; whatever else fails is a failure.
fn tolerated<T>(result: Result<T, ClientError>) -> Result<Result<T, ClientError>, ClientError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.exception().is_some() && !error.is_end_of_connection() => Ok(Err(error)),
        Err(error) => Err(error),
    }
}
