//! What a plan decides, from what the cluster holds alone.

mod former;
mod wave;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStrategy};
use lockstep_contract::{Status, names::annotations};
use serde_json::{from_value, json};

use super::{
    Candidate, Hashes, Plan, Strategy, TemplateSource, Wave, WaveView, built_by, is_complete, is_rolled_out,
    plan, untouched,
};
use crate::{
    Observed, PodReport, Settings,
    status::scene::{self, deployment, pod},
    test_support::{group, observed, settings},
};

/// A subscription as another, in YAML.
const OTHER_TOPIC: &str = "spec: {source: {rocketmq: {subscriptions: [{topic: other}]}}}";

fn planned(observed: &Observed, settings: &Settings, max: usize, wave: &Wave) -> Plan {
    let settings = Settings { upgrade_groups_max: max, ..settings.clone() };
    let live = observed.deployment.as_deref().map(Candidate::from);
    let candidates: Vec<_> = live.iter().collect();
    plan(observed, &settings, &WaveView { wave, candidates: &candidates }, &Hashes::of(&observed.group))
}

/// The plan of an operator that has just started.
fn fresh(observed: &Observed) -> Plan {
    planned(observed, &settings(), 5, &Wave::default())
}

/// What a plan makes of the Deployment: Kubernetes has done all of it.
fn carried_out(plan: &Plan) -> Deployment {
    let mut live = deployment(3);
    let marks = plan.marks.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    live.metadata.annotations = Some(marks.collect());
    let kind = if plan.strategy == Strategy::Recreate { "Recreate" } else { "RollingUpdate" };
    live.spec.strategy =
        Some(DeploymentStrategy { type_: Some(kind.to_owned()), ..DeploymentStrategy::default() });
    live
}

fn begun(plan: &Plan) -> Deployment {
    let mut live = carried_out(plan);
    live.metadata.generation = Some(3);
    live
}

/// The group with that snippet over it, and a Deployment that was made of the one with `before`.
fn after(before: &str, snippet: &str) -> Observed {
    let made = fresh(&observed(before));
    Observed { deployment: Some(Arc::new(carried_out(&made))), pods: three(), ..observed(snippet) }
}

fn three() -> Vec<Arc<k8s_openapi::api::core::v1::Pod>> {
    ["a", "b", "c"].map(|name| Arc::new(pod(name))).into()
}

fn newer() -> Settings {
    Settings { version: "next".to_owned(), sidecar_image: "sidecar:next".to_owned(), upgrade_groups_max: 1 }
}

#[test]
fn a_new_group_is_built_at_once_whatever_the_wave() {
    let plan = planned(&observed(""), &settings(), 0, &Wave::default());
    assert_eq!(
        (plan.template, plan.strategy, plan.waits_for_upgrade),
        (TemplateSource::Build, Strategy::Rolling, false)
    );
    assert_eq!(plan.sidecar_image, "sidecar:test");
    assert_eq!(plan.marks[annotations::BUILT_BY], built_by(&settings()));
    assert!(!plan.marks.contains_key(annotations::UPGRADED_TO));
    let own = fresh(&observed("spec: {sidecar: {image: \"own:1\"}}"));
    assert_eq!(own.sidecar_image, "own:1");
}

#[test]
fn an_upgrade_waits_and_all_else_passes() {
    for (what, snippet, waits) in [
        ("nothing", "", true),
        ("a scale", "spec: {replicas: 7}", true),
        ("a pause", "spec: {state: Paused}", true),
        ("a limit", "spec: {delivery: {maxInFlight: 2}}", true),
        ("another image", "spec: {template: {spec: {containers: [{name: app, image: \"app:2\"}]}}}", false),
        ("another subscription", OTHER_TOPIC, false),
    ] {
        let observed = after("", snippet);
        let plan = planned(&observed, &newer(), 0, &Wave::default());
        assert_eq!(plan.waits_for_upgrade, waits, "{what}");
        assert_eq!(plan.template == TemplateSource::KeepLive, waits, "{what}");
        let live = observed.deployment.as_ref().unwrap().metadata.annotations.as_ref().unwrap();
        let kept = plan.marks.iter().all(|(name, value)| live.get(*name) == Some(value));
        assert_eq!(kept, waits, "{what}");
        assert!(!plan.marks.contains_key(annotations::UPGRADED_TO), "{what}");
        // The same operator never lets anything wait.
        assert!(!planned(&observed, &settings(), 0, &Wave::default()).waits_for_upgrade, "{what}");
    }
}

#[test]
fn an_upgrade_is_marked_until_its_user_changes_the_group() {
    let upgraded = planned(&after("", ""), &newer(), 1, &Wave::default());
    assert_eq!(upgraded.template, TemplateSource::Build);
    assert_eq!(upgraded.marks[annotations::UPGRADED_TO], built_by(&newer()));
    let live = Arc::new(begun(&upgraded));
    let same = Observed { deployment: Some(Arc::clone(&live)), ..observed("") };
    assert_eq!(planned(&same, &newer(), 1, &Wave::default()).marks, upgraded.marks);
    let changed = Observed { deployment: Some(live), ..observed("spec: {delivery: {path: /other}}") };
    assert!(!planned(&changed, &newer(), 1, &Wave::default()).marks.contains_key(annotations::UPGRADED_TO));
}

#[test]
fn a_changed_subscription_replaces_all_until_the_last_new_pod_is_there() {
    // Each plan is one of an operator that was started a moment ago.
    let mut observed = after("", OTHER_TOPIC);
    let first = fresh(&observed);
    assert_eq!((first.strategy, first.template), (Strategy::Recreate, TemplateSource::Build));
    observed.deployment = Some(Arc::new(begun(&first)));
    assert_eq!(fresh(&observed).strategy, Strategy::Recreate, "not taken up yet");
    let mut halfway = carried_out(&first);
    halfway.status.as_mut().unwrap().available_replicas = Some(2);
    observed.deployment = Some(Arc::new(halfway));
    assert_eq!(fresh(&observed).strategy, Strategy::Recreate, "a pod is missing");
    observed.deployment = Some(Arc::new(carried_out(&first)));
    observed.pods.pop();
    assert_eq!(fresh(&observed).strategy, Strategy::Recreate, "a pod has just gone");
    observed.pods = three();
    let last = fresh(&observed);
    assert_eq!(last.strategy, Strategy::Rolling);
    observed.deployment = Some(Arc::new(carried_out(&last)));
    assert_eq!(fresh(&observed).strategy, Strategy::Rolling, "it stays so");
    // A change of the application alone never stops all.
    assert_eq!(fresh(&after("", "spec: {delivery: {path: /other}}")).strategy, Strategy::Rolling);
}

#[test]
fn a_subscription_changed_back_meanwhile_replaces_all_again() {
    let first = fresh(&after("", OTHER_TOPIC));
    let back = Observed { deployment: Some(Arc::new(begun(&first))), pods: three(), ..observed("") };
    let second = fresh(&back);
    assert_eq!((second.strategy, second.template), (Strategy::Recreate, TemplateSource::Build));
}

#[test]
fn complete_means_that_only_new_pods_are_there_and_all_are_available() {
    type Case = (&'static str, fn(&mut Deployment), bool);
    let cases: [Case; 8] = [
        ("all is there", |_| {}, true),
        ("not taken up", |live| live.metadata.generation = Some(3), false),
        ("an old pod", |live| live.status.as_mut().unwrap().replicas = Some(4), false),
        ("not all are new", |live| live.status.as_mut().unwrap().updated_replicas = Some(2), false),
        ("not all are available", |live| live.status.as_mut().unwrap().available_replicas = None, false),
        ("no status", |live| live.status = None, false),
        ("never observed", |live| live.status.as_mut().unwrap().observed_generation = None, false),
        ("other replicas", |live| live.spec.replicas = Some(2), false),
    ];
    for (what, change, expected) in cases {
        let mut live = deployment(3);
        change(&mut live);
        assert_eq!(is_rolled_out(&live), expected, "{what}");
        assert_eq!(is_complete(&live, &three()), expected, "{what}");
    }
    let live = deployment(3);
    let mut pods = three();
    let mut evicted = pod("d");
    evicted.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    pods.push(Arc::new(evicted));
    assert!(is_complete(&live, &pods), "an evicted pod stays listed");
    pods.push(Arc::new(pod("e")));
    assert!(!is_complete(&live, &pods));
    assert!(is_complete(&deployment(0), &[]));
}

#[test]
fn pods_that_say_another_hash_are_touched_unless_they_end() {
    let mut seen = observed("");
    let hot = Hashes::of(&seen.group).hot;
    assert_eq!(hot, scene::hot_hash(&group("")));
    let says = |hash: &str| {
        let mut status = Status::default();
        status.config.hot_hash = hash.to_owned();
        PodReport::Answered(Arc::new(status))
    };
    let mut ending = pod("c");
    ending.metadata.deletion_timestamp = Some(from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    seen.pods = vec![pod("a"), pod("b"), ending, pod("d"), pod("e")].into_iter().map(Arc::new).collect();
    let reports = [
        ("a", says("old")),
        ("b", says(&hot)),
        ("c", says("old")),
        ("d", PodReport::Unreachable(String::new())),
    ];
    seen.reports = reports.into_iter().map(|(name, report)| (format!("orders-{name}"), report)).collect();
    assert_eq!(untouched(&seen.pods, &seen.reports, &Hashes::of(&seen.group).hot), ["orders-a"]);
}
