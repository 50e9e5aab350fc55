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
    let mut operator = site.alone("killed");
    let mut kills = 0;
    site.fakes.hold(&killed);
    for namespace in [&killed, &calm] {
        site.api.create(&paths::groups(namespace), &crowd::group(NAME, "killed-group", site.fakes.port()));
    }
    let changes = [
        None,
        Some(json!({"template": {"spec": {"containers": [{"name": "app", "image": "localhost/app:2"}]}}})),
        Some(json!({"replicas": 3})),
        // Another subscription stops all pods before new ones start.
        Some(
            json!({"source": {"rocketmq": {"subscriptions": [{"topic": "orders"}, {"topic": "payments"}]}}}),
        ),
        Some(json!({"delivery": {"maxInFlight": 7}, "drain": {"timeoutSeconds": 45}})),
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
        site.fakes.hold(&killed);
        operator = site.alone("killed");
        kills += 1;
        for step in Step::ALL {
            let deployment = carried_out(site, &killed);
            operator.process.kill();
            site.fakes.play(&site.api, &deployment, step);
            operator = site.alone("killed");
            kills += 1;
        }
        // Where a strategy was for this rollout only, it changes now.
        site.fakes.release(&killed);
        let (ended, wanted) = (end_state(site, &killed), end_state(site, &calm));
        let differs = ended.iter().find(|told| !wanted.contains(*told));
        assert!(differs.is_none(), "after {change:?}, no calm group has {}", differs.unwrap());
        assert_eq!(ended.len(), wanted.len(), "after {change:?}: {ended:#?}");
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

/// The children and conditions of a group that is ready, without what tells of its UID and namespace.
fn end_state(site: &LoneSite, namespace: &str) -> Vec<String> {
    let path = format!("{}/{NAME}", paths::groups(namespace));
    let group = site.api.await_object(&path, "the group is ready", SEEN_WITHIN, |group| {
        holds(group, "Ready", "True")
            && holds(group, "Reconciling", "False")
            && group["status"]["observedGeneration"] == group["metadata"]["generation"]
            && group["status"]["readyReplicas"] == group["spec"]["replicas"]
    });
    let deployments = site.api.list(&paths::deployments(namespace));
    let maps = site.api.list(&paths::core(namespace, "configmaps"));
    let budgets = site.api.list(&format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut own = vec![
        text(&group["metadata"]["uid"]),
        text(&group["metadata"]["creationTimestamp"]),
        format!("namespace: {namespace}"),
        format!("namesrv.{namespace}"),
    ];
    // A hash of a text with the UID in it.
    own.extend(maps.iter().map(|map| text(&map["metadata"]["annotations"]["lockstep.dev/cold-hash"])));
    let mut told: Vec<Value> = deployments.iter().chain(&maps).chain(&budgets).map(essence).collect();
    told.extend(group["status"]["conditions"].as_array().unwrap().iter().map(judgement));
    let mut state = Vec::new();
    for value in &mut told {
        if let Some(annotations) = value["annotations"].as_object_mut() {
            annotations.remove("lockstep.dev/applied-hash");
        }
        let without = |text: String, own: &String| match own.as_str() {
            "" => text,
            own => text.replace(own, "OWN"),
        };
        state.push(own.iter().fold(format!("{value:#}"), without));
    }
    state.sort();
    state
}

fn judgement(condition: &Value) -> Value {
    json!({"type": condition["type"], "status": condition["status"], "reason": condition["reason"]})
}
