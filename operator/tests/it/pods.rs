//! Pods are asked how they are, and touched when they have not applied the hot configuration.

use axum::{Json, Router, routing::get};
use serde_json::{Value, json};

use crate::scenario::{Scenario, group, until_made};

/// Serves a sidecar's status on loopback; answers its port.
async fn sidecar(hot_hash: &'static str) -> u16 {
    let status = json!({"format": 1, "phase": "Running", "ready": true, "config": {"hotHash": hot_hash}});
    let router = Router::new().route("/status", get(async move || Json(status)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    port
}

// Sockets and the paused clock do not go together.
#[tokio::test]
async fn a_pod_with_an_old_hot_configuration_is_touched() {
    let port = sidecar("old").await;
    let fake = crate::fake::Fake::new();
    let mut group = group("orders");
    group["spec"]["sidecar"] = json!({"adminPort": port});
    let pod = json!({
        "metadata": {"name": "orders-1", "labels": {"lockstep.dev/consumergroup": "orders"}},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": "127.0.0.1"},
    });
    fake.edit(|store| {
        store.put("consumergroups", "shop", "orders", group);
        store.put("pods", "shop", "orders-1", pod)
    });
    let scenario = Scenario::start(fake);
    until_made(&scenario.fake, "orders").await;
    let touched = |fake: &crate::fake::Fake| {
        let annotations = fake.get("pods", "orders-1")?["metadata"]["annotations"].clone();
        annotations.get("lockstep.dev/hot-hash").and_then(Value::as_str).map(str::to_owned)
    };
    let first = scenario.fake.until(touched).await;
    // Again until it has applied it, and each time with another value: an equal one wakes no kubelet.
    scenario.fake.until(|fake| (touched(fake)? != first).then_some(())).await;
    let pods = scenario.fake.take_writes().into_iter().filter(|write| write.path.contains("/pods/"));
    assert!(pods.into_iter().all(|write| write.path.ends_with("/pods/orders-1") && write.code == 200));
}
