use std::{collections::BTreeMap, sync::Arc};

use super::understood;
use crate::{
    keeper::topology::Looked,
    protocol::{BrokerAddresses, TopicQueues, TopicRoute},
};

fn queues(broker: &str, read_queues: i32) -> TopicQueues {
    TopicQueues { broker: broker.to_owned(), read_queues, write_queues: 1, permission: 6 }
}

fn look(queues: Vec<TopicQueues>, addresses: i64) -> Looked {
    let addresses: BTreeMap<i64, String> = (0..addresses).map(|id| (id, format!("h{id}:1"))).collect();
    let brokers = vec![BrokerAddresses { cluster: "c".to_owned(), broker: "b".to_owned(), addresses }];
    understood(&Arc::from("t"), TopicRoute { queues, brokers, logical: false })
}

#[test]
fn a_route_of_absurd_size_is_not_served_and_costs_nothing() {
    let many = |count| (0..count).map(|broker| queues(&format!("b{broker}"), i32::MAX)).collect();
    assert!(matches!(look(many(1), 1), Looked::Unsupported(_)));
    // More than fits into any memory.
    assert!(matches!(look(many(10_000), 1), Looked::Unsupported(_)));
    assert!(matches!(look(vec![queues("b", 8)], 10_000), Looked::Unsupported(_)));
}

#[test]
fn an_ordinary_route_is_served_and_negative_counts_are_none() {
    let Looked::Found(route) = look(vec![queues("b", 8), queues("c", -1)], 2) else { panic!() };
    assert_eq!((route.queues.len(), route.brokers.len()), (8, 1));
}
