//! What is in the way is named with its exact cure, by `check --connect` and in the sidecar's condition, and not consumed.

use std::{fs, time::Duration};

use lockstep_history::Order;
use lockstep_tests_support::{
    ports::free_port,
    rabbitmq::{
        Argument::{Flag, Number, Text},
        Declaration, Outgoing,
    },
    time::wait_until,
};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);
const CLASSIC: &Declaration = &[];
const CLASSIC_ACTIVE: &Declaration = &[("x-single-active-consumer", Flag(true))];
const SHARED: &Declaration = &[("x-queue-type", Text("quorum")), ("x-delivery-limit", Number(-1))];
const OLD_SHARED: &Declaration = &[("x-queue-type", Text("quorum"))];
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
    let old = site.ordered.len() == 2;
    let shared = if old { OLD_SHARED } else { SHARED };
    let right: &[&str] = if old {
        &["\"x-queue-type\":\"quorum\",\"x-single-active-consumer\":true}"]
    } else {
        &["\"x-queue-type\":\"quorum\",\"x-single-active-consumer\":true,\"x-delivery-limit\":-1}"]
    };
    let case = |name, order, declaration, reason, cure| Case { name, order, declaration, reason, cure };
    let mut cases = vec![
        case("classic", Order::PerQueue, CLASSIC, "NotSingleActive", right),
        case("shared", Order::PerKey, shared, "NotSingleActive", right),
        case("stream", Order::PerQueue, STREAM, "StreamUnsupported", &["ordinary queue"][..]),
        case("unordered-stream", Order::Unordered, STREAM, "StreamUnsupported", &["ordinary queue"]),
    ];
    if old {
        cases.push(case("active-classic", Order::PerQueue, CLASSIC_ACTIVE, "ClassicQueue", right));
    }
    for case in &cases {
        for management in [true, false] {
            must_refuse(site, case, management);
        }
    }
    // Only the management API shows all that would take messages away.
    let limited = case("limited", Order::PerQueue, LIMITED, "DeliveryLimitFinite", right);
    must_refuse(site, &limited, true);
    // Nothing is lost here: it is consumed, and told.
    let declaration = Some(LIMITED_WITH_EXCHANGE);
    let setting = Setting { declaration, ..Setting::default() };
    let mut world = World::new(site, "limited-with-exchange", setting, Duration::ZERO);
    world.publish(10, 1);
    world.join("one");
    world.await_reason("one", "DeliveryLimitFinite");
    format!("{} declarations were refused, one was told of; {}", cases.len() * 2 + 1, world.finish(SOON))
}

fn must_refuse(site: &Site, case: &Case, management: bool) {
    let Case { name, order, declaration, reason, cure } = *case;
    let name = format!("{name}-{}", if management { "seen" } else { "probed" });
    let setting = Setting { order, declaration: Some(declaration), management, ..Setting::default() };
    let mut world = World::new(site, &name, setting, Duration::ZERO);
    let queue = world.queues[0].clone();
    site.node.publish(&queue, &[Outgoing::of("x")]);
    let names = |text: &str| text.contains(reason) && cure.iter().all(|part| text.contains(part));
    world.await_check("one", |code, said| code == Some(1) && names(said));
    world.start("one");
    let told = world.await_reason("one", reason);
    assert!(names(&told), "{name}: {told}");
    assert!(world.deliveries().is_empty(), "{name} was consumed");
    world.leave("one");
}

/// A wrong password, a virtual host that is not there, a port where nobody listens, and no permission.
pub fn wrong_access(site: &Site, _: &Plan) -> String {
    let credentials = "    credentialsSecretRef: {name: broker}\n";
    site.servers.ctl(&["add_user", "reader", "right-secret"]);
    site.servers.ctl(&["set_permissions", "reader", "^$", "^$", "^others$"]);
    let with = |source: &str, more: &str| Setting {
        source: source.to_owned(),
        more: more.to_owned(),
        management: false,
        ..Setting::default()
    };
    let mut world = World::new(site, "wrong-password", with("", credentials), Duration::ZERO);
    write_secret(&world, "reader", "wrong-secret");
    must_name(&mut world, "WrongCredentials", &["credentialsSecretRef"]);
    assert!(!world_output(&world).contains("wrong-secret"), "the secret was told");
    // The rotated Secret is used without a restart; the user may not read the queue.
    write_secret(&world, "reader", "right-secret");
    let told = world.await_reason("one", "AccessRefused");
    assert!(told.contains("set_permissions"), "{told}");
    site.servers.ctl(&["set_permissions", "reader", "^$", "^$", ".*"]);
    world.publish_bodies(["x"]);
    world.await_deliveries("one", 0, 1, SOON);
    wait_until("it is told that nothing could be verified", SOON, || {
        world.sidecars["one"].status().to_string().contains("OwnershipUnverified")
    });
    world.finish(SOON);

    let vhost = "      vhost: nowhere\n";
    let mut world = World::new(site, "wrong-vhost", with(vhost, ""), Duration::ZERO);
    must_name(&mut world, "VhostNotFound", &["rabbitmqctl add_vhost 'nowhere'"]);
    world.leave("one");

    let mut world = World::new(site, "wrong-port", with("", ""), Duration::ZERO);
    let nowhere = format!("127.0.0.1:{}", free_port());
    world.addresses.insert("one".to_owned(), vec![nowhere.clone()]);
    must_name(&mut world, "Unreachable", &[&nowhere]);
    // With one good address among them all is well.
    drop(world.sidecars.remove("one"));
    world.addresses.insert("one".to_owned(), vec![nowhere, site.node.amqp().to_owned()]);
    world.publish_bodies(["x"]);
    world.join("one");
    world.await_deliveries("one", 0, 1, SOON);
    world.finish(SOON);
    "each was named with its cure".to_owned()
}

fn write_secret(world: &World<'_>, username: &str, password: &str) {
    let folder = world.folder.join("secrets/credentials");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("username", username), ("password", password)] {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
}

fn world_output(world: &World<'_>) -> String {
    world.sidecars["one"].process.output()
}

fn must_name(world: &mut World<'_>, reason: &str, cure: &[&str]) {
    let names = |text: &str| text.contains(reason) && cure.iter().all(|part| text.contains(part));
    world.await_check("one", |code, said| code == Some(1) && names(said));
    world.start("one");
    let told = world.await_reason("one", reason);
    assert!(names(&told), "{told}");
}
