//! Artemis answers questions that are sent to its management address: each names a resource and one of its attributes, and
//! the answer is a text that holds a JSON array with the value, or with what is wrong.

use std::{sync::Arc, time::Duration};

use lockstep_openwire::{Body, Destination, INFLATED_MOST, Message, body};
use serde_json::Value;
use tokio::{sync::Mutex, time::timeout};

use super::{DeadLetters, Seen};
use crate::client::{
    ANSWER_WITHIN, ClientError, Connection, Consumer, Deliveries, DeliveryEvent, Exception, Outgoing,
    Product, Subscription,
};

/// The default of `management-address`.
const ADDRESS: &str = "activemq.management";
/// `ManagementHelper.HDR_RESOURCE_NAME`.
const RESOURCE: &str = "_AMQ_ResourceName";
/// `ManagementHelper.HDR_ATTRIBUTE`.
const ATTRIBUTE: &str = "_AMQ_Attribute";
/// `ResourceNames.QUEUE`.
const QUEUE: &str = "queue.";
/// Of a queue's control, in the order of [`Answers`].
const ATTRIBUTES: [&str; 3] = ["consumerCount", "exclusive", "deadLetterAddress"];
/// All answers of a look come within this time.
const WITHIN: Duration = ANSWER_WITHIN;
/// What the broker says of a resource that is not there.
const NOT_THERE: &str = "Cannot find resource";
/// What the broker's own words about what is wrong begin with.
const ERROR: &str = "AMQ2";

/// Where a connection's answers come in: made at the first question. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Management(Arc<Mutex<Option<Replies>>>);

#[derive(Debug)]
struct Replies {
    queue: Destination,
    deliveries: Deliveries,
    /// Questions so far.
    asked: u64,
    /// Held, so that answers come.
    _consumer: Consumer,
}

/// The values of [`ATTRIBUTES`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answers([Value; ATTRIBUTES.len()]);

impl Management {
    /// Asks for a queue's attributes.
    pub(super) async fn ask(&self, connection: &Connection, queue: &str) -> Result<Answers, ClientError> {
        let mut held = self.0.lock().await;
        let replies = match held.take() {
            Some(replies) => replies,
            None => Replies::open(connection).await?,
        };
        // Those of a dropped or failed look are told apart by their numbers.
        let replies = held.insert(replies);
        let first = replies.asked;
        for attribute in ATTRIBUTES {
            let number = replies.asked;
            replies.asked += 1;
            connection.send(question(&replies.queue, number, queue, attribute)).await?;
        }
        let late = |_| ClientError::Timeout { what: "questions of management", after: WITHIN };
        let answers = timeout(WITHIN, replies.collect(first)).await.map_err(late).flatten();
        if answers.is_err() {
            *held = None;
        }
        answers
    }
}

impl Replies {
    async fn open(connection: &Connection) -> Result<Self, ClientError> {
        let queue = connection.temp_queue().await?;
        let prefetch = 100;
        let subscription = Subscription { prefetch, ..Subscription::new(queue.clone()) };
        let (consumer, deliveries) = connection.consume(subscription).await?;
        Ok(Self { queue, deliveries, asked: 0, _consumer: consumer })
    }

    /// The answers to the questions from that number on.
    async fn collect(&mut self, first: u64) -> Result<Answers, ClientError> {
        let mut answers = Answers::default();
        let mut missing = ATTRIBUTES.len();
        while missing > 0 {
            let dispatch = match self.deliveries.next().await {
                DeliveryEvent::Message(dispatch) => dispatch,
                DeliveryEvent::Nothing => continue,
                DeliveryEvent::Cancelled => return Err(ClientError::ClosedByUs),
                DeliveryEvent::Closed(error) => return Err(error),
            };
            let Ok(message) = dispatch.message else { continue };
            let number = number(&message).and_then(|number| number.checked_sub(first));
            let place = number.and_then(|number| answers.0.get_mut(usize::try_from(number).ok()?));
            if let Some(place) = place {
                *place = value(&message)?;
                missing -= 1;
            }
        }
        Ok(answers)
    }
}

fn question(reply_to: &Destination, number: u64, queue: &str, attribute: &str) -> Outgoing {
    Outgoing {
        destination: Destination::queue(ADDRESS),
        reply_to: Some(reply_to.clone()),
        correlation: Some(number.to_string()),
        properties: vec![
            (RESOURCE.to_owned(), format!("{QUEUE}{queue}")),
            (ATTRIBUTE.to_owned(), attribute.to_owned()),
        ],
    }
}

fn number(message: &Message) -> Option<u64> {
    message.fields.correlation.as_ref()?.decoded().parse().ok()
}

/// The one value of an answer; no text is the value null.
fn value(message: &Message) -> Result<Value, ClientError> {
    let strange = |what: &str| {
        let message = Arc::from(format!("its management answers {what}"));
        ClientError::Exception(Exception { class: Arc::from(""), message })
    };
    match body(message, INFLATED_MOST) {
        Ok(Body::None) => Ok(Value::Null),
        Ok(Body::Text(text)) => {
            let text = text.decoded();
            match serde_json::from_str(&text) {
                Ok(Value::Array(values)) => Ok(values.into_iter().next().unwrap_or_default()),
                Ok(_) | Err(_) => Err(strange(&text)),
            }
        }
        Ok(Body::Bytes(_) | Body::Map(_) | Body::Stream(_) | Body::Object(_) | Body::Blob(_)) | Err(_) => {
            Err(strange("with no text"))
        }
    }
}

impl Answers {
    /// What they say of the queue. One that is not there is consumed by nobody.
    pub(super) fn seen(&self) -> Seen {
        let [consumers, exclusive, dead_letters] = &self.0;
        let is_there = !consumers.as_str().is_some_and(|text| text.contains(NOT_THERE));
        let consumers = if is_there { counted(consumers) } else { Ok(0) };
        let is_known = is_there && consumers.is_ok();
        let dead_letters = match dead_letters.as_str().filter(|address| !address.starts_with(ERROR)) {
            Some(address) if is_known => DeadLetters::To(address.to_owned()),
            None if is_known && dead_letters.is_null() => DeadLetters::Nowhere,
            Some(_) | None => DeadLetters::Unseen,
        };
        Seen { product: Product::Artemis, consumers, exclusive: exclusive.as_bool(), dead_letters }
    }
}

/// How many consume, or what the broker says instead.
fn counted(value: &Value) -> Result<u32, ClientError> {
    if let Some(count) = value.as_u64() {
        return Ok(u32::try_from(count).unwrap_or(u32::MAX));
    }
    let message = value.as_str().unwrap_or("its management does not say how many consume").into();
    Err(ClientError::Exception(Exception { class: Arc::from(""), message }))
}

#[cfg(test)]
mod tests {
    use lockstep_openwire::{Kind, Text};
    use serde_json::json;

    use super::*;

    fn of(text: Option<&str>) -> Message {
        let mut message = Message { kind: Kind::Text, ..Message::default() };
        message.fields.content = text.map(|text| {
            let mut content = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
            content.extend(text.as_bytes());
            content.into()
        });
        message
    }

    fn seen(answers: [Value; 3]) -> (Option<u32>, Option<bool>, DeadLetters) {
        let seen = Answers(answers).seen();
        (seen.consumers.ok(), seen.exclusive, seen.dead_letters)
    }

    #[test]
    fn an_answer_is_the_one_value_of_an_array() {
        assert_eq!(value(&of(Some("[2]"))).unwrap(), json!(2));
        assert_eq!(value(&of(Some("[\"DLQ\"]"))).unwrap(), json!("DLQ"));
        assert_eq!(value(&of(None)).unwrap(), Value::Null);
        for strange in ["2", "nonsense", "{}"] {
            assert!(value(&of(Some(strange))).unwrap_err().to_string().contains(strange));
        }
    }

    #[test]
    fn answers_are_told_apart_by_their_numbers() {
        let mut message = of(None);
        assert_eq!(number(&message), None);
        message.fields.correlation = Some(Text::from("7"));
        assert_eq!(number(&message), Some(7));
        message.fields.correlation = Some(Text::from("x"));
        assert_eq!(number(&message), None);
    }

    #[test]
    fn what_the_answers_say_of_a_queue() {
        let to = |address: &str| DeadLetters::To(address.to_owned());
        assert_eq!(seen([json!(2), json!(true), json!("DLQ")]), (Some(2), Some(true), to("DLQ")));
        assert_eq!(seen([json!(0), json!(false), Value::Null]), (Some(0), Some(false), DeadLetters::Nowhere));
        let missing = json!("AMQ229067: Cannot find resource with name queue.q");
        let none = [missing.clone(), missing.clone(), missing];
        assert_eq!(seen(none), (Some(0), None, DeadLetters::Unseen));
        let refused = json!("AMQ229032: user lacks a permission");
        assert_eq!(seen([refused.clone(), refused.clone(), refused]), (None, None, DeadLetters::Unseen));
    }

    #[test]
    fn a_question_names_the_queue_and_the_attribute() {
        let asked = question(&Destination::queue("answers"), 3, "orders", "exclusive");
        assert_eq!(asked.destination, Destination::queue("activemq.management"));
        assert_eq!(asked.correlation.as_deref(), Some("3"));
        let expected = [("_AMQ_ResourceName", "queue.orders"), ("_AMQ_Attribute", "exclusive")];
        let asked: Vec<_> =
            asked.properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(asked, expected);
    }
}
