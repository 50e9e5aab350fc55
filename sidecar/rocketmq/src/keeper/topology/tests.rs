use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lockstep_model::Moment;

use super::{Looked, Route, Topology, VANISHED_GRACE};
use crate::protocol::MessageQueue;

fn key(broker: &str, id: i32) -> MessageQueue {
    MessageQueue { topic: Arc::from("t"), broker_name: Arc::from(broker), queue_id: id }
}

fn route(brokers: &[(&str, i32)]) -> Looked {
    let mut route = Route::default();
    for (broker, count) in brokers {
        route.queues.extend((0..*count).map(|id| key(broker, id)));
        route.brokers.insert(Arc::from(*broker), [(0, format!("{broker}:1"))].into());
    }
    Looked::Found(route)
}

fn topology() -> Topology {
    Topology::new([Arc::from("t")])
}

const NOW: Moment = Moment::from_millis(1_000);

#[test]
fn queues_of_the_first_route_start_by_the_setting_and_later_ones_at_their_beginning() {
    let mut topology = topology();
    assert!(topology.take(NOW, "t", Looked::Missing).is_empty());
    assert_eq!(topology.missing().count(), 1);
    topology.take(NOW, "t", route(&[("b", 2)]));
    assert_eq!(topology.missing().count(), 0);
    assert!(!topology.is_new(&key("b", 1)));
    topology.take(NOW, "t", route(&[("b", 4)]));
    assert!(topology.is_new(&key("b", 3)));
    assert_eq!(topology.total(""), 4);
}

#[test]
fn a_queue_taken_away_from_a_broker_that_still_serves_the_topic_is_gone() {
    let mut topology = topology();
    topology.take(NOW, "t", route(&[("b", 3)]));
    assert_eq!(topology.take(NOW, "t", route(&[("b", 2)])), BTreeSet::from([key("b", 2)]));
}

#[test]
fn queues_that_vanish_with_their_broker_are_gone_only_after_a_while() {
    let mut topology = topology();
    topology.take(NOW, "t", route(&[("a", 1), ("b", 1)]));
    assert!(topology.take(NOW, "t", route(&[("a", 1)])).is_empty());
    assert_eq!(topology.vanished().collect::<Vec<_>>(), [&key("b", 0)]);
    assert!(topology.take(NOW + VANISHED_GRACE / 2, "t", route(&[("a", 1)])).is_empty());
    assert_eq!(topology.take(NOW + VANISHED_GRACE, "t", route(&[("a", 1)])), BTreeSet::from([key("b", 0)]));
    assert_eq!(topology.vanished().count(), 0);
}

#[test]
fn a_broker_that_comes_back_brings_its_queues_back_and_they_are_not_new() {
    let mut topology = topology();
    topology.take(NOW, "t", route(&[("a", 1), ("b", 1)]));
    topology.take(NOW, "t", Looked::Missing);
    assert_eq!(topology.vanished().count(), 2);
    topology.take(NOW + Duration::from_secs(5), "t", route(&[("a", 1), ("b", 1)]));
    assert_eq!(topology.vanished().count(), 0);
    assert!(!topology.is_new(&key("b", 0)));
}

#[test]
fn a_topic_that_became_unsupported_is_given_up_at_once() {
    let mut topology = topology();
    topology.take(NOW, "t", route(&[("a", 1)]));
    let gone = topology.take(NOW, "t", Looked::Unsupported("a static topic".to_owned()));
    assert_eq!(gone, BTreeSet::from([key("a", 0)]));
    assert_eq!(topology.unsupported().count(), 1);
}

#[test]
fn a_broker_without_an_address_keeps_its_queues_known() {
    let mut topology = topology();
    let mut half = Route::default();
    half.queues.insert(key("b", 0));
    half.brokers.insert(Arc::from("c"), [(1, "c:1".to_owned())].into());
    half.queues.insert(key("c", 0));
    topology.take(NOW, "t", Looked::Found(half));
    assert_eq!(topology.queues("t").len(), 2);
    assert_eq!(topology.without_master().into_iter().collect::<Vec<_>>(), [Arc::from("b"), Arc::from("c")]);
}
