//! A real RabbitMQ whose queues are filled up before each measurement.

use lockstep_tests_support::{
    brokers::{RabbitMqOptions, RabbitMqServers},
    rabbitmq::{Node, ORDERED, Outgoing},
};

use crate::{
    Result,
    peers::Group,
    real::{self, Consumer, Filled},
    scenarios::Setting,
};

const NODE: &str = "r1";
/// Queues side by side, and as many connections of B0.
const WIDE: u32 = 64;
/// Messages of one publisher.
const BATCH: usize = 5_000;

/// One queue against B0 and against the plain Java consumer, and many queues against B0.
pub(crate) async fn measure(setting: &Setting, java: Option<&str>) -> Result<Vec<String>> {
    let servers = tokio::task::spawn_blocking(|| RabbitMqServers::start(RabbitMqOptions::default())).await?;
    let strict = Queues::declare(servers.node(NODE), "strict", 1, 32, 30_000);
    let samples = real::measure(setting, &strict, 1, java).await?;
    let name = "real RabbitMQ pre-filled, 1 queue / B0, 1 connection";
    let mut lines = vec![samples.to_base().throughput(name, 0.50, 0.70)];
    lines.extend(samples.to_java("real RabbitMQ, 1 queue / plain Java consumer"));
    let wide = Queues::declare(servers.node(NODE), "wide", WIDE, 64, 60_000);
    let samples = real::measure(setting, &wide, WIDE, None).await?;
    let name = "real RabbitMQ pre-filled, 64 queues / B0, 64 connections";
    lines.push(samples.to_base().throughput(name, 0.40, 0.55));
    Ok(lines)
}

/// Ordered queues of a node.
#[derive(Debug)]
struct Queues {
    node: Node,
    names: Vec<String>,
    max_in_flight: u32,
    /// More messages a second than any consumer takes from them together.
    most: usize,
    messages: Vec<Outgoing>,
}

impl Queues {
    fn declare(node: Node, name: &str, count: u32, max_in_flight: u32, most: usize) -> Self {
        let names: Vec<String> = (0..count).map(|number| format!("{name}-{number}")).collect();
        names.iter().for_each(|queue| node.declare(queue, ORDERED));
        let messages = vec![Outgoing::of(vec![b'x'; 1024]); BATCH];
        Self { node, names, max_in_flight, most, messages }
    }

    /// Messages that each queue begins with.
    fn depth(&self, setting: &Setting) -> usize {
        let seconds = usize::try_from(setting.window.length.as_secs()).unwrap_or(usize::MAX);
        let warm = usize::try_from(setting.window.warm).unwrap_or(usize::MAX);
        self.most.saturating_mul(seconds).saturating_add(warm) / self.names.len()
    }

    fn ready(&self, queue: &str) -> usize {
        usize::try_from(self.node.ready(queue)).unwrap_or(usize::MAX)
    }
}

impl Filled for Queues {
    fn prepare(&self, setting: &Setting) -> Consumer {
        for queue in &self.names {
            let mut missing = self.depth(setting).saturating_sub(self.ready(queue));
            while let Some(batch) = self.messages.get(..missing.min(BATCH))
                && !batch.is_empty()
            {
                self.node.publish(queue, batch);
                missing -= batch.len();
            }
        }
        let url = format!("amqp://{}", self.node.amqp());
        let source =
            format!("    rabbitmq:\n      urls: [\"{url}\"]\n      queues: [{}]\n", self.names.join(", "));
        // The plain consumer takes one queue.
        let java = [Some(&url), self.names.first()].into_iter().flatten().cloned().collect();
        Consumer { group: Group { source, mode: "PerQueue", max_in_flight: self.max_in_flight }, java }
    }

    fn check(&self) -> Result<()> {
        match self.names.iter().find(|queue| self.ready(queue) == 0) {
            None => Ok(()),
            Some(queue) => Err(format!("{queue} ran empty while it was measured: fill in more").into()),
        }
    }
}
