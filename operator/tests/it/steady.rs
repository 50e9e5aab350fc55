//! What groups cost the API server.

use std::{collections::BTreeMap, time::Duration};

use http::Method;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    fake::{Fault, Write},
    scenario::{Scenario, until_made, with_groups},
    sidecars::Sidecars,
};

fn by_path(writes: &[Write]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        *counts.entry(write.path.as_str()).or_default() += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn fifty_groups_cost_one_status_a_minute_while_their_backlogs_change_and_nothing_else() {
    let names: Vec<String> = (0..50).map(|number| format!("group-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sidecars = Sidecars::default();
    sidecars.busy(true);
    let scenario = Scenario::polling(with_groups(&names), &sidecars);
    let fake = &scenario.fake;
    for name in &names {
        until_made(fake, name).await;
        sidecars.roll_out(fake, name);
    }
    for name in &names {
        scenario.until_condition(name, "Ready", "True").await;
    }
    sleep(Duration::from_secs(61)).await;
    fake.take_writes();
    sleep(Duration::from_secs(150)).await;
    let writes = fake.take_writes();
    let counts = by_path(&writes);
    assert_eq!(counts.len(), names.len(), "{counts:?}");
    for (path, count) in counts {
        assert!(path.ends_with("/status"), "{path}");
        assert!((2..=3).contains(&count), "{path}: {count} in 150 s");
    }
    sidecars.busy(false);
    sleep(Duration::from_secs(61)).await;
    fake.take_writes();
    let asked = sidecars.asked();
    sleep(Duration::from_secs(61)).await;
    assert_eq!(fake.take_writes(), [], "nothing changes");
    assert!(sidecars.asked() > asked + 1000, "they are still asked");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_watch_does_not_show_yet_is_not_written_twice() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    scenario.two_minutes().await;
    fake.hold(Some("consumergroups"));
    fake.edit(|store| {
        let mut deployment = store.get("deployments", "shop", "orders").unwrap().clone();
        let generation = deployment["metadata"]["generation"].clone();
        deployment["status"] = json!({
            "observedGeneration": generation,
            "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        });
        store.put("deployments", "shop", "orders", deployment)
    });
    scenario.until_condition("orders", "Ready", "Unknown").await;
    for turn in 0..5 {
        sleep(Duration::from_millis(200)).await;
        let turn = json!({"metadata": {"annotations": {"turn": turn.to_string()}}});
        fake.edit(|store| store.apply("configmaps", "shop", "orders-hot", &turn));
    }
    sleep(Duration::from_millis(200)).await;
    let statuses = fake.take_writes();
    let statuses: Vec<_> = statuses.iter().filter(|write| write.path.ends_with("/status")).collect();
    assert_eq!(statuses.len(), 1, "{statuses:?}");
    fake.hold(None);
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_at_growing_pauses_whatever_else_happens() {
    let sidecars = Sidecars::default();
    let fake = with_groups(&["orders"]);
    fake.fail(Fault::new(Method::PATCH, "/poddisruptionbudgets/orders", usize::MAX, 500));
    let scenario = Scenario::polling(fake, &sidecars);
    let fake = &scenario.fake;
    fake.until(|fake| fake.get("deployments", "orders")).await;
    sidecars.roll_out(fake, "orders");
    fake.take_writes();
    // Each answer is news, and wakes the group.
    sidecars.busy(true);
    sleep(Duration::from_secs(120)).await;
    let writes = fake.take_writes();
    let tries = writes.iter().filter(|write| write.path.contains("/poddisruptionbudgets/")).count();
    assert!((3..=12).contains(&tries), "{tries} tries in two minutes");
    let told = scenario.until_condition("orders", "Reconciling", "True").await;
    assert!(told["message"].as_str().unwrap().contains("PodDisruptionBudget"), "{told}");

    // A change is applied at once, and a child that is gone is made again.
    let spec = json!({"metadata": {}, "spec": {"replicas": 3}});
    fake.edit(|store| store.apply("consumergroups", "shop", "orders", &spec));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.get("deployments", "orders").unwrap()["spec"]["replicas"], 3);
    fake.edit(|store| store.delete("configmaps", "shop", "orders-hot"));
    sleep(Duration::from_secs(1)).await;
    assert!(fake.get("configmaps", "orders-hot").is_some());
}
