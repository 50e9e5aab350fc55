use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Resource;
use serde_json::json;

use super::Compact;
use crate::status::scene;

/// As a watch reads it, and as it is read again.
fn kept<K: super::Keep>(object: &K) -> (Compact<K>, K) {
    let compact: Compact<K> = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
    let again = std::sync::Arc::into_inner(compact.read().unwrap()).unwrap();
    (compact, again)
}

#[test]
fn what_is_kept_is_read_again() {
    let deployment = scene::deployment(3);
    let (compact, again) = kept(&deployment);
    assert_eq!(again, deployment);
    assert_eq!(compact.meta().name, deployment.metadata.name);
    assert_eq!(compact.meta().owner_references, deployment.metadata.owner_references);

    let pod = scene::pod("a");
    let (compact, again) = kept(&pod);
    assert_eq!((&again.metadata, &again.status), (&pod.metadata, &pod.status));
    assert_eq!(compact.meta().labels, pod.metadata.labels);
}

#[test]
fn bookkeeping_is_kept_nowhere() {
    let bookkeeping = json!({
        "name": "a", "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "other": "kept"},
    });
    let template = json!({"spec": {"containers": [{"name": "app", "env": [{"name": "A", "value": "b"}]}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let set: ReplicaSet = serde_json::from_value(json!({"metadata": bookkeeping, "spec": spec})).unwrap();
    let (compact, again) = kept(&set);
    assert_eq!(compact.meta().managed_fields, None);
    assert_eq!(again.metadata.managed_fields, None);
    assert_eq!(again.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["other"]);
    let containers = again.spec.template.unwrap().spec.unwrap().containers;
    assert_eq!((containers[0].name.as_str(), &containers[0].env), ("app", &None));
}
