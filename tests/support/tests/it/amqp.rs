use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use lockstep_tests_support::rabbitmq::{Node, Outgoing};

/// A frame: its kind and its payload.
fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 7];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_be_bytes(head[3..].try_into().unwrap()) as usize + 1];
    stream.read_exact(&mut payload).ok()?;
    payload.pop();
    Some((head[0], payload))
}

fn answer(stream: &mut TcpStream, class: u16, method: u16, arguments: &[u8]) {
    let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    stream.write_all(&[&[1, 0, 1], &size[..], &payload, &[0xce]].concat()).unwrap();
}

/// A broker that answers questions, and that confirms by this script when so many messages have come in all: number,
/// whether all before it are meant, whether it is taken.
fn broker(confirms: &'static [(usize, u64, bool, bool)]) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        answer(&mut stream, 10, 10, &[]);
        let mut bodies = 0;
        while let Some((kind, payload)) = frame(&mut stream) {
            match (kind, payload.get(..4)) {
                // start-ok: a frame of 4,096 bytes at most.
                (1, Some([0, 10, 0, 11])) => answer(&mut stream, 10, 30, &[0, 9, 0, 0, 16, 0, 0, 0]),
                (1, Some([0, 10, 0, 40])) => answer(&mut stream, 10, 41, &[0]),
                (1, Some([0, 20, 0, 10])) => answer(&mut stream, 20, 11, &[0; 4]),
                (1, Some([0, 85, 0, 10])) => answer(&mut stream, 85, 11, &[]),
                (3, _) => {
                    assert!(payload.len() <= 4_096 - 8);
                    bodies += 1;
                    for (_, number, multiple, taken) in confirms.iter().filter(|(at, ..)| *at == bodies) {
                        let method = if *taken { 80 } else { 120 };
                        let arguments = [&number.to_be_bytes()[..], &[u8::from(*multiple)]].concat();
                        answer(&mut stream, 60, method, &arguments);
                    }
                }
                _ => {}
            }
        }
    });
    Node::new(address, "127.0.0.1:1")
}

fn publish(node: Node, messages: usize) -> bool {
    thread::spawn(move || node.publish("q", &vec![Outgoing::of("x"); messages])).join().is_ok()
}

#[test]
fn each_message_is_confirmed_alone_or_with_those_before_it() {
    assert!(publish(broker(&[(3, 3, true, true)]), 3));
    assert!(publish(broker(&[(3, 3, false, true), (3, 1, false, true), (3, 2, false, true)]), 3));
}

#[test]
fn a_message_that_is_not_taken_is_no_success() {
    assert!(!publish(broker(&[(2, 1, false, true), (2, 2, false, false)]), 2));
}

#[test]
fn a_large_body_comes_in_several_frames() {
    // 4,088 bytes a frame, so three of them.
    let node = broker(&[(3, 1, false, true)]);
    node.publish("q", &[Outgoing::of(vec![b'x'; 10_000])]);
}
