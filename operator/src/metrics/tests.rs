use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use lockstep_crds::{Backlog, Queues};

use super::*;

/// The tables of the page's section on the operator name each metric in backticks in their first column.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../docs/metrics.md");
    let (_, section) = page.split_once("\n# The operator's metrics\n").unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn status(ready: &str, blocked: &str) -> ConsumerGroupStatus {
    let now = Time(Timestamp::UNIX_EPOCH);
    let condition = |type_: &str, status: &str| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: now.clone(),
        message: String::new(),
        observed_generation: None,
        reason: "Delivering".to_owned(),
    };
    ConsumerGroupStatus {
        ready_replicas: 2,
        queues: Some(Queues { total: 8, owned: 7, blocked: 1 }),
        backlog: Some(Backlog { messages: 120, oldest_age_seconds: Some(33), observed_time: now.clone() }),
        conditions: vec![condition("Ready", ready), condition("Blocked", blocked)],
        ..ConsumerGroupStatus::default()
    }
}

fn registered() -> BTreeSet<String> {
    let metrics = Metrics::new("test");
    // A family without a value is not encoded.
    metrics.reconciled(ReconcileResult::Ok, Duration::from_millis(3));
    metrics.failed(Step::Apply);
    metrics.wrote(ChildKind::Deployment, Verb::Apply);
    metrics.watch_restarted(WatchKind::Pod);
    metrics.show_group("shop", "orders", 3, &status("True", "False"));
    let text = metrics.encode();
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

#[test]
fn the_page_lists_exactly_the_metrics_that_exist() {
    let (documented, registered) = (documented(), registered());
    let missing: Vec<_> = registered.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&registered).collect();
    assert!(missing.is_empty() && gone.is_empty(), "not on the page: {missing:?}; no longer there: {gone:?}");
    assert!(registered.len() > 15);
}

#[test]
fn a_group_is_shown_as_its_status_says_and_leaves_nothing_behind() {
    let metrics = Metrics::new("test");
    metrics.show_group("shop", "orders", 3, &status("True", "False"));
    metrics.show_group("shop", "bills", 3, &status("False", "False"));
    metrics.show_group("shop", "orders", 3, &status("True", "True"));
    let text = metrics.encode();
    let has = |line: &str| assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
    let labels = r#"namespace="shop",name="orders""#;
    has(&format!(r#"lockstep_consumergroup_condition{{{labels},condition="Blocked",status="True"}} 1"#));
    assert!(!text.contains(&format!(r#"{{{labels},condition="Blocked",status="False"}}"#)), "{text}");
    for (metric, value) in [
        ("replicas_wanted", 3),
        ("replicas_ready", 2),
        ("queues", 8),
        ("queues_owned", 7),
        ("queues_blocked", 1),
        ("backlog_messages", 120),
        ("oldest_age_seconds", 33),
    ] {
        has(&format!("lockstep_consumergroup_{metric}{{{labels}}} {value}"));
    }
    has(r#"lockstep_operator_groups{condition="Ready",status="True"} 1"#);
    has(r#"lockstep_operator_groups{condition="Ready",status="False"} 1"#);
    metrics.forget_group("shop", "orders");
    assert!(!metrics.encode().contains(r#"name="orders""#));
    assert!(metrics.encode().contains(r#"name="bills""#));
    metrics.forget_groups();
    assert!(!metrics.encode().contains("shop"));
}

#[test]
fn what_is_not_known_is_not_shown() {
    let metrics = Metrics::new("test");
    metrics.show_group("shop", "orders", 0, &ConsumerGroupStatus::default());
    let text = metrics.encode();
    assert!(text.contains(r#"lockstep_consumergroup_replicas_wanted{namespace="shop",name="orders"} 0"#));
    for absent in ["queues", "backlog_messages", "oldest_age_seconds"] {
        assert!(!text.contains(&format!("lockstep_consumergroup_{absent}{{")), "{text}");
    }
}
