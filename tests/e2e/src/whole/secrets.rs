//! Secrets that come late, and that change.

use std::{collections::BTreeMap, fs};

use lockstep_history::Event;
use lockstep_tests_support::{
    brokers::{RocketMqOptions, RocketMqServers},
    proxy::Proxy,
    rocketmq::Cluster,
    time::{now_micros, pause, wait_until},
};
use serde_json::{Value, json};

use crate::{
    api::{condition, holds},
    cluster::NODE,
    group::{LOOK_EVERY, PATIENCE, Setting, restarts},
    plan::Plan,
    site::{BROKER, LOCK_SECONDS, Site},
    world::{QUEUES, World},
};

/// Requests that our own client sends unsigned: publishing, positions, topics and groups. What sidecars send besides
/// (pulls, locks, commits, heartbeats) must be signed.
const UNSIGNED: &str = "authenticationWhitelist=10,310,14,30,17,200";

/// What a lost connection may cost in duplicates in a queue, as documented for `PerQueue`.
const BOUND: u64 = 32;

/// A missing Secret is a condition, and taken up when it comes; another key reaches the next connection, and no lease
/// is lost over it; one that is deleted stops nothing before the next connection.
pub(super) fn rotation(site: &Site, _: &Plan) -> String {
    let servers = RocketMqServers::start(RocketMqOptions {
        nodes: &["namesrv", BROKER],
        lock_seconds: LOCK_SECONDS,
        signed: true,
        bind: NODE,
        conf: UNSIGNED,
        ..RocketMqOptions::default()
    });
    let address = servers.broker(BROKER);
    // The tool gives up after 2 s whatever the machine does beside it, and then the user may be there all the same.
    let user = |verb: &str, name: &str, more: &str| {
        wait_until(&format!("{verb} {name} is done"), PATIENCE, || {
            let said = servers.admin(&format!("{verb} -b {address} -u {name} {more}\n"));
            said.contains("success") || said.contains("exist")
        });
    };
    user("createUser", "first", "-p first-secret");
    user("createUser", "second", "-p second-secret");
    let proxy = Proxy::start_at(NODE, &address, 1);
    let mq = Cluster::new([(BROKER.to_owned(), address.clone())]);
    let mut world = World::at(site, "secrets", mq, servers.namesrv());
    let source = format!(
        "      addressOverrides: {{\"{address}\": \"{}\"}}\n    credentialsSecretRef: {{name: broker}}\n",
        proxy.address()
    );
    world.apply(&Setting { replicas: 2, source, ..Setting::default() });
    world.publish(10);
    let missing = site.api.await_object(&world.group_path(), "the Secret is missed", PATIENCE, |group| {
        condition(group, "SourceConnected")
            .is_some_and(|(status, reason, _)| (status, reason) == ("False", "SecretMissing"))
    });
    let (_, _, message) = condition(&missing, "SourceConnected").unwrap();
    assert!(message.contains("broker"), "the message does not name the Secret: {message}");
    give(&world, "first");
    world.await_settled(PATIENCE);
    let pods: Vec<Value> =
        world.pods().iter().map(|pod| json!([pod["metadata"]["uid"], restarts(pod)])).collect();
    world.publish_on();
    world.await_more_done(200);
    let share = u64::from(QUEUES) / 2;
    wait_until("the two pods have shared the queues", PATIENCE, || {
        pause(LOOK_EVERY);
        world.pods().iter().all(|pod| world.sidecar_status(pod)["totals"]["owned"] == share)
    });
    let shared = now_micros();
    give(&world, "second");
    wait_until("the new key is in all pods", PATIENCE, || {
        pause(LOOK_EVERY);
        world.pods().iter().all(|pod| mounted(&world, pod) == "second")
    });
    let before = proxy.accepted();
    proxy.cut(false);
    wait_until("all pods are connected again", PATIENCE, || proxy.accepted() > before + 1);
    world.await_more_done(200);
    // The old key is withdrawn: whoever still signed with the old key would be refused from now on.
    user("updateUser", "first", "-p another-secret");
    world.await_more_done(400);
    world.await_settled(PATIENCE);
    let now: Vec<Value> =
        world.pods().iter().map(|pod| json!([pod["metadata"]["uid"], restarts(pod)])).collect();
    assert_eq!(now, pods, "a pod was restarted");
    let lost = moved_since(site, &world, shared);
    assert!(lost.is_empty(), "leases were lost: {lost:?}");
    deleted(&world, &proxy);
    let now: Vec<Value> =
        world.pods().iter().map(|pod| json!([pod["metadata"]["uid"], restarts(pod)])).collect();
    assert_eq!(now, pods, "a pod was restarted when the Secret was gone");
    format!("{}", world.judge())
}

/// Sessions outlive their Secret; the next connection says that it is gone, and goes on when it is back.
fn deleted(world: &World<'_>, proxy: &Proxy) {
    world.kubectl(&["delete", "secret", "broker"]);
    wait_until("the key is in no pod any more", PATIENCE, || {
        pause(LOOK_EVERY);
        world.pods().iter().all(|pod| mounted(world, pod).is_empty())
    });
    world.await_more_done(200);
    assert!(holds(&world.group(), "SourceConnected", "True"), "{:#}", world.group()["status"]);
    world.fault("connections cut without a key for the next ones", BOUND, 1);
    proxy.cut(false);
    world.site.api.await_object(&world.group_path(), "the Secret is missed again", PATIENCE, |group| {
        condition(group, "SourceConnected")
            .is_some_and(|(status, reason, _)| (status, reason) == ("False", "SecretMissing"))
    });
    assert_eq!(world.pods().len(), 2);
    assert!(world.pods().iter().all(|pod| holds(pod, "Ready", "True")), "{}", world.summary());
    give(world, "second");
    world.await_settled(PATIENCE);
    world.await_more_done(200);
}

/// The queues that had more than one owner since then, with their epochs.
fn moved_since(site: &Site, world: &World<'_>, since: u64) -> Vec<(String, Vec<Option<u64>>)> {
    let mut epochs: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
    for event in site.collector.history(&world.topic).events() {
        if let Event::Start { queue, epoch, at, .. } = event
            && *at > since
        {
            let of = epochs.entry(queue.to_string()).or_default();
            if !of.contains(epoch) {
                of.push(*epoch);
            }
        }
    }
    epochs.into_iter().filter(|(_, epochs)| epochs.len() > 1).collect()
}

/// Writes the Secret with a user's keys.
fn give(world: &World<'_>, user: &str) {
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: broker, namespace: {}}}\n\
         stringData: {{accessKey: {user}, secretKey: {user}-secret}}\n",
        world.namespace
    );
    world.site.cluster.apply(&secret).unwrap_or_else(|error| panic!("{error}"));
}

/// The access key in a pod's volume, which lies below the kubelet's folder.
fn mounted(world: &World<'_>, pod: &Value) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let volume = pod["spec"]["volumes"].as_array().unwrap().iter().find(|volume| {
        volume["secret"]["secretName"] == "broker"
            || volume["projected"]["sources"][0]["secret"]["name"] == "broker"
    });
    let volume = volume.unwrap_or_else(|| panic!("no volume of the Secret: {:#}", pod["spec"]["volumes"]));
    let plugin = if volume["secret"].is_object() { "secret" } else { "projected" };
    let folder = world.site.cluster.state().join("kubelet/pods").join(uid);
    let folder =
        folder.join(format!("volumes/kubernetes.io~{plugin}")).join(volume["name"].as_str().unwrap());
    fs::read_to_string(folder.join("accessKey")).unwrap_or_default()
}
