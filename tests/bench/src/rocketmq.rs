//! A real RocketMQ with one filled queue.

use lockstep_tests_support::{
    brokers::{RocketMqOptions, RocketMqServers},
    rocketmq::{Cluster, Outgoing},
};

use crate::peers::Group;

/// Messages in the queue: more than any one measurement takes.
const MESSAGES: usize = 120_000;
const BROKER: &str = "broker-a";
const TOPIC: &str = "bench";

/// A running name server and broker; ended on drop.
#[derive(Debug)]
pub(crate) struct Filled {
    servers: RocketMqServers,
    cluster: Cluster,
}

impl Filled {
    /// Starts them, makes a topic of one queue and fills it with messages of 1 KiB.
    pub(crate) fn start() -> Self {
        let options = RocketMqOptions { nodes: &["namesrv", BROKER], ..RocketMqOptions::default() };
        let servers = RocketMqServers::start(options);
        let cluster = Cluster::new([(BROKER.to_owned(), servers.broker(BROKER))]);
        cluster.create_topic(TOPIC, 1);
        let message =
            Outgoing { body: vec![b'x'; 1024], tag: Some("TagA".to_owned()), ..Outgoing::default() };
        cluster.publish(TOPIC, BROKER, 0, &vec![message; MESSAGES]);
        Self { servers, cluster }
    }

    /// Makes a consumer group, which starts at the queue's beginning.
    pub(crate) fn group(&self, name: String) -> Group<'static> {
        self.cluster.create_group(&name);
        Group {
            name_server: self.servers.namesrv(),
            topic: TOPIC,
            group: name,
            mode: "PerQueue",
            max_in_flight: 32,
        }
    }
}
