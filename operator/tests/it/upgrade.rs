//! An operator of a new version meets groups of the former one.

use std::time::Duration;

use http::Method;
use lockstep_operator::{Settings, poll::Poller};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    fake::{Fake, Fault},
    scenario::{Scenario, group, settings, until_made, with_groups},
};

fn built_by(fake: &Fake, namespace: &str) -> Option<String> {
    let deployment = fake.get_in("deployments", namespace, "orders")?;
    deployment["metadata"]["annotations"]["lockstep.dev/built-by"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_lets_nobody_through_before_it_has_seen_all_who_are_rolled() {
    let fake = with_groups(&["orders"]);
    fake.edit(|store| store.put("consumergroups", "mill", "orders", group("orders")));
    let former = Scenario::watching(fake, &["shop", "mill"]);
    until_made(&former.fake, "orders").await;
    former.fake.until(|fake| built_by(fake, "mill")).await;
    let fake = former.fake.clone();
    drop(former);
    // The one before it was let through by a leader that is gone, and its pods are not there yet.
    let marks = json!({"metadata": {"annotations": {
        "lockstep.dev/built-by": "2.0.0 sidecar:1", "lockstep.dev/upgraded-to": "2.0.0 sidecar:1",
    }}});
    fake.edit(|store| store.apply("deployments", "mill", "orders", &marks));
    fake.fail(Fault::new(Method::GET, "/namespaces/mill/deployments", 4, 500));
    let newer = Settings { version: "2.0.0".to_owned(), upgrade_groups_max: 1, ..settings() };
    let scenario = Scenario::with(fake, &["shop", "mill"], newer, Poller::new().unwrap());
    let fake = &scenario.fake;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(built_by(fake, "shop").unwrap(), "1.0.0 sidecar:1");
    // Its pods are there: the next one's turn.
    fake.edit(|store| {
        let mut deployment = store.get("deployments", "mill", "orders").unwrap().clone();
        let generation = deployment["metadata"]["generation"].clone();
        deployment["status"] = json!({
            "observedGeneration": generation,
            "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        });
        store.put("deployments", "mill", "orders", deployment)
    });
    fake.until(|fake| (built_by(fake, "shop")? == "2.0.0 sidecar:1").then_some(())).await;
}
