//! Changes that reach running pods without a restart.

use std::time::{Duration, Instant};

use lockstep_tests_support::time::{pause, wait_until};
use serde_json::{Value, json};

use crate::{
    api::{holds, paths},
    group::{GROUP, LOOK_EVERY, PATIENCE, Setting, restarts},
    plan::Plan,
    site::{BROKER, Site},
    world::{QUEUES, World},
};

/// Within what time every pod must have taken a hot change.
pub(super) const HOT_WITHIN: Duration = Duration::from_secs(5);

/// For how long nothing must come until nothing more is on its way.
const STILL: Duration = Duration::from_millis(500);

/// Merges a change of hot fields and waits until all pods say that they have it; how long it took.
pub(super) fn apply_hot(world: &World<'_>, change: &Value) -> Duration {
    let hashes = |world: &World<'_>| -> Vec<Value> {
        world.pods().iter().map(|pod| world.sidecar_status(pod)["config"]["hotHash"].clone()).collect()
    };
    let before = hashes(world);
    let since = Instant::now();
    world.site.api.merge(&world.group_path(), &json!({"spec": change}));
    wait_until(&format!("all pods have taken {change}"), HOT_WITHIN, || {
        pause(Duration::from_millis(50));
        let now = hashes(world);
        now.iter().all(|hash| hash.is_string() && !before.contains(hash))
            && now.windows(2).all(|two| two[0] == two[1])
    });
    since.elapsed()
}

/// Paused: the locks are free, nothing is delivered, no pod restarts. Resumed: all goes on.
pub(super) fn pause_and_resume(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "pause");
    world.apply(&Setting::default());
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    let pods = identities(&world);
    let took = apply_hot(&world, &json!({"state": "Paused"}));
    let mq = &site.mq;
    wait_until("the locks are released", HOT_WITHIN, || {
        (0..QUEUES).all(|queue| {
            let free = mq.lock(&world.broker_group, "tests", &world.topic, BROKER, queue);
            if free {
                mq.unlock(&world.broker_group, "tests", &world.topic, BROKER, queue);
            }
            free
        })
    });
    // What applications saw may arrive a little later.
    let mut done = 0;
    wait_until("nothing more is done", PATIENCE, || {
        let before = std::mem::replace(&mut done, site.collector.done(&world.topic));
        pause(STILL);
        before == done && site.collector.done(&world.topic) == done
    });
    let group = site.api.await_object(&world.group_path(), "the group is paused", PATIENCE, |group| {
        holds(group, "Paused", "True") && holds(group, "Ready", "True")
    });
    assert!(!holds(&group, "Stalled", "True"), "{group:#}");
    assert_eq!(site.collector.done(&world.topic), done, "messages were delivered while paused");
    let resumed = apply_hot(&world, &json!({"state": "Running"}));
    world.await_more_done(200);
    world.await_settled(PATIENCE);
    assert_eq!(identities(&world), pods, "a pod was restarted");
    let (took, resumed) = (took.as_secs_f32(), resumed.as_secs_f32());
    format!("paused in {took:.1} s, resumed in {resumed:.1} s; {}", world.judge())
}

/// All members of a group must agree on its subscriptions: all former pods end before the first new one starts.
pub(super) fn subscription(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "subscription");
    world.apply(&Setting::default());
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    let uid = |pod: &Value| pod["metadata"]["uid"].to_string();
    let former: Vec<Value> = world.pods();
    let formers: Vec<String> = former.iter().map(uid).collect();
    site.mq.create_topic("subscription-more", 4);
    world.apply(&Setting { topics: vec!["subscription-more".to_owned()], ..Setting::default() });
    wait_until("all pods are new", PATIENCE, || {
        pause(LOOK_EVERY);
        let now: Vec<String> = world.all_pods().iter().map(uid).collect();
        let old = now.iter().filter(|uid| formers.contains(uid)).count();
        assert!(old == 0 || old == now.len(), "old and new pods beside each other:\n{}", world.summary());
        old == 0 && now.len() == formers.len()
    });
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    let marks = |pods: &[Value], what: &str| -> Vec<u64> {
        let marks =
            pods.iter().flat_map(|pod| site.collector.marks(pod["metadata"]["name"].as_str().unwrap()));
        marks.filter(|mark| mark.what == what).map(|mark| mark.at).collect()
    };
    let (ends, starts) = (marks(&former, "ends"), marks(&world.pods(), "started"));
    assert_eq!((ends.len(), starts.len()), (3, 3));
    let gap = starts.iter().min().unwrap().checked_sub(*ends.iter().max().unwrap());
    let gap = gap.expect("a new pod started before the last former one had ended");
    format!("{} ms without a pod; {}", gap / 1_000, world.judge())
}

/// Each pod with the restarts of its containers.
pub(super) fn identities(world: &World<'_>) -> Vec<(String, u64)> {
    let pods = world.site.api.list(&paths::pods_of(&world.namespace, GROUP));
    let mut all: Vec<_> =
        pods.iter().map(|pod| (pod["metadata"]["name"].to_string(), restarts(pod))).collect();
    all.sort();
    all
}
