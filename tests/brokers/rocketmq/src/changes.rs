//! The cluster changes under a running sidecar.

use std::{collections::BTreeSet, time::Duration};

use lockstep_history::{Order, Rules};
use lockstep_tests_support::{
    ports::free_port,
    rocketmq::Outgoing,
    time::{now_micros, wait_until},
};
use serde_json::Value;

use crate::{
    plan::Plan,
    world::{BROKERS, CRASH_BOUND, Delivery, QUEUES, Setting, Site, World},
};

const LIMIT: Duration = Duration::from_secs(120);
/// A broker that works on a heartbeat after its sender's connection broke lists the sender for 120 s more, and looks
/// each 10 s.
const REMEMBERED: Duration = Duration::from_secs(130);

fn messages(count: usize) -> Vec<Outgoing> {
    (0..count).map(|index| Outgoing { body: format!("{index}").into(), ..Outgoing::default() }).collect()
}

/// The reason that a sidecar gives for its source.
fn reason(world: &World<'_>, name: &str) -> String {
    world.sidecars[name].status()["source"]["reason"].as_str().unwrap_or_default().to_owned()
}

/// A topic that is missing at start is named, and consumed once it is created; queues that are added later begin at
/// their beginning.
pub fn late_topic(site: &Site, _: &Plan) -> String {
    let mut world = World::without_topic(site, "late", Setting::default(), Duration::ZERO);
    site.cluster.create_group(&world.group);
    world.start("one");
    wait_until("the missing topic is named", LIMIT, || reason(&world, "one") == "TopicNotFound");
    site.cluster.create_topic(&world.topic, QUEUES);
    world.publish(80, 8, |_| "a");
    world.await_end(LIMIT);
    site.cluster.create_topic(&world.topic, QUEUES * 2);
    // The broker may take what is sent without waiting in another order: the places count, all from the beginning.
    let added: BTreeSet<u64> =
        world.publish_to("broker-a", QUEUES * 2 - 1, &messages(10)).into_iter().collect();
    assert_eq!(added, (0..10).collect());
    world.await_deliveries("one", 0, 90, LIMIT);
    world.leave("one");
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}

/// More members than queues: all are ready, some own nothing, nothing comes twice.
pub fn crowd(site: &Site, _: &Plan) -> String {
    let mut world = World::without_topic(site, "crowd", Setting::default(), Duration::from_millis(2));
    site.cluster.create_group(&world.group);
    site.cluster.create_topic(&world.topic, 1);
    let names = ["one", "two", "three"];
    names.iter().for_each(|name| world.join(name));
    for broker in BROKERS {
        world.publish_to(broker, 0, &messages(300));
    }
    world.await_log("all is delivered", LIMIT, |log| log.len() >= 600);
    // The retry topic's queue, which somebody owns too, is counted nowhere.
    wait_until("the queues owned are those known", LIMIT, || {
        let totals = names.map(|name| world.sidecars[name].status()["totals"].take());
        let owned: Option<u64> = totals.iter().map(|totals| totals["owned"].as_u64()).sum();
        owned == Some(2) && totals.iter().all(|totals| totals["known"] == 2)
    });
    names.iter().for_each(|name| world.leave(name));
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("{verdict}")
}

/// Two live processes with one client id: the clash is named, and nothing is lost.
pub fn twins(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "twins", Setting::default(), Duration::from_millis(2));
    world.client_id = Some("same".to_owned());
    world.publish(400, 8, |_| "a");
    world.fault("two members with one client id", 400, 400);
    world.start("one");
    world.start("two");
    wait_until("the clash is named", LIMIT, || {
        ["one", "two"].iter().any(|name| reason(&world, name) == "DuplicateClientId")
    });
    drop(world.sidecars.remove("two"));
    world.await_end(REMEMBERED + LIMIT);
    let delivered: BTreeSet<_> =
        world.deliveries().into_iter().map(|one| (one.queue, one.position)).collect();
    assert_eq!(delivered.len(), 400);
    "the clash was named, nothing was lost".to_owned()
}

/// One of two name servers was never there, and the other dies: delivery goes on, and who starts then says what is
/// missing. A broker goes silent: its queues wait and go on.
pub fn silence(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "silence", Setting::default(), Duration::from_millis(5));
    world.name_servers.insert(0, format!("127.0.0.1:{}", free_port()));
    world.publish(8_000, 64, |_| "a");
    world.join("one");
    world.await_deliveries("one", 0, 100, LIMIT);
    site.servers.kill("namesrv");
    let since = now_micros();
    world.start("late");
    wait_until("the missing name server is named", LIMIT, || {
        reason(&world, "late") == "NameServerUnreachable"
    });
    world.await_deliveries("one", since, 1_000, LIMIT);
    site.servers.restart("namesrv");
    world.await_ready("late");

    world.fault("freeze of broker-b", CRASH_BOUND, 1);
    site.servers.freeze("broker-b");
    let since = now_micros();
    let lease = site.lock_seconds * 1_000_000 / 2;
    wait_until("the leases of broker-b are over", LIMIT, || now_micros() > since + lease + 1_000_000);
    let late = |log: &[Delivery]| {
        let silent = |one: &&Delivery| one.queue.contains("/broker-b/") && one.start > since + lease;
        log.iter().filter(silent).count()
    };
    assert_eq!(late(&world.deliveries()), 0, "a request was sent after the lease had ended");
    site.servers.thaw("broker-b");
    world.await_end(LIMIT);
    ["one", "late"].iter().for_each(|name| world.leave(name));
    format!("{}", world.judge(&Rules::new(Order::PerQueue), []))
}

/// An administrator resets the group's positions with mqadmin: everything comes again, in order.
pub fn reset(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "reset", Setting::default(), Duration::ZERO);
    world.publish(400, 8, |_| "a");
    world.join("one");
    world.await_end(LIMIT);
    world.await_deliveries("one", 0, 400, LIMIT);
    let command = format!("resetOffsetByTime -g {} -t {} -s 0 -f true\n", world.group, world.topic);
    let said = world.unwatched_fault("reset of the positions", (400, 0), || site.servers.admin(&command));
    world.await_log("everything came again", LIMIT, |log| log.len() >= 800);
    world.await_end(LIMIT);
    world.leave("one");
    let verdict = world.judge(&Rules::new(Order::PerQueue), []);
    assert_eq!(verdict.counts.duplicates, 400, "{verdict}\n{said}");
    format!("{verdict}")
}

/// A group that is not there is named with its cure, and consumed for once it is created.
pub fn missing_group(site: &Site, _: &Plan) -> String {
    let mut world = World::without_topic(site, "missing", Setting::default(), Duration::ZERO);
    site.cluster.create_topic(&world.topic, 1);
    world.start("one");
    wait_until("the missing group is named", LIMIT, || reason(&world, "one") == "GroupNotFound");
    let status = world.sidecars["one"].status();
    let remedy = status["source"]["remedy"].as_str().unwrap_or_default().to_owned();
    assert!(remedy.contains("updateSubGroup") && remedy.contains(&world.group), "{remedy}");
    site.cluster.create_group(&world.group);
    world.publish_to("broker-a", 0, &messages(1));
    world.await_deliveries("one", 0, 1, LIMIT);
    wait_until("the source is connected", LIMIT, || {
        world.sidecars["one"].status()["source"]["connected"] == Value::Bool(true)
    });
    world.leave("one");
    remedy
}

/// What is in the way is named with its exact cure, by `check --connect` and in the sidecar's condition.
pub fn named_cures(site: &Site, _: &Plan) -> String {
    let mut world = World::without_topic(site, "cures", Setting::default(), Duration::ZERO);
    let (topic, group) = (world.topic.clone(), world.group.clone());
    must_name(&mut world, "TopicNotFound", &["mqadmin updateTopic ", &topic]);
    site.cluster.create_topic(&topic, 1);
    must_name(&mut world, "GroupNotFound", &["mqadmin updateSubGroup ", &group]);
    let off = format!("updateSubGroup -c DefaultCluster -g {group} -s false\n");
    let said = site.servers.admin(&off);
    assert_eq!(said.matches(" success").count(), 2, "{said}");
    must_name(&mut world, "NoPermission", &[&group]);
    site.cluster.create_group(&group);
    world.await_check("one", |code, said| code == Some(0) && said.contains("the source can be used"));

    // The address that the name server tells leads nowhere.
    let advertised = site.servers.broker("broker-b");
    let nowhere = format!("127.0.0.1:{}", free_port());
    world.overrides.insert("one".to_owned(), [(advertised.clone(), nowhere)].into());
    must_name(&mut world, "BrokerUnreachable", &["addressOverrides: {", &advertised]);
    "each was named with its cure".to_owned()
}

fn must_name(world: &mut World<'_>, reason: &str, cure: &[&str]) {
    let names = |text: &str| text.contains(reason) && cure.iter().all(|part| text.contains(part));
    world.await_check("one", |code, said| code == Some(1) && names(said));
    world.start("one");
    let mut source = String::new();
    wait_until(&format!("{reason} is in the condition"), LIMIT, || {
        source = world.sidecars["one"].status()["source"].to_string().replace('\\', "");
        names(&source)
    });
    drop(world.sidecars.remove("one"));
}
