//! Plays what makes pods of a Deployment, up to a step that the scenario names.

use http::Method;
use lockstep_contract::{config_hash, names::annotations};
use serde_json::{Value, json};

use super::fakes::{Pod, Shared};
use crate::api::{Api, Refusal, paths};

/// A moment that stands for all: nobody judges by it.
const SOME_TIME: &str = "2026-01-01T00:00:00Z";

/// How far a rollout has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The template has its ReplicaSet.
    ReplicaSet,
    /// Pods that are not wanted any more are gone.
    OldPodsGone,
    /// The wanted pods are there and do not run.
    NewPods,
    /// They run, and are ready.
    PodsReady,
    /// The Deployment says so.
    Complete,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Self; 5] =
        [Self::ReplicaSet, Self::OldPodsGone, Self::NewPods, Self::PodsReady, Self::Complete];
    /// The end of a rollout.
    pub const LAST: Self = Self::Complete;
}

/// Brings what belongs to a Deployment to what it wants, up to a step; what is there already stays.
pub(super) fn follow(api: &Api, shared: &Shared, deployment: &Value, until: Step) -> Result<(), Refusal> {
    let (namespace, name) = place(deployment);
    let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    let pods = paths::core(&namespace, "pods");
    let set = replica_set(deployment);
    let (_, set_name) = place(&set);
    match api.request(Method::POST, &sets, Some(&set)) {
        Err(refusal) if refusal.code != 409 => return Err(refusal),
        _ => {}
    }
    if until == Step::ReplicaSet {
        return Ok(());
    }
    let set = api.request(Method::GET, &format!("{sets}/{set_name}"), None)?;
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let names: Vec<String> = (0..wanted).map(|number| format!("{set_name}-{number}")).collect();
    let there = || -> Result<Vec<Value>, Refusal> {
        let list = api.request(Method::GET, &paths::pods_of(&namespace, &name), None)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    };
    let at_once = json!({"gracePeriodSeconds": 0});
    let mut kept = Vec::new();
    for (_, pod) in there()?.iter().map(place) {
        if names.contains(&pod) {
            kept.push(pod);
            continue;
        }
        match api.request(Method::DELETE, &format!("{pods}/{pod}"), Some(&at_once)) {
            Err(refusal) if refusal.code != 404 => return Err(refusal),
            _ => {}
        }
    }
    if until == Step::OldPodsGone {
        return Ok(());
    }
    for pod in names.iter().filter(|pod| !kept.contains(pod)) {
        api.request(Method::POST, &pods, Some(&new_pod(pod, &set)))?;
    }
    if until == Step::NewPods {
        return Ok(());
    }
    for pod in there()?.iter().filter(|pod| pod["status"]["podIP"].is_null()) {
        let status = json!({"status": running(shared, pod, &name)});
        api.request(Method::PATCH, &format!("{pods}/{}/status", place(pod).1), Some(&status))?;
    }
    if until == Step::PodsReady {
        return Ok(());
    }
    let counts = json!({"status": {
        "observedGeneration": set["metadata"]["generation"], "replicas": wanted, "readyReplicas": wanted,
        "availableReplicas": wanted, "fullyLabeledReplicas": wanted,
    }});
    api.request(Method::PATCH, &format!("{sets}/{set_name}/status"), Some(&counts))?;
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
    let ready = if containers.into_iter().flatten().all(has_image) { wanted } else { 0 };
    let status = json!({"status": complete(deployment, wanted, ready)});
    api.request(Method::PATCH, &format!("{}/{name}/status", paths::deployments(&namespace)), Some(&status))?;
    Ok(())
}

fn replica_set(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    let hash = config_hash(&template.to_string()).split_at(10).0.to_owned();
    let mut labels = template["metadata"]["labels"].clone();
    labels["pod-template-hash"] = json!(hash);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", place(deployment).1), "labels": labels,
            "ownerReferences": owner("Deployment", deployment),
        },
        "spec": {
            "replicas": deployment["spec"]["replicas"], "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": template["metadata"]["annotations"]},
                "spec": template["spec"],
            },
        },
    })
}

fn new_pod(name: &str, set: &Value) -> Value {
    let template = &set["spec"]["template"];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"], "ownerReferences": owner("ReplicaSet", set),
        },
        "spec": template["spec"],
    })
}

/// The status of a pod that runs from now on, at an address where its sidecar is played.
fn running(shared: &Shared, pod: &Value, group: &str) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let address = shared.start(Pod {
        group: (place(pod).0, group.to_owned()),
        uid: text(&pod["metadata"]["uid"]),
        cold_hash: text(&pod["metadata"]["annotations"][annotations::COLD_HASH]),
    });
    let runs = pod["spec"]["containers"].as_array().into_iter().flatten().all(has_image);
    let holds = |kind: &str| runs || !matches!(kind, "ContainersReady" | "Ready");
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(|kind| {
        let status = if holds(kind) { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": SOME_TIME})
    });
    let running = |list: &Value| -> Vec<Value> {
        let containers = list.as_array().cloned().unwrap_or_default();
        let status = |container: Value| {
            if !has_image(&container) {
                return json!({
                    "name": container["name"], "ready": false, "started": false, "restartCount": 0,
                    "image": container["image"], "imageID": "", "state": {"waiting": {
                        "reason": "InvalidImageName", "message": "failed to parse the image's name",
                    }},
                });
            }
            json!({
                "name": container["name"], "ready": true, "started": true, "restartCount": 0,
                "image": container["image"], "imageID": "fake", "state": {"running": {"startedAt": SOME_TIME}},
            })
        };
        containers.into_iter().map(status).collect()
    };
    json!({
        "phase": if runs { "Running" } else { "Pending" }, "podIP": address, "podIPs": [{"ip": address}], "startTime": SOME_TIME,
        "conditions": conditions, "containerStatuses": running(&pod["spec"]["containers"]),
        "initContainerStatuses": running(&pod["spec"]["initContainers"]),
    })
}

/// Whether a kubelet could read the name of a container's image: a repository has no capitals.
fn has_image(container: &Value) -> bool {
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit_once(':').map_or(image, |(name, _)| name);
    !name.contains(char::is_uppercase)
}

/// The status of a Deployment whose pods are all as it wants, and of which so many are ready.
fn complete(deployment: &Value, pods: u64, ready: u64) -> Value {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": SOME_TIME,
            "lastUpdateTime": SOME_TIME,
        })
    };
    json!({
        "observedGeneration": deployment["metadata"]["generation"], "replicas": pods, "readyReplicas": ready,
        "updatedReplicas": pods, "availableReplicas": ready,
        "conditions": [
            condition("Available", "MinimumReplicasAvailable"), condition("Progressing", if ready == pods { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" }),
        ],
    })
}

/// An object's namespace and name.
pub(super) fn place(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true,
        "blockOwnerDeletion": true,
    }])
}
