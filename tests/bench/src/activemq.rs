//! A real ActiveMQ whose queue is filled up before each measurement. Both sides acknowledge each message by itself and wait for
//! the broker's answer, which it gives when the acknowledgement is on its disk.

use lockstep_tests_support::{
    activemq::{Node, Outgoing},
    brokers::{ActiveMqOptions, ActiveMqServer},
};

use crate::{
    Result,
    peers::Group,
    real::{self, Consumer, Filled},
    scenarios::Setting,
};

/// More messages a second than any consumer takes whose acknowledgements reach the disk.
const MOST: usize = 20_000;
/// Messages of one publisher.
const BATCH: usize = 5_000;

/// One queue against B0, and against the plain Java consumer with a small and a large prefetch.
pub(crate) async fn measure(setting: &Setting, java: Option<&str>) -> Result<Vec<String>> {
    let start = || ActiveMqServer::start(ActiveMqOptions::default());
    let server = tokio::task::spawn_blocking(start).await?;
    let mut lines = Vec::new();
    for prefetch in [1, 100] {
        let queue = Queue::create(server.node(), prefetch);
        let samples = real::measure(setting, &queue, 1, java).await?;
        if lines.is_empty() {
            lines.push(samples.to_base().reported("real ActiveMQ pre-filled, 1 queue / B0, 1 connection"));
        }
        lines.extend(samples.to_java(&format!("real ActiveMQ, 1 queue / plain Java, prefetch {prefetch}")));
    }
    Ok(lines)
}

/// A queue of a broker.
#[derive(Debug)]
struct Queue {
    node: Node,
    name: String,
    /// Of the plain Java consumer.
    prefetch: u32,
    messages: Vec<Outgoing>,
}

impl Queue {
    fn create(node: Node, prefetch: u32) -> Self {
        let name = format!("bench-{prefetch}");
        node.create(&name);
        let messages = (0..BATCH).map(|_| Outgoing::of(vec![b'x'; 1024])).collect();
        Self { node, name, prefetch, messages }
    }

    fn ready(&self) -> usize {
        let counts = self.node.counts(&self.name);
        counts.map_or(0, |counts| usize::try_from(counts.unsettled).unwrap_or(usize::MAX))
    }
}

impl Filled for Queue {
    fn prepare(&self, setting: &Setting) -> Consumer {
        let seconds = usize::try_from(setting.window.length.as_secs()).unwrap_or(usize::MAX);
        let warm = usize::try_from(setting.window.warm).unwrap_or(usize::MAX);
        let mut missing = MOST.saturating_mul(seconds).saturating_add(warm).saturating_sub(self.ready());
        while let Some(batch) = self.messages.get(..missing.min(BATCH))
            && !batch.is_empty()
        {
            self.node.publish(&self.name, batch);
            missing -= batch.len();
        }
        let url = format!("tcp://{}", self.node.openwire());
        let source = format!("    activemq:\n      urls: [\"{url}\"]\n      queues: [{}]\n", self.name);
        let java = vec![url, self.name.clone(), self.prefetch.to_string()];
        Consumer { group: Group { source, mode: "PerQueue", max_in_flight: 32 }, java }
    }

    fn check(&self) -> Result<()> {
        if self.ready() > 0 {
            return Ok(());
        }
        Err(format!("{} ran empty while it was measured: fill in more", self.name).into())
    }
}
