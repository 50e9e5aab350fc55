use serde_json::json;

use super::*;

#[track_caller]
fn holds(wanted: Value, live: Value) {
    assert!(is_subset(&wanted, &live), "{wanted} is in {live}");
}

#[track_caller]
fn lacks(wanted: Value, live: Value) {
    assert!(!is_subset(&wanted, &live), "{wanted} is not in {live}");
}

#[test]
fn defaults_and_other_writers_may_add() {
    holds(json!({"a": 1}), json!({"a": 1, "b": 2}));
    lacks(json!({"a": 1, "b": 2}), json!({"a": 1}));
    lacks(json!({"a": 1}), json!({"a": 2}));
    lacks(json!({"a": {"b": 1}}), json!({"a": 1}));
}

#[test]
fn empty_equals_absent() {
    for empty in [json!(null), json!(false), json!(0), json!(""), json!([]), json!({}), json!({"b": []})] {
        holds(json!({"a": empty}), json!({}));
    }
    lacks(json!({"a": {"b": 1}}), json!({}));
    // An empty wish against something that is there is drift, except for no wish at all.
    lacks(json!({"a": false}), json!({"a": true}));
    lacks(json!({"a": 0}), json!({"a": 3}));
    lacks(json!({"a": []}), json!({"a": [1]}));
    holds(json!({"a": null}), json!({"a": 3}));
}

#[test]
fn lists_of_objects_go_by_key() {
    let wanted = json!({"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]});
    holds(
        wanted.clone(),
        json!({"env": [{"name": "A", "value": "1"}, {"name": "X"}, {"name": "B", "value": "2"}]}),
    );
    lacks(wanted.clone(), json!({"env": [{"name": "A", "value": "1"}]}));
    lacks(wanted, json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]}));
    holds(
        json!({"ports": [{"containerPort": 53, "protocol": "UDP"}]}),
        json!({"ports": [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]}),
    );
}

#[test]
fn other_lists_go_by_place() {
    holds(json!({"args": ["a", "b"]}), json!({"args": ["a", "b"]}));
    lacks(json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]}));
    lacks(json!({"args": ["a"]}), json!({"args": ["a", "b"]}));
    holds(
        json!({"items": [{"path": "a", "fieldRef": {}}]}),
        json!({"items": [{"path": "a", "fieldRef": {"x": 1}}]}),
    );
}

#[test]
fn quantities_go_by_value() {
    let resources = |cpu: Value, memory: Value| json!({"requests": {"cpu": cpu, "memory": memory}});
    holds(resources(json!("1000m"), json!("1Gi")), resources(json!("1"), json!("1024Mi")));
    holds(resources(json!(0.5), json!("1e3")), resources(json!("500m"), json!("1k")));
    holds(json!({"emptyDir": {"sizeLimit": "1024Ki"}}), json!({"emptyDir": {"sizeLimit": "1Mi"}}));
    holds(json!({"divisor": "0"}), json!({"divisor": "0"}));
    lacks(resources(json!("500m"), json!("1Gi")), resources(json!("501m"), json!("1Gi")));
    lacks(resources(json!("1"), json!("x")), resources(json!("1"), json!("y")));
    // Elsewhere a text is a text.
    lacks(json!({"env": [{"name": "A", "value": "1000m"}]}), json!({"env": [{"name": "A", "value": "1"}]}));
}

#[test]
fn every_suffix_is_known() {
    for (text, amount) in [
        ("1n", 1e-9),
        ("1u", 1e-6),
        ("1m", 1e-3),
        ("1", 1.0),
        ("1k", 1e3),
        ("2Ki", 2048.0),
        ("1M", 1e6),
        ("1E", 1e18),
        ("1e2", 100.0),
        ("-1.5", -1.5),
    ] {
        assert_eq!(quantity(text), Some(amount), "{text}");
    }
    for text in ["", "m", "one", "inf", "1Zi"] {
        assert_eq!(quantity(text), None, "{text}");
    }
}
