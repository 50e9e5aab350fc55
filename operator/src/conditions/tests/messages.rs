//! What conditions tell the person who is called at night.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::PodSpec;
use lockstep_contract::{ConditionType, Health, Reason};

use crate::{
    Fault, Notice,
    conditions::{MESSAGE_MAX, bounded, source::is_reason},
    rollout::Strategy,
    status::{
        scene::{NOW, Scene, block, cut, ill},
        unreadable,
    },
    validate::Rule,
};

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn they_name_the_pod_the_trouble_and_the_remedy() {
    let mut scene = Scene::new();
    scene.says("b", |status| cut(status, "BrokerUnreachable"));
    scene.says("c", |status| cut(status, "BrokerUnreachable"));
    has(&scene.message("SourceConnected"), &["2 of 3 pods", "pod orders-b", "broker-a is gone", "start it"]);
    assert_eq!(scene.message("Ready"), scene.message("SourceConnected"));

    let mut scene = Scene::new();
    scene.says("a", |status| ill(status, Health::Unhealthy, Reason::HealthCheckFailed));
    has(
        &scene.message("ApplicationHealthy"),
        &["1 of 3 pods", "orders-a", "connection refused", "delivery.healthCheck"],
    );

    let mut scene = Scene::new();
    scene.says("a", |status| block(status, Reason::AttemptsExhausted, 1234));
    let parts = [
        "1 queues",
        "id-1234",
        "orders/broker-a/0",
        "1200 s",
        "16 attempts",
        "answered 500",
        "kubectl exec -n shop orders-a -c lockstep -- /lockstep-sidecar skip --queue 'orders/broker-a/0' --message-id 'id-1234'",
    ];
    has(&scene.message("Blocked"), &parts);

    let mut scene = Scene::new();
    scene.all_unreachable();
    has(&scene.message("Ready"), &["orders-a", "timed out", "15464"]);
}

#[test]
fn they_name_pods_that_hang_in_their_end() {
    let mut scene = Scene::new();
    scene.rolls(0, 0, 0);
    scene.plan.strategy = Strategy::Recreate;
    scene.ends("a");
    scene.pods[0].spec = Some(PodSpec { node_name: Some("node-1".to_owned()), ..PodSpec::default() });
    scene.now = NOW + SignedDuration::from_secs(15);
    assert!(!scene.message("Reconciling").contains("kubectl"), "the kubelet may take a moment");
    scene.now = NOW + SignedDuration::from_secs(16);
    let wanted =
        ["pod orders-a on node node-1", "kubectl delete pod -n shop orders-a --force", "gone for good"];
    has(&scene.message("Reconciling"), &wanted);
    scene.pause();
    has(&scene.message("Paused"), &wanted);

    let mut scene = Scene::new();
    scene.scale_to_zero();
    assert_eq!(scene.message("Ready"), "replicas is 0: 3 pods still end");
    scene.now = NOW + SignedDuration::from_secs(16);
    has(&scene.message("Reconciling"), &["3 pods still end", "kubectl delete pod"]);
    scene.pods.clear();
    assert_eq!(scene.message("Ready"), "replicas is 0: nothing is consumed");
}

#[test]
fn they_name_what_kubernetes_says_of_pods() {
    let mut scene = Scene::new();
    scene.rolls(3, 1, 2);
    scene.deployment_condition("Progressing", "False", "ProgressDeadlineExceeded", "");
    scene.waits("c", "ImagePullBackOff");
    has(
        &scene.message("Ready"),
        &["2 of 3 pods", "pod orders-c", "container app waits: ImagePullBackOff", "says the kubelet"],
    );

    let mut scene = Scene::new();
    scene.rolls(3, 1, 2);
    scene.says("c", |status| {
        status.ready = false;
        ill(status, Health::Healthy, Reason::CallbackMisconfigured);
    });
    has(&scene.message("Ready"), &["pod orders-c: CallbackMisconfigured"]);
}

#[test]
fn faults_and_notices_are_all_told() {
    let mut scene = Scene::new();
    let notice = |message: &str| Notice { reason: Reason::OwnPreStopHook, message: message.to_owned() };
    scene.notices = vec![notice("container app has a hook"), notice("container b has one")];
    has(&scene.message("Ready"), &["container app has a hook; container b has one"]);
    let fault = |message: &str| Fault { rule: Rule::Contract, message: message.to_owned() };
    scene.faults = vec![fault("first mistake"), fault("second mistake")];
    has(&scene.message("Stalled"), &["first mistake; second mistake"]);
    has(&scene.message("Ready"), &["first mistake; second mistake"]);
}

#[test]
fn they_are_bounded_between_characters() {
    let mut scene = Scene::new();
    scene.faults = vec![Fault { rule: Rule::Contract, message: "ä".repeat(5000) }];
    let message = scene.message("Stalled");
    assert!(message.len() <= MESSAGE_MAX && message.len() > MESSAGE_MAX - 8 && message.ends_with("ä..."));
    assert_eq!(bounded("x".repeat(MESSAGE_MAX)).len(), MESSAGE_MAX);
}

#[test]
fn a_word_of_a_source_must_look_like_a_reason() {
    assert!(is_reason("TopicNotFound") && is_reason("Tls2Failed"));
    for word in ["", "topicNotFound", "Topic not found", "Topic_Not", "Ünbekannt", &"A".repeat(65)] {
        assert!(!is_reason(word), "{word}");
    }
}

#[test]
fn a_transition_is_dated_only_when_the_status_changes() {
    let mut scene = Scene::new();
    scene.group.status = Some(scene.status());
    scene.now = NOW + SignedDuration::from_secs(60);
    scene.says("b", |status| block(status, Reason::AttemptsExhausted, 60));
    scene.group.metadata.generation = Some(5);
    let status = scene.status();
    for condition in &status.conditions {
        let expected = if condition.type_ == "Blocked" { scene.now } else { NOW };
        assert_eq!(condition.last_transition_time.0, expected, "{}", condition.type_);
        assert_eq!(condition.observed_generation, Some(5));
    }
    // Another reason of the same status is no transition.
    scene.group.status = Some(status);
    scene.now = NOW + SignedDuration::from_secs(90);
    scene.says("b", |status| block(status, Reason::Undecodable, 90));
    let blocked = scene.status().conditions.into_iter().find(|one| one.type_ == "Blocked").unwrap();
    assert_eq!(
        (blocked.reason.as_str(), blocked.last_transition_time.0),
        ("Undecodable", NOW + SignedDuration::from_secs(60))
    );
}

#[test]
fn a_group_that_can_not_be_read_is_stalled_and_keeps_what_was_known() {
    let before = Scene::new().status();
    let status = unreadable("spec.replicas: is no number", Some(9), Some(&before), NOW);
    assert_eq!(status.observed_generation, Some(9));
    assert_eq!((status.replicas, &status.selector), (3, &before.selector));
    assert_eq!(status.conditions.len(), ConditionType::ALL.len() - 1);
    for condition in &status.conditions {
        let expected = match condition.type_.as_str() {
            "Stalled" => "True",
            "Ready" | "Reconciling" => "False",
            _ => "Unknown",
        };
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            (expected, "InvalidSpec"),
            "{}",
            condition.type_
        );
    }
}
