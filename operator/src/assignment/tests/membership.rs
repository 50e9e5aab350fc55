use std::{collections::BTreeSet, sync::Arc};

use lockstep_contract::{ApplicationStatus, Health, Phase, SourceStatus, Status};
use serde_json::{Value, json};

use super::*;
use crate::{Observed, PodReport};

fn group(source: Value) -> ConsumerGroup {
    serde_json::from_value(json!({
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": "orders"},
        "spec": {"source": source, "template": {"spec": {"containers": [{"name": "app"}]}}},
    }))
    .unwrap()
}

fn pod(name: &str, extra: Value) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": name}, "status": {"phase": "Running"}});
    for (key, value) in extra.as_object().unwrap() {
        pod[key] = value.clone();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn report(phase: Phase, health: Health, connected: bool) -> PodReport {
    PodReport::Answered(Arc::new(Status {
        phase,
        application: ApplicationStatus { health, ..ApplicationStatus::default() },
        source: SourceStatus { connected, ..SourceStatus::default() },
        ..Status::default()
    }))
}

fn observed(pods: Vec<Arc<Pod>>, reports: Vec<(&str, PodReport)>) -> Observed {
    Observed {
        group: Arc::new(group(json!({"rabbitmq": {"urls": ["amqp://r:5672"], "queues": ["a", "b"]}}))),
        deployment: None,
        replica_sets: Vec::new(),
        pods,
        config_maps: Vec::new(),
        disruption_budgets: Vec::new(),
        siblings: Vec::new(),
        running: BTreeSet::new(),
        strangers: Vec::new(),
        reports: reports.into_iter().map(|(pod, report)| (pod.to_owned(), report)).collect(),
    }
}

#[test]
fn which_sources_need_it() {
    let queues = |source| needs_assignment(&group(source));
    let several = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(queues(json!({"rabbitmq": {"urls": ["amqp://r:5672"], "queues": ["a", "b"]}})), several);
    let with_selector = json!({"urls": ["tcp://a:61616"], "queues": ["a?consumer.selector=x = 1", "b"]});
    assert_eq!(queues(json!({ "activemq": with_selector })), several);
    assert_eq!(queues(json!({"activemq": {"urls": ["tcp://a:61616"], "queues": ["a"]}})), None);
    let rocketmq =
        json!({"nameServers": ["n:9876"], "consumerGroup": "g", "subscriptions": [{"topic": "t"}]});
    assert_eq!(queues(json!({"rocketmq": rocketmq})), None);
}

#[test]
fn who_is_a_member_and_fit() {
    use Health::{Healthy, Unhealthy};
    let table = [
        ("well", Some(report(Phase::Running, Healthy, true)), Some(true)),
        ("beginning", Some(report(Phase::Starting, Healthy, true)), Some(true)),
        ("ill", Some(report(Phase::Running, Unhealthy, true)), Some(false)),
        ("unasked", Some(report(Phase::Starting, Health::Unknown, true)), Some(false)),
        ("cut-off", Some(report(Phase::Running, Healthy, false)), Some(false)),
        ("paused", Some(report(Phase::Paused, Healthy, false)), Some(false)),
        ("held", Some(report(Phase::Held, Healthy, true)), Some(false)),
        ("silent", Some(PodReport::Unreachable("timeout".to_owned())), Some(false)),
        ("not-polled", None, Some(false)),
        ("draining", Some(report(Phase::Draining, Healthy, true)), None),
        ("handed-over", Some(report(Phase::HandedOver, Unhealthy, false)), None),
    ];
    let pods = table.iter().map(|(name, _, _)| pod(name, json!({}))).collect();
    let reports = table.iter().filter_map(|(name, report, _)| Some((*name, report.clone()?))).collect();
    let members = Memory::default().members(&observed(pods, reports), Instant::now());
    for (name, _, wanted) in table {
        let fit = members.iter().find(|member| member.pod == name).map(|member| member.fit);
        assert_eq!(fit, wanted, "{name}");
    }
}

#[test]
fn ending_and_finished_pods_are_no_members_and_readiness_does_not_count() {
    let ending = json!({"metadata": {"name": "ending", "deletionTimestamp": "2026-11-30T08:00:00Z"}});
    let unready =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}});
    let pods = vec![
        pod("ending", ending),
        pod("failed", json!({"status": {"phase": "Failed"}})),
        pod("unready", unready),
    ];
    let well = || report(Phase::Running, Health::Healthy, true);
    let observed = observed(pods, vec![("ending", well()), ("failed", well()), ("unready", well())]);
    let members = Memory::default().members(&observed, Instant::now());
    let names: Vec<_> = members.iter().map(|member| (member.pod.as_str(), member.fit)).collect();
    assert_eq!(names, [("unready", true)]);
}

#[test]
fn the_memory_keeps_the_moment_of_the_change() {
    let mut memory = Memory::default();
    let start = Instant::now();
    let mut look = |after: u64, healthy: bool| {
        let health = if healthy { Health::Healthy } else { Health::Unhealthy };
        let observed = observed(vec![pod("p", json!({}))], vec![("p", report(Phase::Running, health, true))]);
        let members = memory.members(&observed, start + Duration::from_secs(after));
        (members[0].since - start).as_secs()
    };
    assert_eq!(look(0, true), 0);
    assert_eq!(look(5, true), 0);
    assert_eq!(look(10, false), 10);
    assert_eq!(look(15, false), 10);
    assert_eq!(look(20, true), 20);
}

#[test]
fn annotations_of_pods_are_read_and_garbage_counts_as_absent() {
    let with = |name: &str, text: &str| {
        pod(name, json!({"metadata": {"name": name, "annotations": {"lockstep.dev/assignment": text}}}))
    };
    let pods =
        [with("a", r#"["q"]"#), with("b", "[]"), with("c", "q"), with("d", "[1]"), pod("e", json!({}))];
    let wanted = Assignment::from([("a".to_owned(), vec!["q".to_owned()]), ("b".to_owned(), Vec::new())]);
    assert_eq!(assigned(pods.iter().map(Arc::as_ref)), wanted);
}
