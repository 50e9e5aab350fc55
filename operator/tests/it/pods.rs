//! Pods are asked how they are, and touched when they have not applied the hot configuration.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    fake::{Fake, Fault},
    scenario::{Scenario, group, until_made, with_groups},
    sidecars::Sidecars,
};

const BOTH: [&str; 2] = ["orders-5d5b-a", "orders-5d5b-b"];

/// A group with two pods that deliver.
async fn with_pods() -> (Scenario, Sidecars) {
    let sidecars = Sidecars::default();
    let scenario = Scenario::polling(with_groups(&["orders"]), &sidecars);
    until_made(&scenario.fake, "orders").await;
    sidecars.roll_out(&scenario.fake, "orders");
    scenario.until_condition("orders", "Ready", "True").await;
    (scenario, sidecars)
}

fn touched(fake: &Fake, pod: &str) -> Option<String> {
    let annotations = fake.get("pods", pod)?["metadata"]["annotations"].clone();
    annotations.get("lockstep.dev/hot-hash").and_then(Value::as_str).map(str::to_owned)
}

fn change(fake: &Fake, spec: &Value) {
    fake.edit(|store| {
        store.apply("consumergroups", "shop", "orders", &json!({"metadata": {}, "spec": spec}))
    });
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_old_hot_configuration_is_touched() {
    let (scenario, _sidecars) = with_pods().await;
    let fake = &scenario.fake;
    change(fake, &json!({"state": "Paused"}));
    for pod in BOTH {
        let first = fake.until(|fake| touched(fake, pod)).await;
        // Again until it has applied it, and each time with another value: an equal one wakes no kubelet.
        fake.until(|fake| (touched(fake, pod)? != first).then_some(())).await;
    }
    let pods = fake.take_writes().into_iter().filter(|write| write.path.contains("/pods/"));
    assert!(pods.into_iter().all(|write| write.code == 200));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_touched_holds_up_neither_the_others_nor_the_status() {
    let (scenario, _sidecars) = with_pods().await;
    let fake = &scenario.fake;
    fake.fail(Fault::new(Method::PATCH, "/pods/orders-5d5b-a", usize::MAX, 403));
    change(fake, &json!({"state": "Paused"}));
    fake.until(|fake| touched(fake, BOTH[1])).await;
    let generation = fake.get("consumergroups", "orders").unwrap()["metadata"]["generation"].clone();
    fake.until(|fake| {
        let told = fake.get("consumergroups", "orders")?["status"]["observedGeneration"] == generation;
        told.then_some(())
    })
    .await;
    let told = scenario.until_condition("orders", "Reconciling", "True").await;
    assert!(told["message"].as_str().unwrap().contains("orders-5d5b-a"), "{told}");
    // It is tried again, at growing pauses.
    let writes = scenario.two_minutes().await;
    let tries = writes.iter().filter(|write| write.path.ends_with(BOTH[0])).count();
    assert!((2..=15).contains(&tries), "{tries} tries in two minutes");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_only_wears_the_label_is_not_the_groups() {
    let (scenario, sidecars) = with_pods().await;
    let fake = &scenario.fake;
    // Its address is that of a sidecar that answers.
    let mut stranger = fake.get("pods", BOTH[0]).unwrap();
    stranger["metadata"]["ownerReferences"] = json!([]);
    let mut of_another = stranger.clone();
    of_another["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bills-1", "uid": "1", "controller": true},
    ]);
    fake.edit(|store| {
        store.put("pods", "shop", "stranger", stranger);
        store.put("pods", "shop", "of-another", of_another);
    });
    sidecars.all(|says| says["config"]["hotHash"] = json!("other"));
    // The ReplicaSet may be out of sight, and its pods are the group's still.
    fake.edit(|store| store.delete("replicasets", "shop", "orders-5d5b"));
    for pod in BOTH {
        fake.until(|fake| touched(fake, pod)).await;
    }
    scenario.two_minutes().await;
    assert_eq!((touched(fake, "stranger"), touched(fake, "of-another")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_watched_closely_however_long_the_group_was_not_ready_before() {
    let (scenario, sidecars) = with_pods().await;
    sidecars.all(|says| says["source"]["connected"] = json!(false));
    scenario.until_condition("orders", "Ready", "False").await;
    sleep(Duration::from_secs(600)).await;
    let asked_in_ten_seconds = async || {
        let before = sidecars.asked();
        sleep(Duration::from_secs(10)).await;
        sidecars.asked() - before
    };
    let idle = asked_in_ten_seconds().await;
    assert!(idle <= 6, "{idle}");
    change(&scenario.fake, &json!({"state": "Paused"}));
    let lively = asked_in_ten_seconds().await;
    assert!(lively >= 18, "{lively}");
}

#[tokio::test(start_paused = true)]
async fn one_slow_answer_changes_no_condition() {
    let (scenario, sidecars) = with_pods().await;
    scenario.two_minutes().await;
    sidecars.all(|says| *says = json!("late"));
    // Two polls.
    sleep(Duration::from_secs(9)).await;
    assert_eq!(scenario.fake.take_writes(), []);
    scenario.until_condition("orders", "Ready", "Unknown").await;
}

/// The queues that a pod is told to take.
fn assigned(fake: &Fake, pod: &str) -> Option<Vec<String>> {
    let annotations = fake.get("pods", pod)?["metadata"]["annotations"].clone();
    serde_json::from_str(annotations.get("lockstep.dev/assignment")?.as_str()?).ok()
}

#[tokio::test(start_paused = true)]
async fn queues_of_rabbitmq_are_divided_among_the_pods() {
    let queues = ["orders-0", "orders-1", "orders-2"];
    let fake = Fake::new();
    let mut group = group("orders");
    group["spec"]["source"] = json!({"rabbitmq": {"urls": ["amqp://rabbit.mq:5672"], "queues": queues}});
    fake.edit(|store| store.put("consumergroups", "shop", "orders", group));
    let sidecars = Sidecars::default();
    let scenario = Scenario::polling(fake, &sidecars);
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    sidecars.roll_out(fake, "orders");
    scenario.two_minutes().await;
    let shares = BOTH.map(|pod| assigned(fake, pod).unwrap_or_default());
    let mut all = shares.concat();
    all.sort();
    assert_eq!(all, queues, "each queue has one pod: {shares:?}");
    assert!(shares.iter().all(|share| !share.is_empty()), "{shares:?}");
    let writes = scenario.two_minutes().await;
    assert!(!writes.iter().any(|write| write.path.contains("/pods/")), "it is written once: {writes:?}");

    // What a pod leaves behind goes to the other.
    fake.edit(|store| store.delete("pods", "shop", BOTH[0]));
    scenario.two_minutes().await;
    assert_eq!(assigned(fake, BOTH[1]).unwrap(), queues);
}
