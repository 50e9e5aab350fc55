//! What is in the way is named with its exact cure, by `check --connect` and in the sidecar's condition, and not consumed.

use std::time::Duration;

use lockstep_history::Order;
use lockstep_tests_support::{
    rabbitmq::{
        Argument::{Flag, Number, Text},
        Declaration, ORDERED,
    },
    time::wait_until,
};

use crate::{
    bounds::RESUME,
    plan::Plan,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);
const CLASSIC: &Declaration = &[];
const CLASSIC_ACTIVE: &Declaration = &[("x-single-active-consumer", Flag(true))];
const STREAM: &Declaration = &[("x-queue-type", Text("stream"))];
const LIMITED: &Declaration = &[
    ("x-queue-type", Text("quorum")),
    ("x-single-active-consumer", Flag(true)),
    ("x-delivery-limit", Number(3)),
];
const LIMITED_WITH_EXCHANGE: &Declaration = &[
    ("x-queue-type", Text("quorum")),
    ("x-single-active-consumer", Flag(true)),
    ("x-delivery-limit", Number(3)),
    ("x-dead-letter-exchange", Text("")),
    ("x-dead-letter-routing-key", Text("nowhere")),
];

/// How an ordered queue should be declared: before 4.0, and from then on.
const RIGHT_BEFORE: &[&str] = &["\"x-queue-type\":\"quorum\",\"x-single-active-consumer\":true}"];
const RIGHT: &[&str] =
    &["\"x-queue-type\":\"quorum\",\"x-single-active-consumer\":true,\"x-delivery-limit\":-1}"];

/// A wrong declaration and what is said of it.
struct Case {
    name: &'static str,
    order: Order,
    declaration: &'static Declaration,
    reason: &'static str,
    cure: &'static [&'static str],
}

/// Ordered groups refuse queues that more than one may consume, that lose messages, or that are no queues; with the
/// declaration that would be right. Found by the management API, and by probing where there is none.
pub fn wrong_queues(site: &Site, _: &Plan) -> String {
    let right = if site.old { RIGHT_BEFORE } else { RIGHT };
    let case = |name, order, declaration, reason, cure| Case { name, order, declaration, reason, cure };
    let mut cases = vec![
        case("classic", Order::PerQueue, CLASSIC, "NotSingleActive", right),
        case("shared", Order::PerKey, site.shared, "NotSingleActive", right),
        case("stream", Order::PerQueue, STREAM, "StreamUnsupported", &["ordinary queue"][..]),
        case("unordered-stream", Order::Unordered, STREAM, "StreamUnsupported", &["ordinary queue"]),
    ];
    if site.old {
        cases.push(case("active-classic", Order::PerQueue, CLASSIC_ACTIVE, "ClassicQueue", right));
    }
    for case in &cases {
        for management in [true, false] {
            must_refuse(site, case, management).leave("one");
        }
    }
    // Only the management API shows all that would take messages away.
    let limited = case("limited", Order::PerQueue, LIMITED, "DeliveryLimitFinite", right);
    must_refuse(site, &limited, true).leave("one");
    if !site.old {
        unset_limit(site);
    }
    // Nothing is lost here: it is consumed, and told.
    let declaration = Some(LIMITED_WITH_EXCHANGE);
    let setting = Setting { declaration, ..Setting::default() };
    let mut world = World::new(site, "limited-with-exchange", setting, Duration::ZERO);
    world.publish(10, 1);
    world.join("one");
    world.await_reason("one", "DeliveryLimitFinite");
    format!("{} declarations were refused, one was told of; {}", cases.len() * 2 + 1, world.finish(SOON))
}

/// Where none is set, 4.0 limits deliveries to 20: refused where policies are seen, until one lifts the limit; and told where
/// they are not, as one may have lifted it.
fn unset_limit(site: &Site) {
    let cure = &["limit of 20", "delivery-limit\":-1}'"];
    let unset = Case {
        name: "unset",
        order: Order::PerQueue,
        declaration: ORDERED,
        reason: "DeliveryLimitFinite",
        cure,
    };
    let mut world = must_refuse(site, &unset, true);
    let policy =
        r#"{"pattern": "^unset-seen-0$", "definition": {"delivery-limit": -1}, "apply-to": "queues"}"#;
    site.put("/policies/%2F/unlimited", policy);
    world.await_deliveries("one", 0, 1, Duration::from_micros(RESUME));
    wait_until("nothing is told any more", SOON, || world.source_of("one")["reason"] == "");
    world.finish(SOON);

    let setting = Setting { declaration: Some(ORDERED), management: false, ..Setting::default() };
    let mut world = World::new(site, "unset-probed", setting, Duration::ZERO);
    world.publish(10, 1);
    world.join("one");
    let told = world.await_reason("one", unset.reason);
    assert!(cure.iter().all(|part| told.contains(part)), "{told}");
    world.finish(SOON);
}

/// What the case's sidecar has refused; it goes on to run.
fn must_refuse<'a>(site: &'a Site, case: &Case, management: bool) -> World<'a> {
    let Case { name, order, declaration, reason, cure } = *case;
    let name = format!("{name}-{}", if management { "seen" } else { "probed" });
    let setting = Setting { order, declaration: Some(declaration), management, ..Setting::default() };
    let mut world = World::new(site, &name, setting, Duration::ZERO);
    world.publish_bodies(["x"]);
    let names = |text: &str| text.contains(reason) && cure.iter().all(|part| text.contains(part));
    world.start("one");
    let told = world.await_reason("one", reason);
    assert!(names(&told), "{name}: {told}");
    // Meanwhile the queue could be consumed all the same.
    world.await_check("one", |code, said| code == Some(1) && names(said));
    assert!(world.deliveries().is_empty(), "{name} was consumed");
    world
}
