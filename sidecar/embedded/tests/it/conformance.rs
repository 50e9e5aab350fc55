use std::{num::NonZero, time::Duration};

use bytes::Bytes;
use lockstep_broker::{
    Clock,
    conformance::{self, Harness, Source},
};
use lockstep_embedded::{Embedded, EmbeddedBroker, NewMessage, Options};
use lockstep_model::{Message, QueueId};
use serde_json::Value;

use crate::support::Served;

struct Local;

struct Case {
    served: Served,
    clock: Clock,
    keys: Vec<String>,
}

impl Harness for Local {
    type Source = Case;

    async fn source(&self, queues: usize) -> Case {
        let queues = NonZero::new(u32::try_from(queues).unwrap());
        let options = Options { queues, hold: Duration::from_millis(500), ..Options::default() };
        let served = Served::start(options).await;
        let keys = keys(&served.broker).await;
        // The messages that found the keys are finished before the suite begins.
        let case = Case { served, clock: Clock::new(), keys };
        case.skip_all().await;
        case
    }
}

/// A key for each queue, found by trying.
async fn keys(broker: &Embedded) -> Vec<String> {
    let mut keys = vec![None; broker.queue_names().len()];
    for number in 0.. {
        let key = format!("key-{number}");
        let message = NewMessage { key: Some(key.as_str().into()), ..NewMessage::default() };
        let queue = broker.publish(message).await.unwrap().queue;
        keys[queue.0 as usize].get_or_insert(key);
        if keys.iter().all(Option::is_some) {
            break;
        }
    }
    keys.into_iter().flatten().collect()
}

impl Case {
    async fn skip_all(&self) {
        use lockstep_broker::{Broker, Commit, LeaseEvent, LeaseKeeper, Settler};
        let (_reader, settler, mut keeper) = self.served.broker.broker(self.clock).split();
        keeper.join();
        let mut left = self.keys.len();
        while left > 0 {
            if let LeaseEvent::Acquired { queue, epoch, .. } = keeper.next().await {
                let (_, status) = self.served.get("/").await;
                let end = status["queues"][queue.0 as usize]["end"].as_u64().unwrap();
                let position = lockstep_model::Position(end);
                let last = lockstep_model::Identity::None;
                settler.commit(Commit { queue, epoch, position, last, not_after: None }).await.unwrap();
                left -= 1;
            }
        }
    }

    async fn queue_of(&self, message: &NewMessage) -> QueueId {
        self.served.broker.publish(message.clone()).await.unwrap().queue
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
        let key = message.key.unwrap_or_else(|| self.keys[queue].as_str().into());
        let (body, properties) = (message.body, message.properties);
        let message = NewMessage { key: Some(key), body, properties, ..NewMessage::default() };
        assert_eq!(self.queue_of(&message).await.0 as usize, queue);
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
    let expected = ["members_share_without_overlap", "a_lease_lives_while_the_other_halves_hang"];
    assert_eq!(report.not_applicable(), expected);
}
