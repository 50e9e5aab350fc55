//! What a user does first, and what the chart does over its life.

use std::time::{Duration, Instant};

use lockstep_tests_support::{
    rocketmq::Outgoing,
    time::{pause, wait_until},
};
use serde_json::json;

use crate::{
    api::{condition, holds, paths},
    group::{GROUP, LOOK_EVERY, PATIENCE, Setting},
    plan::Plan,
    site::{BROKER, SYSTEM, Site},
    world::{QUEUES, World},
};

/// Within what time a new group must be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A new group is ready within a minute, gets its messages in order, and `kubectl get` shows it.
pub(super) fn first_day(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "first-day");
    world.publish(20);
    let start = Instant::now();
    world.apply(&Setting { replicas: 1, ..Setting::default() });
    site.api.await_object(&world.group_path(), "the group is ready", READY_WITHIN, |group| {
        holds(group, "Ready", "True")
    });
    let ready = start.elapsed();
    world.publish(20);
    world.await_end();
    let group = world.await_settled(PATIENCE);
    let wanted = [
        ("Ready", "True"),
        ("Reconciling", "False"),
        ("Stalled", "False"),
        ("SourceConnected", "True"),
        ("ApplicationHealthy", "True"),
        ("QueuesOwned", "True"),
        ("Blocked", "False"),
        ("Paused", "False"),
    ];
    for (kind, status) in wanted {
        site.api.await_object(&world.group_path(), &format!("{kind} is {status}"), READY_WITHIN, |group| {
            holds(group, kind, status)
        });
    }
    assert_eq!(condition(&group, "Ready").map(|(status, ..)| status), Some("True"));
    let shown = world.kubectl(&["get", "cgrp", GROUP, "--output=wide"]);
    for column in ["READY", "REASON", "PODS", "BACKLOG", "OLDEST", "SOURCE", "AGE", GROUP, "True"] {
        assert!(shown.to_uppercase().contains(&column.to_uppercase()), "{column} is missing in:\n{shown}");
    }
    world.kubectl(&["wait", "--for=condition=Ready", &format!("cgrp/{GROUP}"), "--timeout=10s"]);
    let quick = quick_start(site).as_secs_f32();
    format!("ready after {:.1} s, the README's after {quick:.1} s; {}", ready.as_secs_f32(), world.judge())
}

/// The README's group, with the addresses of this cluster, is ready within a minute and gets its messages; how long it
/// took.
fn quick_start(site: &Site) -> Duration {
    let mut manifest = include_str!("../../../../examples/minimal.yaml").to_owned();
    let name_server = site.servers.namesrv();
    let here = [
        ("{name: orders}", "{name: orders, namespace: quick-start}"),
        ("rocketmq-namesrv.mq:9876", name_server.as_str()),
        ("registry.example.com/shop/orders:1", "localhost/lockstep-test-app:test"),
    ];
    for (there, here) in here {
        assert!(manifest.contains(there), "{there} is not in the example");
        manifest = manifest.replace(there, here);
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quick-start"}});
    site.api.create("/api/v1/namespaces", &namespace);
    site.mq.create_topic("orders", QUEUES);
    site.mq.create_group("shop-orders");
    let start = Instant::now();
    site.cluster.apply(&manifest).unwrap_or_else(|error| panic!("{error}\n{manifest}"));
    let group = format!("{}/orders", paths::groups("quick-start"));
    site.api.await_object(&group, "the README's group is ready", READY_WITHIN, |group| {
        holds(group, "Ready", "True")
    });
    let took = start.elapsed();
    for queue in 0..QUEUES {
        let message = Outgoing { body: b"{}".to_vec(), ..Outgoing::default() };
        let position = site.mq.publish("orders", BROKER, queue, &[message])[0];
        wait_until(&format!("queue {queue} is committed"), PATIENCE, || {
            pause(LOOK_EVERY);
            site.mq.committed("shop-orders", "orders", BROKER, queue) > Some(position)
        });
    }
    site.api.delete("/api/v1/namespaces/quick-start", &json!({}));
    took
}

/// An upgrade of the chart touches no group's messages; without the chart pods go on; installed again, it takes its
/// groups over again.
pub(super) fn chart_life(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "chart-life");
    world.apply(&Setting { replicas: 2, ..Setting::default() });
    world.await_settled(PATIENCE);
    world.publish_on();
    let names = |world: &World<'_>| {
        let mut names: Vec<_> = world.pods().iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        names.sort_by_key(ToString::to_string);
        names
    };
    let before = names(&world);
    site.install(&["--set=podAnnotations.upgraded=yes"]).unwrap_or_else(|error| panic!("{error}"));
    world.await_more_done(200);
    site.cluster
        .helm(&["uninstall", "lockstep", "--namespace", SYSTEM, "--wait"])
        .unwrap_or_else(|error| panic!("{error}"));
    world.await_more_done(200);
    assert!(world.group()["metadata"]["name"] == GROUP, "the group went with the chart");
    site.install(&[]).unwrap_or_else(|error| panic!("{error}"));
    world.await_more_done(200);
    world.await_settled(PATIENCE);
    assert_eq!(names(&world), before, "pods were made anew");
    site.cluster
        .helm(&["test", "lockstep", "--namespace", SYSTEM, "--timeout=120s"])
        .unwrap_or_else(|error| panic!("helm test: {error}"));
    // The operator works again: it follows a change.
    site.api.merge(&world.group_path(), &json!({"spec": {"replicas": 1}}));
    world.await_settled(PATIENCE);
    format!("{}", world.judge())
}
