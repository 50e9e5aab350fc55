//! Many groups: all are served, soon, quietly and in little memory.

use std::time::{Duration, Instant};

use lockstep_tests_support::time::{pause, wait_until};
use serde_json::{Value, json};

use super::{LoneSite, site::Writes};
use crate::{
    api::{holds, paths},
    plan::Plan,
};

/// The operator's resident memory at most, in bytes.
const RESIDENT_BYTES: u64 = 40_000_000;
/// Within what time a change of a group must be seen in its children, for 99 of 100.
const CHANGE_WITHIN: Duration = Duration::from_secs(1);
/// Within what time a changing backlog must be written first: a minute after the last status, and a poll.
const BACKLOG_WITHIN: Duration = Duration::from_secs(90);
/// How many changes are timed at least: the slowest one of a hundred may be slower.
const CHANGES: usize = 100;
/// Namespaces that the groups are spread over.
const NAMESPACES: usize = 3;

/// A group without an application: the fakes play its pods.
pub(super) fn group(name: &str, broker_group: &str, port: u16) -> Value {
    json!({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "source": {"rocketmq": {
                "nameServers": ["namesrv:9876"], "consumerGroup": broker_group, "subscriptions": [{"topic": "orders"}],
            }},
            "sidecar": {"adminPort": port},
            "template": {"spec": {"containers": [{"name": "app", "image": "localhost/app:1"}]}},
        },
    })
}

/// All groups are served; then nothing is written while nothing changes, and little while backlogs do.
pub(super) fn many_groups(site: &LoneSite, plan: &Plan) -> String {
    let operator = site.alone("crowd");
    let namespaces: Vec<String> =
        (0..NAMESPACES).map(|number| site.namespace(&format!("crowd-{number}"))).collect();
    let since = Instant::now();
    let place = |number: usize| (namespaces[number % NAMESPACES].as_str(), format!("group-{number}"));
    for number in 0..plan.groups {
        let (namespace, name) = place(number);
        site.api.create(&paths::groups(namespace), &group(&name, &name, site.fakes.port()));
    }
    await_ready(site, &namespaces, plan.groups);
    let served = since.elapsed();

    let mut delays = Vec::new();
    for round in 0..CHANGES.div_ceil(plan.groups) {
        delays.extend((0..plan.groups).map(|number| change(site, place(number), round + 2)));
        await_ready(site, &namespaces, plan.groups);
    }
    delays.sort();
    let p99 = delays[(delays.len() * 99).div_ceil(100) - 1];
    assert!(p99 < CHANGE_WITHIN, "a change took {p99:?}, of {delays:?}");

    await_quiet(site);
    let writes = site.writes();
    pause(plan.quiet);
    let seen = of_crowd(&writes);
    assert!(seen.is_empty(), "{} writes while nothing changed: {seen:#?}", seen.len());

    site.fakes.change_backlog(true);
    let writes = site.writes();
    let since = Instant::now();
    wait_until("a backlog is written, a minute after the last status at the latest", BACKLOG_WITHIN, || {
        pause(Duration::from_millis(500));
        !of_crowd(&writes).is_empty()
    });
    pause(plan.quiet);
    let watched = since.elapsed();
    let seen = of_crowd(&writes);
    site.fakes.change_backlog(false);
    // One at once, where the last one was long ago, and one for each minute.
    let most = plan.groups * (1 + usize::try_from(watched.as_secs() / 60).unwrap());
    assert!(
        seen.len() <= most,
        "{} writes for {} groups in {:?}: {seen:#?}",
        seen.len(),
        plan.groups,
        watched
    );
    let strangers: Vec<_> = seen.iter().filter(|write| !write.contains("consumergroups status")).collect();
    assert!(strangers.is_empty(), "{strangers:?}");

    let resident = operator.resident_bytes();
    assert!(resident < RESIDENT_BYTES, "the operator uses {resident} bytes");
    format!(
        "{} groups served in {:.1} s, changes in {p99:?} (p99), {} writes in {:?} of backlog, {:.1} MB",
        plan.groups,
        served.as_secs_f32(),
        seen.len(),
        watched,
        f64::from(u32::try_from(resident).unwrap()) / 1e6
    )
}

fn await_ready(site: &LoneSite, namespaces: &[String], count: usize) {
    let mut ready = 0;
    let is_ready = |group: &&Value| {
        holds(group, "Ready", "True")
            && holds(group, "Reconciling", "False")
            && group["status"]["observedGeneration"] == group["metadata"]["generation"]
    };
    wait_until(&format!("{count} groups are ready"), Duration::from_secs(180), || {
        pause(Duration::from_millis(500));
        let groups = namespaces.iter().map(|namespace| site.api.list(&paths::groups(namespace)));
        ready = groups.map(|groups| groups.iter().filter(is_ready).count()).sum();
        ready == count
    });
}

/// What was written of its own groups. Those of earlier scenarios are there too, and the API server refuses some of them
/// again and again.
fn of_crowd(writes: &Writes) -> Vec<String> {
    let mut seen = writes.seen();
    seen.retain(|write| write.contains(" crowd-"));
    seen
}

/// Waits until nothing was written for some seconds.
fn await_quiet(site: &LoneSite) {
    let mut writes = site.writes();
    let mut since = Instant::now();
    wait_until("nothing is written for 5 s", Duration::from_secs(90), || {
        pause(Duration::from_millis(500));
        if !of_crowd(&writes).is_empty() {
            writes = site.writes();
            since = Instant::now();
        }
        since.elapsed() > Duration::from_secs(5)
    });
}

/// Scales a group and gives the time from the request until its Deployment shows it.
fn change(site: &LoneSite, (namespace, name): (&str, String), replicas: usize) -> Duration {
    let since = Instant::now();
    site.api.merge(&format!("{}/{name}", paths::groups(namespace)), &json!({"spec": {"replicas": replicas}}));
    let path = format!("{}/{name}", paths::deployments(namespace));
    wait_until("the change is carried out", Duration::from_secs(30), || {
        site.api.get(&path).is_some_and(|deployment| deployment["spec"]["replicas"] == replicas)
    });
    since.elapsed()
}
