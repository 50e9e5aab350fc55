use std::{num::NonZero, time::Duration};

use bytes::Bytes;
use lockstep_broker::{
    Clock,
    conformance::{self, Harness, Source},
};
use lockstep_embedded::{EmbeddedBroker, NewMessage, Options};
use lockstep_model::{KeyHash, Message, Text};
use serde_json::Value;

use crate::support::Served;

struct Local;

struct Case {
    served: Served,
    clock: Clock,
}

impl Harness for Local {
    type Source = Case;

    async fn source(&self, queues: usize) -> Case {
        let queues = NonZero::new(u32::try_from(queues).unwrap());
        let options = Options { queues, hold: Duration::from_millis(500), ..Options::default() };
        let served = Served::start(options).await;
        Case { served, clock: Clock::new() }
    }
}

impl Case {
    /// A key that goes to the queue, found by trying.
    fn key(&self, queue: usize) -> Text {
        let queues = self.served.broker.queue_names().len() as u64;
        let goes_there = |key: &String| KeyHash::of(key.as_bytes()).0 % queues == queue as u64;
        (0..).map(|number: u32| format!("key-{number}")).find(goes_there).unwrap().into()
    }
}

impl Source for Case {
    type Broker = EmbeddedBroker;

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn member(&self, _client_id: &str) -> EmbeddedBroker {
        self.served.broker.broker(self.clock)
    }

    fn queue_name(&self, queue: usize) -> String {
        self.served.broker.queue_names()[queue].as_ref().to_owned()
    }

    async fn publish(&self, queue: usize, message: Message) {
        // A queue of several is chosen by the key, so a message's own key counts with one queue only.
        let key = message.key.unwrap_or_else(|| self.key(queue));
        let (body, properties) = (message.body, message.properties);
        let message = NewMessage { key: Some(key), body, properties, ..NewMessage::default() };
        assert_eq!(self.served.broker.publish(message).await.unwrap().queue.0 as usize, queue);
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        let (_, status) = self.served.get("/").await;
        status["queues"][queue]["unfinished"].as_u64().unwrap()
    }

    async fn dead_letters(&self) -> Vec<Bytes> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let (_, listed) = self.served.get("/dead-letters").await;
        let body = |letter: &Value| {
            let message = &letter["message"];
            let encoded = || STANDARD.decode(message["bodyBase64"].as_str().unwrap()).unwrap();
            message["body"].as_str().map_or_else(|| encoded().into(), |text| Bytes::from(text.to_owned()))
        };
        listed["deadLetters"].as_array().unwrap().iter().map(body).collect()
    }

    async fn kill(&self, _client_id: &str) {}

    fn lease_life(&self) -> Option<Duration> {
        None
    }
}

#[tokio::test]
async fn the_embedded_broker_conforms() {
    let report = conformance::run_all(&Local).await;
    assert!(report.passed(), "\n{report}");
    let expected = [
        "what_can_not_be_decoded_keeps_its_place",
        "members_share_without_overlap",
        "a_lease_lives_while_the_other_halves_hang",
        "a_lost_connection_is_a_doubt_and_passes",
    ];
    assert_eq!(report.not_applicable(), expected);
}
