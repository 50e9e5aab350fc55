//! Strange messages arrive as they are, and harm nothing.

use std::time::Duration;

use lockstep_tests_support::{
    activemq::{Kind, Outgoing},
    app::{App, Options, Request},
    strange::{HOSTILE, must_be_unharmed},
};
use serde_json::{Value, json};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const LIMIT: Duration = Duration::from_secs(120);
const TEXT: &str = "a\0b \u{1f600} größe";
/// What Java begins a serialized object with, and null.
const OBJECT: &[u8] = b"\xac\xed\0\x05p";
/// Two entries: `n`, the number 7, and `t`, a text.
const MAP: &[u8] = b"\0\0\0\x02\0\x01n\x05\0\0\0\x07\0\x01t\x09\0\x02hi";
/// The number 7 and a text.
const STREAM: &[u8] = b"\x05\0\0\0\x07\x09\0\x02hi";

fn of_kind(kind: Kind, content: &[u8]) -> Outgoing {
    Outgoing { kind, content: Some(content.to_vec()), ..Outgoing::default() }
}

/// Texts with NUL and what is beyond 16 bits, every kind of message, compressed and not, empty, and with properties that want
/// to be headers of HTTP or are far too many.
pub fn strange(site: &Site, _: &Plan) -> String {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let long = "long ".repeat(30_000);
    let hostile: Vec<(String, String)> =
        HOSTILE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let many = (0..3_500).map(|index| (format!("p{index}"), "1".to_owned())).collect();
    let exact: Vec<(Outgoing, Vec<u8>)> = vec![
        (Outgoing::text(TEXT), TEXT.into()),
        (Outgoing::text(TEXT).compressed(), TEXT.into()),
        (Outgoing::text(&long).compressed(), long.clone().into()),
        (Outgoing::text(""), Vec::new()),
        (Outgoing::of(all_bytes.clone()), all_bytes.clone()),
        (Outgoing::of(all_bytes.clone()).compressed(), all_bytes),
        (Outgoing::of(""), Vec::new()),
        (Outgoing { kind: Kind::Base, ..Outgoing::default() }, Vec::new()),
        (Outgoing { kind: Kind::Text, ..Outgoing::default() }, Vec::new()),
        (of_kind(Kind::Object, OBJECT), OBJECT.into()),
        (Outgoing { properties: hostile, ..Outgoing::of("x") }, b"x".into()),
        (Outgoing { properties: many, ..Outgoing::of("y") }, b"y".into()),
    ];
    let structured = [
        (of_kind(Kind::Map, MAP), json!({"n": 7, "t": "hi"})),
        (of_kind(Kind::Stream, STREAM), json!([7, "hi"])),
    ];
    let mut world = World::new(site, "strange", Setting::default(), Duration::ZERO);
    let app = App::start(Options { log: Some(world.app.log()), ..Options::default() }).unwrap();
    world.callback = Some(format!("http://{}/one", app.address()));
    let queue = world.queues[0].clone();
    world.publish_to(&queue, exact.iter().map(|(message, _)| message.clone()).collect());
    world.publish_to(&queue, structured.iter().map(|(message, _)| message.clone()).collect());
    world.join("one");
    let requests: Vec<Request> = exact.iter().map(|_| app.next_request(LIMIT)).collect();
    for (request, (_, body)) in requests.iter().zip(&exact) {
        must_be_unharmed(request, body);
    }
    for (_, wanted) in &structured {
        let request = app.next_request(LIMIT);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body, *wanted);
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
    let kinds: Vec<_> = [0, 9].map(|index| requests[index].header("content-type")).into();
    assert_eq!(kinds, [Some("text/plain; charset=utf-8"), Some("application/x-java-serialized-object")]);
    assert!(requests[11].number("lockstep-properties-dropped").is_some_and(|dropped| dropped > 3_000));
    format!("{}", world.finish(LIMIT))
}
