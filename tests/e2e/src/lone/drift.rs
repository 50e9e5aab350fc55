//! Others change or delete what belongs to a group, and its status.

use std::time::Duration;

use lockstep_contract::names::files::CONFIG_KEY;
use serde_json::{Value, json};

use super::{LoneSite, crowd};
use crate::{
    api::{condition, holds, paths},
    plan::Plan,
};

/// Within what time what somebody changed must be as it was. A busy machine may take its time.
const CORRECTED_WITHIN: Duration = Duration::from_secs(30);

/// Whatever others do to its children, a group gets them back; what it says nothing about is left alone; a status that
/// is lost is written again.
pub(super) fn corrected(site: &LoneSite, _: &Plan) -> String {
    let operator = site.alone("drift");
    let namespace = site.namespace("drift");
    let group = format!("{}/orders", paths::groups(&namespace));
    site.api.create(&paths::groups(&namespace), &crowd::group("orders", "drift-group", site.fakes.port()));
    let ready = |group: &Value| {
        holds(group, "Ready", "True")
            && holds(group, "Reconciling", "False")
            && group["status"]["observedGeneration"] == group["metadata"]["generation"]
    };
    site.api.await_object(&group, "the group is ready", CORRECTED_WITHIN, ready);

    let deployment = format!("{}/orders", paths::deployments(&namespace));
    let budget = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/orders");
    let maps = paths::core(&namespace, "configmaps");
    let cold = site.api.list(&maps).iter().find_map(|map| {
        let name = map["metadata"]["name"].as_str()?;
        name.starts_with("orders-cold-").then(|| format!("{maps}/{name}"))
    });
    let children = [deployment.clone(), budget.clone(), format!("{maps}/orders-hot"), cold.unwrap()];
    let wanted = children.clone().map(|path| essence(&site.api.get(&path).unwrap()));
    let as_it_was = |what: &str| {
        for (path, wanted) in children.iter().zip(&wanted) {
            site.api.await_object(path, &format!("{what} is undone"), CORRECTED_WITHIN, |live| {
                live["metadata"]["deletionTimestamp"].is_null() && essence(live) == *wanted
            });
        }
    };

    site.cluster.kubectl(&["--namespace", &namespace, "scale", "deployment/orders", "--replicas=7"]);
    as_it_was("a scaled Deployment");
    site.cluster.kubectl(&["--namespace", &namespace, "set", "image", "deployment/orders", "app=other:1"]);
    as_it_was("another image");
    let label = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    let hash = json!({"metadata": {"annotations": {"lockstep.dev/applied-hash": null}}});
    for path in &children {
        site.api.merge(path, &label);
        as_it_was("a removed label");
        site.api.merge(path, &hash);
        as_it_was("a removed annotation");
    }
    site.api.merge(&children[2], &json!({"data": {CONFIG_KEY: "spec: {state: Paused}"}}));
    as_it_was("another configuration");
    site.api.merge(&budget, &json!({"spec": {"maxUnavailable": 5}}));
    as_it_was("another budget");
    for path in &children {
        site.api.delete(path, &json!({"propagationPolicy": "Background"}));
        as_it_was("a deletion");
    }

    // What others add is theirs.
    let mark = json!({"metadata": {"annotations": {"example.com/mark": "1"}}});
    site.api.merge(&deployment, &mark);
    site.api.merge(&group, &json!({"spec": {"replicas": 2}}));
    let live = site.api.await_object(&deployment, "the group is scaled", CORRECTED_WITHIN, |live| {
        live["spec"]["replicas"] == 2
    });
    assert_eq!(live["metadata"]["annotations"]["example.com/mark"], "1", "{live:#}");

    site.api.await_object(&group, "the group is ready again", CORRECTED_WITHIN, ready);
    for lost in [json!({"status": null}), json!({"status": {"observedGeneration": 1, "conditions": []}})] {
        site.api.merge(&format!("{group}/status"), &lost);
        let told = site.api.await_object(&group, "a lost status is written again", CORRECTED_WITHIN, ready);
        assert_eq!(condition(&told, "Stalled").unwrap().0, "False", "{told:#}");
    }
    assert_eq!(operator.get("/live").0, 200);
    format!("{} children, all brought back", children.len())
}

/// What a child is about, without what the API server and controllers add by themselves.
pub(super) fn essence(object: &Value) -> Value {
    let ours = |members: &Value| -> Value {
        let members = members.as_object().cloned().unwrap_or_default();
        members.into_iter().filter(|(name, _)| name.starts_with("lockstep.dev/")).collect()
    };
    json!({
        "name": object["metadata"]["name"], "labels": object["metadata"]["labels"],
        "annotations": ours(&object["metadata"]["annotations"]), "spec": object["spec"], "data": object["data"],
        "immutable": object["immutable"],
    })
}
