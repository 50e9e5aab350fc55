use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use lockstep_tests_support::rocketmq::{Cluster, Outgoing};
use serde_json::{Value, json};

/// The number of a request, as the broker reads it; `None` when there is no more.
fn request(stream: &mut TcpStream) -> Option<Value> {
    let mut word = [0; 4];
    stream.read_exact(&mut word).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(word) as usize];
    stream.read_exact(&mut frame).ok()?;
    let header = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&frame[4..4 + header]).unwrap();
    Some(header["opaque"].clone())
}

fn reply(stream: &mut TcpStream, opaque: &Value, code: u32, position: u64) {
    let fields = json!({"queueOffset": position.to_string()});
    let header = json!({"opaque": opaque, "code": code, "extFields": fields}).to_string();
    let length = |count: usize| u32::try_from(count).unwrap().to_be_bytes();
    let frame = [&length(4 + header.len())[..], &length(header.len()), header.as_bytes()].concat();
    stream.write_all(&frame).unwrap();
}

/// A broker that says to the first `busy` requests that it is busy, and gives the others positions from 70 on.
fn broker(busy: usize) -> Cluster {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for _ in 0..busy {
            let opaque = request(&mut stream).unwrap();
            reply(&mut stream, &opaque, 2, 0);
        }
        for position in 70.. {
            let Some(opaque) = request(&mut stream) else { return };
            reply(&mut stream, &opaque, 0, position);
        }
    });
    Cluster::new([("broker-a".to_owned(), address)])
}

#[test]
fn a_busy_broker_is_asked_again() {
    let messages = vec![Outgoing { body: b"x".to_vec(), ..Outgoing::default() }; 4];
    assert_eq!(broker(0).publish("t", "broker-a", 0, &messages), [70, 71, 72, 73]);
    // The first two are refused and taken last.
    assert_eq!(broker(2).publish("t", "broker-a", 0, &messages), [72, 73, 70, 71]);
}
