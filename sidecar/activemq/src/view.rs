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
    /// Why it can't be seen who consumes a queue that so many consumers of ours are on: the broker refuses, or sends no
    /// advisories.
    pub(crate) fn blind(&self, ours: u32) -> Option<String> {
        match &self.consumers {
            Err(refusal) => Some(refusal.to_string()),
            Ok(consumers) if *consumers < ours => {
                Some("the broker does not tell of our own consumer".to_owned())
            }
            Ok(_) => None,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Exception;

    #[test]
    fn who_is_not_told_of_himself_sees_nobody() {
        let seen = |consumers| Seen {
            product: Product::Classic,
            consumers,
            exclusive: None,
            dead_letters: DeadLetters::ByRule,
        };
        assert_eq!((seen(Ok(3)).others(1), seen(Ok(0)).others(1)), (2, 0));
        assert_eq!((seen(Ok(1)).blind(1), seen(Ok(0)).blind(0)), (None, None));
        assert!(seen(Ok(0)).blind(1).is_some_and(|why| why.contains("our own consumer")));
        let refused =
            || Err(ClientError::Security(Exception { class: "x".into(), message: "no way".into() }));
        assert!(seen(refused()).blind(0).is_some_and(|why| why.contains("no way")));
        assert_eq!(seen(refused()).others(0), 0);
    }

    #[test]
    fn only_what_the_broker_refuses_is_no_failure() {
        let refused = ClientError::Security(Exception { class: "x".into(), message: "no".into() });
        assert!(matches!(tolerated::<()>(Err(refused)), Ok(Err(_))));
        assert!(tolerated::<()>(Err(ClientError::ClosedByPeer)).is_err());
        let end = ClientError::NotOpen(std::sync::Arc::new(ClientError::ClosedByPeer));
        assert!(tolerated::<()>(Err(end)).is_err());
        assert!(matches!(tolerated(Ok(7)), Ok(Ok(7))));
    }
}
