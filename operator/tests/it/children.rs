//! Children appear, stay as they are wanted, and cost nothing while nothing changes.

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::scenario::{Scenario, group, until_made, with_groups};

#[tokio::test(start_paused = true)]
async fn a_group_gets_its_children_and_a_status_and_then_nothing_is_written() {
    let scenario = Scenario::start(with_groups(&["orders", "bills"]));
    until_made(&scenario.fake, "orders").await;
    until_made(&scenario.fake, "bills").await;
    let paths: Vec<String> = scenario.fake.take_writes().into_iter().map(|write| write.path).collect();
    let place = |end: &str| paths.iter().position(|path| path.ends_with(end)).unwrap();
    assert!(place("/configmaps/orders-hot") < place("/deployments/orders"), "{paths:?}");
    let deployment = scenario.fake.get("deployments", "orders").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["name"], "orders");
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, [], "a steady group costs no write");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_reaches_the_children_within_a_second() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    until_made(&scenario.fake, "orders").await;
    scenario.two_minutes().await;
    let begun = Instant::now();
    scenario.fake.edit(|store| {
        store.apply("consumergroups", "shop", "orders", &json!({"metadata": {}, "spec": {"replicas": 5}}))
    });
    scenario
        .fake
        .until(|fake| (fake.get("deployments", "orders")?["spec"]["replicas"] == 5).then_some(()))
        .await;
    assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn drift_is_corrected() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    until_made(&scenario.fake, "orders").await;
    scenario.two_minutes().await;
    let fake = &scenario.fake;
    fake.edit(|store| {
        store.apply("deployments", "shop", "orders", &json!({"metadata": {}, "spec": {"replicas": 9}}));
        store.delete("configmaps", "shop", "orders-hot");
        store.delete("poddisruptionbudgets", "shop", "orders");
    });
    fake.until(|fake| (fake.get("deployments", "orders")?["spec"]["replicas"] == 2).then_some(())).await;
    fake.until(|fake| fake.get("configmaps", "orders-hot")).await;
    fake.until(|fake| fake.get("poddisruptionbudgets", "orders")).await;
    // A child without its label is out of the watch's sight, and yet the group's own.
    fake.edit(|store| {
        let mut map = store.get("configmaps", "shop", "orders-hot").unwrap().clone();
        map["metadata"]["labels"] = json!({});
        store.put("configmaps", "shop", "orders-hot", map);
    });
    fake.until(|fake| {
        let map = fake.get("configmaps", "orders-hot")?;
        map["metadata"]["labels"].get("app.kubernetes.io/managed-by").cloned()
    })
    .await;
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, []);
}

#[tokio::test(start_paused = true)]
async fn drift_right_after_a_write_is_corrected_at_once() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    until_made(&scenario.fake, "orders").await;
    scenario.two_minutes().await;
    let fake = &scenario.fake;
    let begun = Instant::now();
    for _ in 0..3 {
        fake.edit(|store| store.delete("configmaps", "shop", "orders-hot"));
        fake.until(|fake| fake.get("configmaps", "orders-hot")).await;
        fake.edit(|store| {
            let mut map = store.get("configmaps", "shop", "orders-hot").unwrap().clone();
            map["metadata"]["annotations"] = json!({});
            store.put("configmaps", "shop", "orders-hot", map);
        });
        fake.until(|fake| {
            let map = fake.get("configmaps", "orders-hot")?;
            map["metadata"]["annotations"].get("lockstep.dev/applied-hash").cloned()
        })
        .await;
    }
    assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_the_cluster_makes_of_a_child_is_not_fought() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    until_made(&scenario.fake, "orders").await;
    let deployment = scenario.fake.get("deployments", "orders").unwrap();
    let app = deployment["spec"]["template"]["spec"]["containers"][0].clone();
    // Defaulted and rewritten by the server, and one annotation of the Deployment's controller.
    assert_eq!(
        (&app["imagePullPolicy"], &app["resources"]["requests"]["cpu"]),
        (&json!("IfNotPresent"), &json!("1"))
    );
    scenario.fake.edit(|store| {
        let revision = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}});
        store.apply("deployments", "shop", "orders", &revision)
    });
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_cold_configmap_goes_when_nothing_names_it() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    let cold = |deployment: &Value| {
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let names = volumes.iter().filter_map(|volume| volume["configMap"]["name"].as_str());
        names.map(str::to_owned).find(|name| name.starts_with("orders-cold-")).unwrap()
    };
    let old = cold(&fake.get("deployments", "orders").unwrap());
    let replica_set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "orders-1", "labels": {"lockstep.dev/consumergroup": "orders"}},
        "spec": {"selector": {}, "template": {"spec": {
            "containers": [], "volumes": [{"name": "cold", "configMap": {"name": old}}],
        }}},
    });
    fake.edit(|store| store.put("replicasets", "shop", "orders-1", replica_set));
    fake.edit(|store| {
        let path = json!({"metadata": {}, "spec": {"delivery": {"path": "/other"}}});
        store.apply("consumergroups", "shop", "orders", &path)
    });
    fake.until(|fake| (cold(&fake.get("deployments", "orders")?) != old).then_some(())).await;
    scenario.two_minutes().await;
    assert!(fake.get("configmaps", &old).is_some(), "a ReplicaSet names it, to which one can roll back");
    fake.edit(|store| store.delete("replicasets", "shop", "orders-1"));
    fake.until(|fake| fake.get("configmaps", &old).is_none().then_some(())).await;
    let new = cold(&fake.get("deployments", "orders").unwrap());
    assert!(fake.get("configmaps", &new).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_not_wanted_goes() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    fake.edit(|store| {
        let none = json!({"metadata": {}, "spec": {"podDisruptionBudget": "None"}});
        store.apply("consumergroups", "shop", "orders", &none)
    });
    fake.until(|fake| fake.get("poddisruptionbudgets", "orders").is_none().then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn two_watched_namespaces_are_both_served_and_a_third_is_not() {
    let fake = with_groups(&["orders"]);
    for namespace in ["mill", "mine"] {
        fake.edit(|store| store.put("consumergroups", namespace, "orders", group("orders")));
    }
    let scenario = Scenario::watching(fake, &["shop", "mill"]);
    until_made(&scenario.fake, "orders").await;
    let made = |namespace: &'static str| {
        move |fake: &crate::fake::Fake| fake.get_in("deployments", namespace, "orders")
    };
    scenario.fake.until(made("mill")).await;
    let writes = scenario.two_minutes().await;
    assert!(made("mine")(&scenario.fake).is_none(), "{writes:?}");
    assert!(!writes.iter().any(|write| write.method == Method::PATCH && write.path.contains("/mine/")));
}
