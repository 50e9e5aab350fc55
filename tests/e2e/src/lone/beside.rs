//! Objects beside a group that it can't live with, and that go.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LoneSite, crowd};
use crate::{
    api::{condition, holds, paths},
    plan::Plan,
};

/// Within what time a group must have seen that what stood in its way is gone. Somebody else's Deployment is not
/// watched, but looked at every half a minute.
const SEEN_WITHIN: Duration = Duration::from_secs(90);

/// The younger of two groups with one broker group waits, and goes on when the older is deleted; so does a group whose
/// name somebody else's Deployment has.
pub(super) fn go_on(site: &LoneSite, _: &Plan) -> String {
    let _operator = site.alone("beside");
    let namespace = site.namespace("beside");
    let groups = paths::groups(&namespace);
    let of = |name: &str| format!("{groups}/{name}");
    let deployments = paths::deployments(&namespace);
    let foreign = site.api.create(&deployments, &foreign_deployment("taken"));
    let new = |name: &str, broker_group: &str| {
        site.api.create(&groups, &crowd::group(name, broker_group, site.fakes.port()));
    };
    new("taken", "beside-3");
    new("elder", "beside-1");
    new("younger", "beside-1");
    new("other", "beside-2");
    let ready = |name: &str| {
        site.api
            .await_object(&of(name), "the group is ready", SEEN_WITHIN, |group| holds(group, "Ready", "True"))
    };
    let stalled = |name: &str, reason: &str| {
        let group = site.api.await_object(&of(name), "the group is stalled", SEEN_WITHIN, |group| {
            holds(group, "Stalled", "True")
        });
        let (_, found, message) = condition(&group, "Stalled").unwrap();
        assert_eq!(found, reason, "{message}");
        message.to_owned()
    };
    ready("elder");
    ready("other");
    let message = stalled("younger", "DuplicateConsumerGroup");
    assert!(message.contains("elder"), "{message}");
    let message = stalled("taken", "ChildNotOwned");
    assert!(message.contains("Deployment taken"), "{message}");
    assert!(site.api.get(&format!("{deployments}/younger")).is_none(), "the younger has pods");
    let untouched = site.api.get(&format!("{deployments}/taken")).unwrap();
    assert_eq!(untouched["metadata"]["generation"], foreign["metadata"]["generation"], "{untouched:#}");
    assert_eq!(untouched["metadata"]["labels"], foreign["metadata"]["labels"], "{untouched:#}");

    site.api.delete(&format!("{deployments}/taken"), &json!({"propagationPolicy": "Background"}));
    site.api.delete(&of("elder"), &json!({"propagationPolicy": "Background"}));
    let waits = |group: &Value| {
        condition(group, "Reconciling").is_some_and(|(_, _, message)| message.contains("is waited for"))
    };
    site.api.await_object(&of("younger"), "the elder's pods are waited for", SEEN_WITHIN, waits);
    collect(site, &namespace, "elder");
    ready("younger");
    ready("taken");
    let waited = site.api.get(&of("younger")).unwrap();
    assert!(holds(&waited, "Stalled", "False"), "{waited:#}");
    message
}

/// What a cluster's garbage collector does when a group is gone.
fn collect(site: &LoneSite, namespace: &str, name: &str) {
    site.api.delete(&format!("{}/{name}", paths::deployments(namespace)), &json!({}));
    site.api.delete(&paths::pods_of(namespace, name), &json!({"gracePeriodSeconds": 0}));
}

fn foreign_deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "localhost/other:1"}]},
            },
        },
    })
}
