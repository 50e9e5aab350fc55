//! A group that only a change can help: it says so, and what does not rest on the mistake still applies.

use http::Method;
use serde_json::{Value, json};

use crate::{
    fake::{Fake, Fault},
    scenario::{Scenario, condition, until_made, with_groups},
};

fn change(fake: &Fake, spec: &Value) {
    fake.edit(|store| {
        store.apply("consumergroups", "shop", "orders", &json!({"metadata": {}, "spec": spec}))
    });
}

fn hot(fake: &Fake) -> String {
    fake.get("configmaps", "orders-hot").unwrap()["data"].to_string()
}

#[tokio::test(start_paused = true)]
async fn what_the_api_never_takes_stalls_and_what_it_may_take_later_does_not() {
    let typed = "failed to create typed patch object (shop/orders; apps/v1, Kind=Deployment): \
                 .spec.template.spec.containers[0].env: duplicate entries for key [name=\"A\"]";
    for (code, message, stalls) in [
        (500, typed, true),
        (500, ".spec.template.spec.extra: field not declared in schema", true),
        (403, "admission webhook \"policy\" denied the request: no limits", true),
        (403, "ValidatingAdmissionPolicy 'policy' with binding 'all' denied request: no limits", true),
        (400, "spec.replicas: expected a number", true),
        (500, "failed calling webhook \"policy\": timed out", false),
        (403, "deployments.apps \"orders\" is forbidden: User cannot patch", false),
    ] {
        let fake = with_groups(&["orders"]);
        fake.fail(Fault { message, ..Fault::new(Method::PATCH, "/deployments/orders", usize::MAX, code) });
        let scenario = Scenario::start(fake);
        let failed = scenario
            .fake
            .until(|fake| {
                let group = fake.get("consumergroups", "orders")?;
                condition(&group, "Ready").zip(condition(&group, "Stalled"))
            })
            .await;
        let words = (&failed.0["reason"], &failed.1["status"]);
        match stalls {
            true => assert_eq!(words, (&json!("ChildRefused"), &json!("True")), "{message}"),
            false => assert_eq!(words, (&json!("ApplyFailed"), &json!("False")), "{message}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_group_can_be_paused_and_scaled_and_keeps_its_template() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    let before = fake.get("deployments", "orders").unwrap();
    let template = json!({"spec": {"containers": [{"name": "lockstep", "image": "app:2"}]}});
    change(fake, &json!({"template": template, "state": "Paused", "replicas": 0}));
    let stalled = scenario.until_condition("orders", "Stalled", "True").await;
    assert_eq!(stalled["reason"], "InvalidTemplate");
    let after = fake.get("deployments", "orders").unwrap();
    assert_eq!(after["spec"]["replicas"], 0);
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    assert!(hot(fake).contains("state: Paused"), "{}", hot(fake));
    scenario.two_minutes().await;
    assert_eq!(scenario.two_minutes().await, []);

    // What another writer makes of them is corrected too.
    fake.edit(|store| {
        store.apply("deployments", "shop", "orders", &json!({"metadata": {}, "spec": {"replicas": 9}}));
        store.delete("configmaps", "shop", "orders-hot");
    });
    fake.until(|fake| (fake.get("deployments", "orders")?["spec"]["replicas"] == 0).then_some(())).await;
    fake.until(|fake| fake.get("configmaps", "orders-hot")).await;

    let template = json!({"spec": {"containers": [{"name": "app", "image": "app:3"}]}});
    change(fake, &json!({"template": template}));
    scenario.until_condition("orders", "Stalled", "False").await;
    let containers = &fake.get("deployments", "orders").unwrap()["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "app:3");
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_breaks_a_rule_reaches_no_pod_and_the_group_scales() {
    let scenario = Scenario::start(with_groups(&["orders"]));
    let fake = &scenario.fake;
    until_made(fake, "orders").await;
    let before = hot(fake);
    change(fake, &json!({"delivery": {"path": "no-slash"}, "state": "Paused", "replicas": 5}));
    let stalled = scenario.until_condition("orders", "Stalled", "True").await;
    assert_eq!(stalled["reason"], "InvalidSpec");
    assert_eq!(hot(fake), before);
    assert_eq!(fake.get("deployments", "orders").unwrap()["spec"]["replicas"], 5);
    // No number of pods at all is not written either.
    change(fake, &json!({"replicas": -1}));
    scenario.two_minutes().await;
    assert_eq!(fake.get("deployments", "orders").unwrap()["spec"]["replicas"], 5);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_group_without_a_deployment_gets_no_children() {
    let fake = with_groups(&["orders"]);
    change(&fake, &json!({"delivery": {"containerName": "none"}}));
    let scenario = Scenario::start(fake);
    scenario.until_condition("orders", "Stalled", "True").await;
    scenario.two_minutes().await;
    assert!(scenario.fake.get("deployments", "orders").is_none());
    assert!(scenario.fake.get("configmaps", "orders-hot").is_none());
}
