//! Figures, and when they are written.

use std::time::Duration;

use jiff::SignedDuration;
use lockstep_crds::ConsumerGroupStatus;

use super::{
    needs_write, rounded,
    scene::{NOW, Scene, hot_hash},
    source,
};

#[test]
fn figures_are_summed_over_the_pods() {
    let mut scene = Scene::new();
    scene.says("b", |status| {
        status.totals.blocked = 2;
        status.totals.backlog = Some(12_345);
        status.totals.oldest_age_seconds = Some(987);
    });
    let status = scene.status();
    let queues = status.queues.unwrap();
    assert_eq!((queues.total, queues.owned, queues.blocked), (8, 8, 2));
    let backlog = status.backlog.unwrap();
    assert_eq!(
        (backlog.messages, backlog.oldest_age_seconds, backlog.observed_time.0),
        (13_000, Some(990), NOW)
    );
    assert_eq!((status.replicas, status.ready_replicas, status.updated_replicas), (3, 3, 3));
    assert_eq!(status.selector.as_deref(), Some("lockstep.dev/consumergroup=orders"));
    assert_eq!(status.sidecar_image.as_deref(), Some("lockstep-sidecar:1"));
    assert_eq!(status.source.as_deref(), Some("rocketmq/shop-orders"));
    assert_eq!(status.observed_generation, Some(4));
}

#[test]
fn queues_are_shown_by_their_names_alone() {
    let shown = |queues: &str| {
        let text = format!("{{activemq: {{urls: ['tcp://a:1'], queues: {queues}}}}}");
        let read: lockstep_contract::Source = crate::test_support::object(&text);
        source(read.kind().unwrap())
    };
    assert_eq!(shown("['orders?consumer.selector=a = 1']"), "activemq/orders");
    assert_eq!(shown("['orders?consumer.selector=a = 1', b, c]"), "activemq/orders and 2 more");
}

#[test]
fn an_ending_pod_and_somebody_elses_deployment_count_for_nothing() {
    let mut scene = Scene::new();
    scene.ends("c");
    let queues = scene.status().queues.unwrap();
    assert_eq!((queues.total, queues.owned), (8, 6));
    scene.live().metadata.owner_references = None;
    let status = scene.status();
    assert_eq!((status.replicas, status.sidecar_image), (0, None));
}

#[test]
fn what_nobody_knows_is_absent() {
    let mut scene = Scene::new();
    scene.all_say(|status| {
        status.totals.known = None;
        status.totals.backlog = None;
    });
    let status = scene.status();
    assert_eq!((status.queues, status.backlog), (None, None));
}

#[test]
fn numbers_keep_two_digits() {
    let cases = [
        (0, 0),
        (7, 7),
        (99, 99),
        (100, 100),
        (104, 100),
        (105, 110),
        (994, 990),
        (995, 1000),
        (12_345, 12_000),
        (i64::MAX, 9_200_000_000_000_000_000),
    ];
    for (number, expected) in cases {
        assert_eq!(rounded(number), expected, "{number}");
    }
}

#[test]
fn the_hash_is_the_one_that_every_pod_has_applied() {
    let mut scene = Scene::new();
    let wanted = hot_hash(&scene.group);
    assert_eq!(scene.status().config_hash.as_ref(), Some(&wanted));
    // A change: the former one until the last pod has it.
    scene.group.status =
        Some(ConsumerGroupStatus { config_hash: Some("old".to_owned()), ..ConsumerGroupStatus::default() });
    scene.says("c", |status| status.config.hot_hash = "old".to_owned());
    assert_eq!(scene.status().config_hash.as_deref(), Some("old"));
    scene.says("c", |status| status.config.hot_hash = wanted.clone());
    // Who can't be asked has what it had.
    scene.unreachable("b");
    assert_eq!(scene.status().config_hash.as_deref(), Some("old"));
    assert_eq!(scene.condition("Reconciling"), "True/Configuring");
    scene.group.status =
        Some(ConsumerGroupStatus { config_hash: Some(wanted.clone()), ..ConsumerGroupStatus::default() });
    assert_eq!(scene.status().config_hash.as_ref(), Some(&wanted));
    assert_eq!(scene.condition("Reconciling"), "False/UpToDate");
    // One that fell back is behind, whatever was known.
    scene.says("c", |status| status.config.hot_hash = "old".to_owned());
    assert_eq!(scene.status().config_hash.as_deref(), Some("old"));
    assert_eq!(scene.condition("Reconciling"), "True/Configuring");
}

#[test]
fn conditions_are_written_at_once_and_figures_once_a_minute() {
    let before = Scene::new().status();
    let changed = |change: fn(&mut ConsumerGroupStatus)| {
        let mut next = before.clone();
        change(&mut next);
        next
    };
    let due = |next: &ConsumerGroupStatus, seconds| {
        needs_write(Some(&before), next, Some(Duration::from_secs(seconds)))
    };
    let same =
        changed(|next| next.backlog.as_mut().unwrap().observed_time.0 = NOW + SignedDuration::from_secs(9));
    let backlog = changed(|next| next.backlog.as_mut().unwrap().messages = 7);
    let text = changed(|next| next.conditions[6].message = "30 s".to_owned());
    let reason = changed(|next| next.conditions[6].reason = "Undecodable".to_owned());
    let count = changed(|next| next.ready_replicas = 2);
    let queues = changed(|next| next.queues.as_mut().unwrap().blocked = 1);
    for (name, next, early, late) in [
        ("nothing", &before, false, false),
        ("the moment", &same, false, false),
        ("the backlog", &backlog, false, true),
        ("a text", &text, false, true),
        ("a reason", &reason, true, true),
        ("a count", &count, true, true),
        ("queues", &queues, true, true),
    ] {
        assert_eq!((due(next, 59), due(next, 60)), (early, late), "{name}");
        assert_eq!(needs_write(Some(&before), next, None), late, "{name}: never written by this process");
    }
    assert!(needs_write(None, &before, Some(Duration::ZERO)));
}
