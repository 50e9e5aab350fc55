use serde_json::json;

use super::*;

fn pod(status: serde_json::Value, spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap()
}

#[test]
fn only_a_running_pod_with_an_address_is_asked() {
    let spec = json!({"containers": []});
    let at = |status| address(&pod(status, spec.clone()), 15464).map(|at| at.to_string());
    assert_eq!(at(json!({"phase": "Running", "podIP": "10.1.2.3"})).unwrap(), "10.1.2.3:15464");
    assert_eq!(at(json!({"phase": "Running", "podIP": "fd00::1"})).unwrap(), "[fd00::1]:15464");
    for status in [
        json!({"phase": "Pending", "podIP": "10.1.2.3"}),
        json!({"phase": "Running"}),
        json!({"phase": "Running", "podIP": ""}),
        json!({"phase": "Running", "podIP": "evil.example/x"}),
        json!({}),
    ] {
        assert_eq!(at(status.clone()), None, "{status}");
    }
}

#[test]
fn the_pods_own_port_counts() {
    let status = json!({"phase": "Running", "podIP": "10.1.2.3"});
    let spec = json!({
        "initContainers": [{"name": SIDECAR_CONTAINER, "ports": [{"containerPort": 15999}]}],
        "containers": [{"name": "app", "ports": [{"containerPort": 8080}]}],
    });
    assert_eq!(address(&pod(status, spec), 15464).unwrap().port(), 15999);
}
