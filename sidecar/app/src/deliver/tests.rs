mod activemq;
mod answers;
mod connections;
mod events;
mod rabbitmq;
mod requests;
mod server;

use std::{sync::Arc, time::Duration};

use lockstep_broker::Clock;
use lockstep_contract::Format;
use lockstep_core::{AttemptResult, HttpAnswer, TransportFailure};
use lockstep_model::{Delivery, Epoch, Identity, Message, Position, Properties, PropertiesBuilder, QueueId};

use self::server::Server;
use super::{AttemptRequest, Attempted, Endpoint, Http, ROCKETMQ_HIDDEN, Settings, SourceInfo};

fn settings(port: u16) -> Settings {
    Settings {
        endpoint: Endpoint { host: "localhost".into(), port, path: "/messages".into() },
        format: Format::CloudEventsBinary,
        content_type: "application/json".into(),
        consumer_group: "shop-orders".into(),
        source: SourceInfo {
            scheme: "rocketmq",
            authority: "shop-orders".into(),
            hidden_properties: ROCKETMQ_HIDDEN,
        },
        headers: Vec::new(),
        signing_keys: Vec::new(),
    }
}

fn properties(list: &[(&[u8], &[u8])]) -> Properties {
    let mut builder = PropertiesBuilder::default();
    for (name, value) in list {
        builder.push(name, value);
    }
    builder.build()
}

fn message(body: impl Into<Vec<u8>>) -> Message {
    Message { id: "A1".into(), body: body.into().into(), ..Message::default() }
}

fn delivery(message: Message) -> Delivery {
    Delivery {
        queue: QueueId(3),
        position: Position(42),
        identity: Identity::Position { offset: 42, stored_ms: 1, log_offset: 2 },
        key: None,
        redeliveries: 0,
        message,
        undecodable: None,
    }
}

fn request(message: Message) -> AttemptRequest {
    AttemptRequest {
        delivery: Arc::new(delivery(message)),
        queue_name: Arc::from("orders/broker-a/3"),
        epoch: Epoch(7),
        number: 1,
        max_attempts: 16,
        not_after: None,
        lease_deadline: None,
        timeout: Duration::from_secs(30),
    }
}

/// A server on a port of its own and the delivery that sends to it.
async fn pair() -> (Server, Http) {
    let server = Server::bind("127.0.0.1:0").await;
    let http = Http::new(&settings(server.address().port()), Clock::new()).unwrap();
    (server, http)
}

fn answered(status: u16) -> AttemptResult {
    AttemptResult::Answered(HttpAnswer { status, ..HttpAnswer::default() })
}

fn broken() -> AttemptResult {
    AttemptResult::Failed(TransportFailure::Broken)
}

fn summary(attempted: &Attempted) -> &str {
    attempted.detail.as_ref().map(super::Detail::summary).unwrap_or_default()
}
