use std::{num::NonZero, time::Duration};

use lockstep_embedded::Options;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::Served;

fn one_queue() -> Options {
    Options { queues: NonZero::new(1), ..Options::default() }
}

#[tokio::test]
async fn a_published_message_is_listed_as_it_was_sent() {
    let served = Served::start(one_queue()).await;
    let headers =
        [("lockstep-key", "k\u{e9}"), ("content-type", "text/plain"), ("lockstep-property-colour", "red")];
    let (status, receipt) = served.post("/publish", &headers, b"hello".to_vec()).await;
    assert_eq!((status, &receipt["queue"], &receipt["position"]), (201, &json!("embedded/0"), &json!(0)));
    let (_, listed) = served.get("/messages?queue=embedded/0&from=0&limit=10").await;
    let message = &listed["messages"][0];
    assert_eq!(message["id"], receipt["id"]);
    assert_eq!(message["key"], "k\u{e9}");
    assert_eq!(message["contentType"], "text/plain");
    assert_eq!(message["properties"], json!([["colour", "red"]]));
    assert_eq!(message["body"], "hello");
    assert_eq!((&listed["next"], &listed["end"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_property_can_be_the_key_whatever_its_case() {
    let options = || Options { key_property: Some("OrderId".to_owned()), ..Options::default() };
    let served = Served::start(options()).await;
    let mut queues = std::collections::BTreeSet::new();
    for turn in 0..4 {
        let headers = [("Lockstep-Property-OrderId", "17"), ("lockstep-key", &format!("other-{turn}"))];
        let (_, receipt) = served.post("/publish", &headers, b"x".to_vec()).await;
        queues.insert(receipt["queue"].as_str().unwrap().to_owned());
    }
    assert_eq!(queues.len(), 1);
    let queue = queues.pop_first().unwrap();
    let (_, listed) = served.get(&format!("/messages?queue={queue}")).await;
    assert_eq!(listed["messages"][3]["key"], "17");
    let (_, receipt) = served.post("/publish", &[("lockstep-key", "native")], b"x".to_vec()).await;
    let (_, listed) = served
        .get(&format!("/messages?queue={}&from={}", receipt["queue"].as_str().unwrap(), receipt["position"]))
        .await;
    assert_eq!(listed["messages"][0]["key"], "native");
}

#[tokio::test]
async fn messages_of_one_key_go_to_one_queue_in_order() {
    let served = Served::start(Options::default()).await;
    let mut queues = std::collections::BTreeMap::new();
    for number in 0..40 {
        let key = format!("key-{}", number % 8);
        let (status, receipt) = served.post("/publish", &[("lockstep-key", &key)], vec![number]).await;
        assert_eq!(status, 201);
        let (queue, last) = queues.entry(key).or_insert_with(|| (receipt["queue"].clone(), -1));
        assert_eq!(*queue, receipt["queue"]);
        assert!(receipt["position"].as_i64().unwrap() > *last);
        *last = receipt["position"].as_i64().unwrap();
    }
    let used: std::collections::BTreeSet<_> = queues.values().map(|(queue, _)| queue.to_string()).collect();
    assert!(used.len() > 1, "eight keys should not share one of four queues");
    let (_, status) = served.get("/").await;
    assert_eq!(status["queues"].as_array().unwrap().len(), 4);
    assert_eq!(status["consumer"], false);
}

#[tokio::test]
async fn a_binary_event_keeps_its_attributes_and_its_key() {
    let served = Served::start(one_queue()).await;
    let mut headers = vec![
        ("ce-specversion", "1.0"),
        ("ce-id", "a%20b"),
        ("ce-source", "/shop"),
        ("ce-type", "paid"),
        ("ce-partitionkey", "c%2F1"),
    ];
    let (status, _) = served.post("/publish", &headers, b"{}".to_vec()).await;
    assert_eq!(status, 201);
    let (_, listed) = served.get("/messages").await;
    let message = &listed["messages"][0];
    assert_eq!(message["key"], "c/1");
    assert!(message["properties"].as_array().unwrap().contains(&json!(["ce-id", "a b"])));
    headers.remove(2);
    let (status, refusal) = served.post("/publish", &headers, b"{}".to_vec()).await;
    assert_eq!(status, 400);
    assert!(refusal["error"].as_str().unwrap().contains("ce-source"), "{refusal}");
}

#[tokio::test]
async fn a_structured_event_is_stored_untouched() {
    let served = Served::start(one_queue()).await;
    let headers = [("content-type", "application/cloudevents+json; charset=utf-8")];
    let event = br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","partitionkey":"p", "data":1}"#;
    assert_eq!(served.post("/publish", &headers, event.to_vec()).await.0, 201);
    let (_, listed) = served.get("/messages").await;
    assert_eq!(listed["messages"][0]["key"], "p");
    assert_eq!(listed["messages"][0]["body"].as_str().unwrap().as_bytes(), event);
    assert_eq!(served.post("/publish", &headers, b"{".to_vec()).await.0, 400);
    assert_eq!(served.post("/publish", &headers, b"{\"id\":\"1\"}".to_vec()).await.0, 400);
    let batch = [("content-type", "application/cloudevents-batch+json")];
    assert_eq!(served.post("/publish", &batch, b"[]".to_vec()).await.0, 415);
}

#[tokio::test]
async fn what_can_not_be_taken_is_refused_with_a_reason() {
    let served = Served::start(Options { body_limit: 1_000, ..one_queue() }).await;
    let (status, refusal) = served.post("/publish", &[], vec![0; 1_001]).await;
    assert_eq!(status, 413);
    assert!(refusal["error"].as_str().unwrap().contains("1000 bytes"), "{refusal}");
    assert_eq!(served.post("/publish", &[], vec![0; 1_000]).await.0, 201);
    assert_eq!(served.get("/publish").await.0, 405);
    assert_eq!(served.get("/nowhere").await.0, 404);
    assert_eq!(served.get("/messages?queue=9").await.0, 404);
    assert_eq!(served.get("/messages?limit=0").await.0, 400);
    assert_eq!(served.get("/messages?from=x").await.0, 400);
    assert_eq!(served.post("/dead-letters/7/redrive", &[], vec![]).await.0, 404);
    assert_eq!(served.post("/dead-letters/x/redrive", &[], vec![]).await.0, 400);
}

#[tokio::test]
async fn a_body_without_a_length_is_bounded_too() {
    let served = Served::start(Options { body_limit: 100, ..one_queue() }).await;
    let ask = async |chunks: &[&str]| {
        let mut stream = TcpStream::connect(&served.address).await.unwrap();
        let head =
            "POST /publish HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        for chunk in chunks {
            let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
            stream.write_all(chunk.as_bytes()).await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 12];
        timeout(Duration::from_secs(10), stream.read_exact(&mut answer)).await.unwrap().unwrap();
        String::from_utf8(answer).unwrap()
    };
    assert_eq!(ask(&["ab", "cd"]).await, "HTTP/1.1 201");
    assert_eq!(ask(&["x".repeat(60).as_str(), "y".repeat(60).as_str()]).await, "HTTP/1.1 413");
    let (_, listed) = served.get("/messages").await;
    assert_eq!(listed["messages"].as_array().unwrap().len(), 1);
    assert_eq!(listed["messages"][0]["body"], "abcd");
}

#[tokio::test]
async fn a_body_cut_short_is_not_stored() {
    let served = Served::start(one_queue()).await;
    let mut stream = TcpStream::connect(&served.address).await.unwrap();
    stream.write_all(b"POST /publish HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains(" 201 "));
    assert_eq!(served.broker.unfinished(), 0);
}
