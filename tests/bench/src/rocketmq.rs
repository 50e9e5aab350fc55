//! A real RocketMQ with one filled queue.

use lockstep_tests_support::{
    brokers::{RocketMqOptions, RocketMqServers},
    rocketmq::{Cluster, Outgoing},
};

use crate::{
    Result,
    app::now_nanos,
    peers::Group,
    real::{self, Consumer},
    scenarios::Setting,
};

/// Messages in the queue: more than any one measurement takes.
const MESSAGES: usize = 120_000;
const BROKER: &str = "broker-a";
const TOPIC: &str = "bench";

/// `spec.source` of a group that begins at the queues' beginning.
pub(crate) fn source(name_server: &str, group: &str) -> String {
    format!(
        "    rocketmq:\n      nameServers: [\"{name_server}\"]\n      consumerGroup: {group}\n      \
         subscriptions: [{{topic: {TOPIC}}}]\n      startPosition: {{type: Earliest}}\n"
    )
}

/// One queue, filled beforehand: against B0, and against the plain Java consumer.
pub(crate) async fn measure(setting: &Setting, java: Option<&str>) -> Result<Vec<String>> {
    let filled = tokio::task::spawn_blocking(Filled::start).await?;
    let samples = real::measure(setting, &filled, 1, java).await?;
    let name = "real RocketMQ pre-filled, 1 queue / B0, 1 connection";
    let mut lines = vec![samples.to_base().throughput(name, 0.45, 0.60)];
    lines.extend(samples.to_java("real RocketMQ, 1 queue / plain Java orderly consumer"));
    Ok(lines)
}

/// A running name server and broker; ended on drop.
#[derive(Debug)]
struct Filled {
    servers: RocketMqServers,
    cluster: Cluster,
}

impl Filled {
    /// Starts them, makes a topic of one queue and fills it with messages of 1 KiB.
    fn start() -> Self {
        let options = RocketMqOptions { nodes: &["namesrv", BROKER], ..RocketMqOptions::default() };
        let servers = RocketMqServers::start(options);
        let cluster = Cluster::new([(BROKER.to_owned(), servers.broker(BROKER))]);
        cluster.create_topic(TOPIC, 1);
        let message =
            Outgoing { body: vec![b'x'; 1024], tag: Some("TagA".to_owned()), ..Outgoing::default() };
        cluster.publish(TOPIC, BROKER, 0, &vec![message; MESSAGES]);
        Self { servers, cluster }
    }
}

impl real::Filled for Filled {
    /// A new consumer group, which starts at the queue's beginning.
    fn prepare(&self, _: &Setting) -> Consumer {
        let group = format!("bench-{}", now_nanos());
        self.cluster.create_group(&group);
        let name_server = self.servers.namesrv();
        let source = source(&name_server, &group);
        let java = [name_server.as_str(), TOPIC, "*", &group, "bench"].map(str::to_owned).into();
        Consumer { group: Group { source, mode: "PerQueue", max_in_flight: 32 }, java }
    }

    fn check(&self) -> Result<()> {
        Ok(())
    }
}
