//! Members come and go: nothing is lost, nothing comes twice, nothing out of order.

use std::{process::Stdio, time::Duration};

use lockstep_history::{Order, Rules};
use lockstep_tests_support::{
    process::Process,
    recording::read_history,
    time::{now_micros, wait_until},
};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

/// So long a scenario without faults may take for its last messages.
const END: Duration = Duration::from_secs(1_800);

/// One message in ten is filtered out.
fn tag_of(index: usize) -> &'static str {
    if index % 10 == 3 { "b" } else { "a" }
}

/// Beside a Java member that stays.
pub fn beside_java(site: &Site, plan: &Plan) -> String {
    let setting = Setting { tags: Some("a"), ..Setting::default() };
    let mut world = World::new(site, "java", setting, Duration::from_millis(10));
    world.publish(plan.messages, 64, tag_of);
    let log = world.folder.join("java-member.log");
    let mut java = java_member(&world, &log);
    wait_until("the Java member takes messages", Duration::from_secs(60), || {
        assert!(java.is_running(), "it ended: {}", java.output());
        !read_history(&log).events().is_empty()
    });
    come_and_go(&mut world, plan);
    world.await_end(END);
    let progress = world.await_no_difference();
    drop(java.take_stdin());
    java.wait(Duration::from_secs(30));
    let mut rules = Rules::new(Order::PerQueue);
    rules.apart.insert("java-member".to_owned());
    let verdict = world.judge(&rules, [read_history(&log)]);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("{verdict}; {progress}")
}

fn java_member(world: &World<'_>, log: &std::path::Path) -> Process {
    let log = log.to_string_lossy().into_owned();
    let namesrv = world.site.servers.namesrv();
    let arguments =
        ["peer", "Consume", &namesrv, &world.topic, "a", &world.group, "java-member", &log, "10000"];
    let mut command = world.site.servers.command(&arguments);
    command.stdin(Stdio::piped());
    Process::spawn("java member", &mut command, world.folder.join("java-member.out"))
}

/// Only sidecars, in queue order, with a tag filter.
pub fn alone(site: &Site, plan: &Plan) -> String {
    let setting = Setting { tags: Some("a"), ..Setting::default() };
    without_java(site, plan, "alone", setting, Duration::from_millis(10))
}

/// Only sidecars, in the order of keys.
pub fn per_key(site: &Site, plan: &Plan) -> String {
    let setting = Setting { order: Order::PerKey, ..Setting::default() };
    without_java(site, plan, "keys", setting, Duration::from_millis(40))
}

fn without_java(site: &Site, plan: &Plan, name: &str, setting: Setting, work: Duration) -> String {
    let order = setting.order;
    let mut world = World::new(site, name, setting, work);
    world.publish(plan.messages, plan.keys, tag_of);
    world.join("stays");
    world.await_deliveries("stays", 0, 1, Duration::from_secs(30));
    come_and_go(&mut world, plan);
    world.await_end(END);
    let progress = world.await_no_difference();
    world.leave("stays");
    let verdict = world.judge(&Rules::new(order), []);
    assert_eq!(verdict.counts.duplicates, 0, "{verdict}");
    format!("{verdict}; {progress}")
}

/// A sidecar joins, delivers and leaves, again and again.
fn come_and_go(world: &mut World<'_>, plan: &Plan) {
    for round in 0..plan.joins {
        let name = format!("guest-{round}");
        let since = now_micros();
        world.join(&name);
        world.await_deliveries(&name, since, 50, Duration::from_secs(60));
        world.leave(&name);
    }
}
