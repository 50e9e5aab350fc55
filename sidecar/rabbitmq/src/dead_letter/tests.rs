use std::sync::Arc;

use bytes::Bytes;
use lockstep_broker::Settlement;
use lockstep_model::{Delivery, Epoch, Identity, Message, Position, QueueId, Undecodable};

use super::*;
use crate::config::tests::config;

fn settle() -> Settle {
    let delivery = Delivery {
        queue: QueueId(0),
        position: Position(9),
        identity: Identity::None,
        key: None,
        redeliveries: 0,
        message: Message { id: "m".into(), ..Message::default() },
        undecodable: Some(Undecodable { raw: Bytes::new(), reason: Arc::from("broken") }),
    };
    Settle {
        epoch: Epoch(7),
        delivery: Arc::new(delivery),
        settlement: Settlement::DeadLetter,
        attempts: 3,
        not_after: None,
    }
}

#[tokio::test]
async fn a_dead_letter_keeps_what_is_the_message_s_and_nothing_that_would_lose_or_copy_it() {
    let headers = Fields::new()
        .text("colour", "red")
        .text("CC", "elsewhere")
        .text("BCC", "elsewhere")
        .text("X-Lockstep-Queue", "forged");
    let sent = Properties::new()
        .with_text(Field::MessageId, "m")
        .with_text(Field::UserId, "somebody")
        .with_text(Field::Expiration, "10")
        .with_text(Field::CorrelationId, "c")
        .with_byte(Field::DeliveryMode, 1)
        .with_headers(headers);
    let origin = Origin {
        properties: Some(sent.to_raw()),
        exchange: Bytes::from_static(b"shop"),
        routing_key: Bytes::from_static(b"new"),
        whole: true,
    };
    let found = properties(&config(), "q", &settle(), Some(&origin)).to_raw();
    assert_eq!((found.get(Field::UserId), found.get(Field::Expiration)), (None, None));
    assert_eq!(found.delivery_mode(), Some(2));
    assert_eq!(found.get(Field::CorrelationId).as_deref(), Some(&b"c"[..]));
    let headers = found.headers().unwrap();
    let text = |name: &str| {
        let value = headers.get(name.as_bytes())?;
        Some(String::from_utf8_lossy(value.as_text()?).into_owned())
    };
    for (name, value) in [
        ("colour", Some("red")),
        ("CC", None),
        ("BCC", None),
        ("X-Lockstep-Queue", None),
        ("x-lockstep-queue", Some("q")),
        ("x-lockstep-consumer-group", Some("group")),
        ("x-lockstep-position", Some("7/9")),
        ("x-lockstep-reason", Some("broken")),
        ("x-lockstep-exchange", Some("shop")),
        ("x-lockstep-routing-key", Some("new")),
        ("x-lockstep-user-id", Some("somebody")),
    ] {
        assert_eq!(text(name).as_deref(), value, "{name}");
    }
    assert_eq!(headers.get(b"x-lockstep-attempts").unwrap().as_int(), Some(3));
}

#[tokio::test]
async fn a_message_without_readable_properties_is_a_dead_letter_too() {
    let found = properties(&config(), "q", &settle(), None).to_raw();
    assert_eq!(found.delivery_mode(), Some(2));
    assert!(found.headers().unwrap().get(b"x-lockstep-queue").is_some());
}

#[tokio::test]
async fn a_broker_that_takes_no_messages_is_told_until_it_does() {
    let problems = Arc::new(Problems::default());
    let (blocked, receiver) = watch::channel(None);
    let telling = tokio::spawn(tell_blocked(receiver, Arc::clone(&problems)));
    let told = async |expected: Option<&str>| {
        let wait = async {
            while problems.first().map(|problem| problem.reason) != expected {
                tokio::task::yield_now().await;
            }
        };
        let told = tokio::time::timeout(std::time::Duration::from_secs(10), wait).await;
        told.unwrap_or_else(|_| panic!("not {expected:?} but {:?}", problems.first()));
    };
    blocked.send_replace(Some("low on memory".into()));
    told(Some(reason::BROKER_BLOCKED)).await;
    let problem = problems.first().unwrap();
    assert!(problem.message.contains("low on memory") && problem.remedy.contains("rabbitmqctl"), "{problem}");
    blocked.send_replace(None);
    told(None).await;
    // A connection that is dropped waits for nothing any more.
    blocked.send_replace(Some("low on disk".into()));
    told(Some(reason::BROKER_BLOCKED)).await;
    drop(blocked);
    telling.await.unwrap();
    told(None).await;
}

#[tokio::test]
async fn a_node_that_says_nothing_keeps_no_dead_letter_from_the_next() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let broker = crate::amqp::tests::broker::Broker::start().await;
    let port = silent.local_addr().unwrap().port();
    let nodes = vec![crate::Endpoint { port, ..broker.endpoint.clone() }, broker.endpoint.clone()];
    let shared = Shared::new(Config { nodes, ..config() }, tokio::sync::mpsc::unbounded_channel().0);
    let publisher = Publisher::default();
    let moment = std::time::Duration::from_millis(100);
    assert!(timeout_at(Instant::now() + moment, publisher.channel(&shared)).await.is_err());
    let asked = async {
        while broker.heard(20, 10) == 0 {
            tokio::task::yield_now().await;
        }
    };
    // In less time than a node is waited for. It knows no confirms, so that there is no end.
    tokio::select! {
        _ = timeout_at(Instant::now() + moment * 29, publisher.channel(&shared)) => {
            panic!("the first node was asked again")
        }
        () = asked => {}
    }
}
