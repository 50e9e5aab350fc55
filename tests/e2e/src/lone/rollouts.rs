//! The operator dies while pods are replaced.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LoneSite, crowd, drift::essence, fakes::Step};
use crate::{
    api::{holds, paths},
    plan::Plan,
};

/// Within what time the operator must have seen a change.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
const NAME: &str = "orders";

/// Killed before each step of each rollout, and started again, the operator ends where one does that nothing happened to.
pub(super) fn killed_at_each_step(site: &LoneSite, _: &Plan) -> String {
    let (killed, calm) = (site.namespace("killed"), site.namespace("calm"));
    site.fakes.hold(&killed);
    let mut operator = site.alone("killed");
    let mut kills = 0;
    for namespace in [&killed, &calm] {
        site.api.create(&paths::groups(namespace), &crowd::group(NAME, "killed-group", site.fakes.port()));
    }
    let changes = [
        None,
        Some(json!({"template": {"spec": {"containers": [{"name": "app", "image": "localhost/app:2"}]}}})),
        Some(json!({"replicas": 3})),
        // Another subscription stops all pods before new ones start.
        Some(json!({"source": {"rocketmq": {"subscriptions": [{"topic": "orders"}, {"topic": "payments"}]}}})),
        Some(json!({"delivery": {"maxInFlight": 7}, "sidecar": {"drain": {"timeout": "45s"}}})),
    ];
    for change in &changes {
        // The change itself comes while nobody is there.
        operator.process.kill();
        if let Some(change) = change {
            for namespace in [&killed, &calm] {
                let path = format!("{}/{NAME}", paths::groups(namespace));
                site.api.merge(&path, &json!({"spec": change}));
            }
        }
        operator = site.alone("killed");
        kills += 1;
        for step in Step::ALL {
            let deployment = carried_out(site, &killed);
            operator.process.kill();
            site.fakes.play(&site.api, &deployment, step);
            operator = site.alone("killed");
            kills += 1;
        }
        assert_eq!(end_state(site, &killed), end_state(site, &calm), "after {change:?}");
    }
    format!("{kills} kills in {} rollouts", changes.len())
}

/// Waits until the Deployment is what the group wants.
fn carried_out(site: &LoneSite, namespace: &str) -> Value {
    let group = site.api.get(&format!("{}/{NAME}", paths::groups(namespace))).unwrap();
    let path = format!("{}/{NAME}", paths::groups(namespace));
    site.api.await_object(&path, "the group is seen", SEEN_WITHIN, |seen| {
        seen["status"]["observedGeneration"] == group["metadata"]["generation"]
    });
    let path = format!("{}/{NAME}", paths::deployments(namespace));
    site.api.await_object(&path, "the Deployment is there", SEEN_WITHIN, |deployment| {
        deployment["spec"]["replicas"] == group["spec"]["replicas"]
    })
}

/// The children and conditions of a group that is ready.
fn end_state(site: &LoneSite, namespace: &str) -> Value {
    let path = format!("{}/{NAME}", paths::groups(namespace));
    let group = site.api.await_object(&path, "the group is ready", SEEN_WITHIN, |group| {
        holds(group, "Ready", "True")
            && holds(group, "Reconciling", "False")
            && group["status"]["observedGeneration"] == group["metadata"]["generation"]
            && group["status"]["readyReplicas"] == group["spec"]["replicas"]
    });
    let conditions: Vec<Value> = group["status"]["conditions"].as_array().unwrap().iter().map(judgement).collect();
    let mut children = Vec::new();
    for collection in [
        paths::deployments(namespace),
        paths::core(namespace, "configmaps"),
        format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"),
    ] {
        children.extend(site.api.list(&collection).iter().map(child));
    }
    json!({"conditions": conditions, "children": children})
}

fn judgement(condition: &Value) -> Value {
    json!([condition["type"], condition["status"], condition["reason"]])
}

/// A child without what tells of its owner's UID.
fn child(object: &Value) -> Value {
    let mut child = essence(object);
    if let Some(annotations) = child["annotations"].as_object_mut() {
        annotations.remove("lockstep.dev/applied-hash");
    }
    let text = child.to_string();
    let uid = object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or("none");
    serde_json::from_str(&text.replace(uid, "UID")).unwrap()
}
