//! Who holds up the first pods of a group.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::{
    Observed,
    rollout::former_member,
    test_support::{children, group, object, observed},
};

/// A pod that a group with that snippet over it would get.
fn pod_of(snippet: &str) -> Arc<Pod> {
    let template = children(&observed(snippet)).deployment.spec.template;
    let mut metadata = template.metadata.unwrap();
    metadata.name = Some("the-pod".to_owned());
    Arc::new(Pod { metadata, ..Pod::default() })
}

fn holds(observed: &Observed) -> bool {
    former_member(observed).is_some()
}

#[test]
fn a_pod_of_a_deleted_group_of_the_same_name_holds_up_the_first_ones() {
    let mut observed = observed("");
    assert!(!holds(&observed));
    observed.pods = vec![pod_of("metadata: {uid: former}")];
    assert!(holds(&observed));
    // Somebody deleted the Deployment: its pods are of this very group.
    observed.pods = vec![pod_of("")];
    assert!(!holds(&observed));
    // Made by an operator that said nothing of the group.
    let mut silent = Pod::clone(&observed.pods[0]);
    silent.metadata.annotations = None;
    observed.pods = vec![Arc::new(silent.clone())];
    assert!(holds(&observed));
    observed.deployment = Some(Arc::new(children(&observed).deployment));
    assert!(!holds(&observed), "its own Deployment is there");
    observed.deployment = None;
    silent.status = Some(object("{phase: Failed}"));
    observed.pods = vec![Arc::new(silent)];
    assert!(!holds(&observed), "an evicted pod stays listed");
}

#[test]
fn a_pod_of_another_group_holds_up_those_that_would_meet_it_at_the_broker() {
    let other = "metadata: {name: other, uid: other-uid}";
    let mut observed = observed("");
    observed.strangers = vec![pod_of(other)];
    assert!(holds(&observed), "its group is gone, or can't be read");
    // Whether the two may be there together is a matter of validation.
    observed.siblings = vec![Arc::new(group(other))];
    assert!(!holds(&observed));
    observed.siblings = vec![Arc::new(group("metadata: {name: other, uid: a-new-one}"))];
    assert!(holds(&observed), "of a deleted group of that name");
    observed.siblings.clear();
    for elsewhere in [
        "spec: {source: {rocketmq: {consumerGroup: other}}}",
        "spec: {source: {rocketmq: {nameServers: ['namesrv.test:9876']}}}",
    ] {
        let snippet = format!("{{{other}, {elsewhere}}}");
        observed.strangers = vec![pod_of(&snippet)];
        assert!(!holds(&observed), "{elsewhere}");
    }
    observed.strangers = vec![pod_of(other)];
    observed.deployment = Some(Arc::new(children(&observed).deployment));
    assert!(!holds(&observed));
}
