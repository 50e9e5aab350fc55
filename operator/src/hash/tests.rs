//! What moves a hash and what does not.

use lockstep_contract::FIELDS;
use serde_json::json;

use super::{applied_hash, input_hash, subscription_hash, without_defaults};
use crate::test_support::group;

/// A changed hash would roll every group when the operator is upgraded.
#[test]
fn hashes_stay_over_versions() {
    assert_eq!(input_hash(&group("")), "17ea45302e4b5d64");
    assert_eq!(subscription_hash(&group("")), "b88d98da2d8bda84");
}

#[test]
fn only_what_needs_new_pods_moves_the_input() {
    let before = input_hash(&group(""));
    let same = [
        "spec: {replicas: 5}",
        "spec: {state: Paused}",
        "spec: {podDisruptionBudget: None}",
        "spec: {retry: {maxAttempts: 3, backoff: {maxSeconds: 5}}}",
        "spec: {delivery: {timeoutSeconds: 60, maxInFlight: 3, statusCodes: {done: [409]}, healthCheck: {path: /up}}}",
        "spec: {sidecar: {logLevel: debug}}",
        "metadata: {labels: {a: b}, generation: 7}",
        // Defaults written out.
        "spec: {delivery: {port: 8080, path: /messages}, ordering: {mode: PerQueue}, sidecar: {adminPort: 15464}}",
        "spec: {source: {rocketmq: {startPosition: {type: Latest}, lockLifetimeSeconds: 60}}}",
    ];
    for snippet in same {
        assert_eq!(input_hash(&group(snippet)), before, "{snippet}");
    }
    let other = [
        "spec: {delivery: {path: /other}}",
        "spec: {delivery: {containerName: app}}",
        "spec: {ordering: {mode: Unordered}}",
        "spec: {source: {rocketmq: {lockLifetimeSeconds: 30}}}",
        "spec: {source: {credentialsSecretRef: {name: a}}}",
        "spec: {drain: {timeoutSeconds: 99}}",
        "spec: {sidecar: {image: mine}}",
        "spec: {sidecar: {resources: {limits: {cpu: 1}}}}",
        "spec: {template: {spec: {containers: [{name: app, image: app:2}]}}}",
        "spec: {template: {metadata: {labels: {a: b}}}}",
    ];
    for snippet in other {
        assert_ne!(input_hash(&group(snippet)), before, "{snippet}");
    }
}

/// Each hot field is known to the hash by its path: a renamed one would be found here.
#[test]
fn hot_fields_lie_below_the_spec() {
    assert!(
        FIELDS
            .iter()
            .all(|field| field.path.starts_with("spec.") || field.heat == lockstep_contract::Heat::Cold)
    );
}

#[test]
fn a_field_that_a_newer_version_adds_moves_nothing_while_it_has_its_default() {
    let defaults = json!({ "a": { "old": 1, "new": { "x": "y" } }, "b": 2 });
    let older = json!({ "a": { "old": 1 }, "c": 3 });
    let newer = json!({ "a": { "old": 1, "new": { "x": "y" } }, "b": 2, "c": 3 });
    assert_eq!(without_defaults(older, Some(&defaults)), Some(json!({ "c": 3 })));
    assert_eq!(without_defaults(newer, Some(&defaults)), Some(json!({ "c": 3 })));
    let set = json!({ "a": { "new": { "x": "z" } } });
    assert_eq!(without_defaults(set.clone(), Some(&defaults)), Some(set));
}

#[test]
fn members_must_agree_on_group_and_topics() {
    let source =
        |fields: &str| subscription_hash(&group(&format!("spec: {{source: {{rocketmq: {{{fields}}}}}}}")));
    let before = subscription_hash(&group(""));
    assert_eq!(source("nameServers: ['other:9876'], lockLifetimeSeconds: 30"), before);
    assert_ne!(source("consumerGroup: other"), before);
    assert_ne!(source("subscriptions: [{topic: orders, tags: a}]"), before);
    assert_ne!(
        source("subscriptions: [{topic: orders, sql: a}]"),
        source("subscriptions: [{topic: orders, tags: a}]")
    );
    assert_eq!(
        source("subscriptions: [{topic: a}, {topic: b}]"),
        source("subscriptions: [{topic: b}, {topic: a}]")
    );
}

#[test]
fn the_order_of_fields_moves_nothing() {
    assert_eq!(applied_hash(&json!({ "a": 1, "b": [1, 2] })), applied_hash(&json!({ "b": [1, 2], "a": 1 })));
    assert_ne!(applied_hash(&json!({ "a": [1, 2] })), applied_hash(&json!({ "a": [2, 1] })));
}
