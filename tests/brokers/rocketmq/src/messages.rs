//! Strange messages arrive as they are, and harm nothing.

use std::time::Duration;

use lockstep_history::{Order, Rules};
use lockstep_tests_support::{
    app::{App, Options, Request},
    rocketmq::Outgoing,
    strange::{HOSTILE, must_be_unharmed},
};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const LIMIT: Duration = Duration::from_secs(60);
/// The largest body that a broker takes by default.
const LARGEST: usize = 4 * 1024 * 1024;

fn message(body: impl Into<Vec<u8>>) -> Outgoing {
    Outgoing { body: body.into(), ..Outgoing::default() }
}

fn with_properties(properties: impl IntoIterator<Item = (String, String)>) -> Outgoing {
    Outgoing { properties: properties.into_iter().collect(), ..message("x") }
}

/// Bodies of no byte and of 4 MiB, as many properties as a broker takes, and properties that want to be headers.
pub fn strange(site: &Site, _: &Plan) -> String {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let largest: Vec<u8> = (0..LARGEST).map(|index| u8::try_from(index % 251).unwrap()).collect();
    // The broker takes 32 KiB of properties.
    let many = (0..3_500).map(|index| (format!("p{index}"), "1".to_owned()));
    let not_text = Outgoing { raw_property: Some((b"b\xff".into(), b"\xfe\r\n".into())), ..message("y") };
    let messages = [
        message(""),
        not_text,
        message(all_bytes),
        message(largest),
        with_properties(many),
        with_properties(HOSTILE.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        message("last"),
    ];
    let mut world = World::new(site, "strange", Setting::default(), Duration::ZERO);
    let app = App::start(Options { log: Some(world.app.log()), ..Options::default() }).unwrap();
    world.callback = Some(format!("http://{}/one", app.address()));
    let bodies: Vec<Vec<u8>> = messages.iter().map(|message| message.body.clone()).collect();
    for message in messages {
        world.publish_to("broker-a", 1, &[message]);
    }
    world.join("one");
    let requests: Vec<Request> = bodies.iter().map(|_| app.next_request(LIMIT)).collect();
    for (request, body) in requests.iter().zip(&bodies) {
        must_be_unharmed(request, body);
    }
    assert_eq!(requests[1].header("lockstep-property-b%ff"), Some("%FE%0D%0A"), "{:?}", requests[1].headers);
    assert!(requests[4].number("lockstep-properties-dropped").is_some_and(|dropped| dropped > 3_000));
    world.await_end(LIMIT);
    world.leave("one");
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}
