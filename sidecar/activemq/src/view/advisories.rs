//! Classic tells each new consumer of an advisory topic of the consumers that are there, before it answers that it is one.

use std::collections::BTreeSet;

use lockstep_openwire::{About, Command, ConsumerId, Destination, Message, RemoveInfo, Removed};

use crate::{
    client::{ClientError, Connection, DeliveryEvent, Subscription},
    unsettled::NOTHING_DELIVERED,
};

/// `AdvisorySupport.QUEUE_CONSUMER_ADVISORY_TOPIC_PREFIX`.
const TOPIC: &str = "ActiveMQ.Advisory.Consumer.Queue.";
/// More consumers than a queue has.
const PREFETCH: u32 = 1000;

/// Counts a queue's consumers.
pub(super) async fn count(connection: &Connection, queue: &str) -> Result<u32, ClientError> {
    let topic = Destination::topic(&format!("{TOPIC}{queue}"));
    let subscription = Subscription { prefetch: PREFETCH, ..Subscription::new(topic) };
    let (consumer, mut deliveries) = connection.consume(subscription).await?;
    let mut present = Present::default();
    while let Some(event) = deliveries.try_next() {
        match event {
            DeliveryEvent::Message(dispatch) => {
                if let Ok(message) = &dispatch.message {
                    present.told(message);
                }
            }
            DeliveryEvent::Nothing => {}
            DeliveryEvent::Cancelled => break,
            DeliveryEvent::Closed(error) => return Err(error),
        }
    }
    consumer.close(NOTHING_DELIVERED).await?;
    Ok(present.count())
}

/// The consumers that were told of.
#[derive(Debug, Default)]
struct Present(BTreeSet<(Vec<u8>, i64, i64)>);

impl Present {
    fn told(&mut self, advisory: &Message) {
        let About(Some(about)) = &advisory.fields.about else { return };
        if let Command::Consumer(info) = &**about {
            // Who only looks takes nothing away.
            if !info.browser {
                self.0.insert(name(&info.id));
            }
        } else if let Command::Remove(RemoveInfo { id: Some(Removed::Consumer(id)), .. }) = &**about {
            self.0.remove(&name(id));
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

fn name(id: &ConsumerId) -> (Vec<u8>, i64, i64) {
    (id.connection.bytes().to_vec(), id.session, id.value)
}

#[cfg(test)]
mod tests {
    use lockstep_openwire::ConsumerInfo;

    use super::*;

    fn id(value: i64) -> ConsumerId {
        ConsumerId { connection: "ID:other".into(), session: 1, value }
    }

    fn of(command: Command) -> Message {
        let mut message = Message::default();
        message.fields.about = About(Some(Box::new(command)));
        message
    }

    fn came(value: i64, browser: bool) -> Message {
        of(Command::Consumer(Box::new(ConsumerInfo { id: id(value), browser, ..ConsumerInfo::default() })))
    }

    fn counted(advisories: &[Message]) -> u32 {
        let mut present = Present::default();
        advisories.iter().for_each(|advisory| present.told(advisory));
        present.count()
    }

    #[test]
    fn each_consumer_counts_once_until_it_goes_and_browsers_do_not() {
        let gone = of(Command::Remove(RemoveInfo { id: Some(Removed::Consumer(id(1))), last_delivered: 0 }));
        assert_eq!(counted(&[]), 0);
        assert_eq!(counted(&[came(1, false), came(2, false), came(1, false)]), 2);
        assert_eq!(counted(&[came(1, false), came(2, true)]), 1);
        assert_eq!(counted(&[came(1, false), came(2, false), gone]), 1);
        assert_eq!(counted(&[Message::default(), of(Command::KeepAlive)]), 0);
    }
}
