//! What goes wrong costs its own group, and no longer than it lasts.

use http::Method;
use lockstep_operator::leader::Leadership;
use serde_json::json;

use crate::{
    fake::Fault,
    scenario::{Scenario, condition, group, until_made, with_groups},
};

#[tokio::test(start_paused = true)]
async fn a_lost_status_is_written_again() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    scenario.two_minutes().await;
    fake.edit(|store| {
        let mut group = store.get("consumergroups", "shop", "orders").unwrap().clone();
        group.as_object_mut().unwrap().remove("status");
        store.put("consumergroups", "shop", "orders", group)
    });
    fake.until(|fake| condition(&fake.get("consumergroups", "orders")?, "Ready")).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_could_not_be_written_is_written_later() {
    let fake = with_groups(&["orders"]);
    fake.fail(Fault::new(Method::PATCH, "/consumergroups/orders/status", 3, 500));
    let scenario = Scenario::start(fake);
    until_made(&scenario.fake, "orders").await;
}

#[tokio::test(start_paused = true)]
async fn one_child_that_fails_is_tried_again_and_the_others_are_made() {
    for code in [409, 500, 429, 503] {
        let fake = with_groups(&["orders", "bills"]);
        fake.fail(Fault::new(Method::PATCH, "/poddisruptionbudgets/orders", 4, code));
        let scenario = Scenario::start(fake);
        let fake = &scenario.fake;
        fake.until(|fake| fake.get("deployments", "orders")).await;
        assert!(fake.get("poddisruptionbudgets", "orders").is_none());
        until_made(fake, "bills").await;
        until_made(fake, "orders").await;
        let tries = fake.take_writes().into_iter().filter(|write| write.path.ends_with("budgets/orders"));
        let codes: Vec<u16> = tries.map(|write| write.code).collect();
        assert_eq!(codes, [code, code, code, code, 200]);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_their_configuration() {
    let fake = with_groups(&["orders"]);
    fake.fail(Fault::new(Method::PATCH, "/configmaps/orders-hot", 3, 500));
    let scenario = Scenario::start(fake);
    until_made(&scenario.fake, "orders").await;
    let writes = scenario.fake.take_writes();
    let place =
        |end: &str, code| writes.iter().position(|write| write.path.ends_with(end) && write.code == code);
    assert!(place("/configmaps/orders-hot", 200) < place("/deployments/orders", 200), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_decoded_says_so_and_holds_up_nobody() {
    let fake = with_groups(&["orders"]);
    let mut bad = group("bad");
    bad["spec"]["replicas"] = json!("three");
    fake.edit(|store| store.put("consumergroups", "shop", "bad", bad));
    let scenario = Scenario::start(fake);
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    let stalled = scenario.until_condition("bad", "Stalled", "True").await;
    assert_eq!(stalled["reason"], "InvalidSpec");
    assert!(fake.get("deployments", "bad").is_none());
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, []);
    // And is served once it is mended.
    fake.edit(|store| {
        store.apply("consumergroups", "shop", "bad", &json!({"metadata": {}, "spec": {"replicas": 1}}))
    });
    until_made(fake, "bad").await;
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_others_is_left_alone() {
    for (plural, name) in
        [("configmaps", "orders-hot"), ("deployments", "orders"), ("poddisruptionbudgets", "orders")]
    {
        let fake = with_groups(&["orders"]);
        let theirs = json!({"metadata": {}, "spec": {"template": {}, "selector": {"matchLabels": {"app": "theirs"}}}, "data": {"theirs": "1"}});
        fake.edit(|store| store.put(plural, "shop", name, theirs));
        let before = fake.get(plural, name);
        let scenario = Scenario::start(fake);
        let fake = &scenario.fake;
        let stalled = scenario.until_condition("orders", "Stalled", "True").await;
        assert_eq!(stalled["reason"], "ChildNotOwned", "{plural}");
        scenario.two_minutes().await;
        assert_eq!(scenario.two_minutes().await, [], "{plural}");
        assert_eq!(fake.get(plural, name), before);
        fake.edit(|store| store.delete(plural, "shop", name));
        until_made(fake, "orders").await;
        scenario.until_condition("orders", "Stalled", "False").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_ends_is_left_in_peace() {
    let fake = with_groups(&["orders"]);
    for path in ["/configmaps/", "/deployments/", "/poddisruptionbudgets/"] {
        let fault = Fault::new(Method::PATCH, path, usize::MAX, 403);
        fake.fail(Fault { reason: "Forbidden", cause: "NamespaceTerminating", ..fault });
    }
    let scenario = Scenario::start(fake);
    scenario.fake.until(|fake| (!fake.take_writes().is_empty()).then_some(())).await;
    let writes = scenario.two_minutes().await;
    assert!(writes.len() <= 20, "a write in half a minute for each child: {writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_goes_gets_nothing_more() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    scenario.two_minutes().await;
    fake.edit(|store| {
        store.delete("consumergroups", "shop", "orders");
        store.delete("deployments", "shop", "orders");
        store.delete("configmaps", "shop", "orders-hot");
    });
    assert_eq!(scenario.two_minutes().await, []);
    assert!(fake.get("deployments", "orders").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_group_left_is_waited_for() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    // Its garbage is still there when a new group of the name comes.
    fake.edit(|store| {
        store.delete("consumergroups", "shop", "orders");
        store.put("consumergroups", "shop", "orders", group("orders"))
    });
    scenario.until_condition("orders", "Reconciling", "True").await;
    let stalled = condition(&fake.get("consumergroups", "orders").unwrap(), "Stalled").unwrap();
    assert_eq!(stalled["status"], "False", "{stalled}");
    fake.edit(|store| {
        let places: Vec<_> =
            store.objects.keys().filter(|place| place.0 != "consumergroups").cloned().collect();
        for (plural, namespace, name) in places {
            store.delete(&plural, &namespace, &name);
        }
    });
    until_made(fake, "orders").await;
    let uid = fake.get("consumergroups", "orders").unwrap()["metadata"]["uid"].clone();
    assert_eq!(fake.get("deployments", "orders").unwrap()["metadata"]["ownerReferences"][0]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_group_that_would_meet_the_new_ones_are_waited_for() {
    for label in ["orders", "another"] {
        let fake = with_groups(&["orders"]);
        let set = format!("{label}-abc");
        let pod = json!({
            "metadata": {
                "labels": {
                    "lockstep.dev/consumergroup": label,
                    "app.kubernetes.io/managed-by": "lockstep-operator",
                    "pod-template-hash": "abc",
                },
                "annotations": {
                    "lockstep.dev/group-uid": "of-a-deleted-group",
                    "lockstep.dev/member-of": "shop-orders at namesrv.mq:9876",
                },
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": "gone", "controller": true},
                ],
            },
        });
        fake.edit(|store| store.put("pods", "shop", "former", pod));
        let scenario = Scenario::start(fake);
        let fake = &scenario.fake;
        let told = scenario.until_condition("orders", "Reconciling", "True").await;
        assert!(told["message"].as_str().unwrap().contains("Pod former is left"), "{told}");
        scenario.two_minutes().await;
        assert!(fake.get("deployments", "orders").is_none(), "{label}");
        fake.edit(|store| store.delete("pods", "shop", "former"));
        until_made(fake, "orders").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_is_begun_again() {
    let fake = with_groups(&["orders"]);
    for path in ["/consumergroups", "/deployments", "/pods", "/configmaps"] {
        fake.fail(Fault::new(Method::GET, path, 3, 500));
    }
    let scenario = Scenario::start(fake);
    until_made(&scenario.fake, "orders").await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_writes_nothing() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    scenario.leadership.send_replace(Leadership::Lost);
    fake.edit(|store| {
        store.apply("consumergroups", "shop", "orders", &json!({"metadata": {}, "spec": {"replicas": 7}}))
    });
    assert_eq!(scenario.two_minutes().await, []);
}
