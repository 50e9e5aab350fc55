use std::time::Duration;

use bytes::Bytes;
use lockstep_broker::{
    Clock,
    conformance::{self, Harness, Source},
    memory::{MemoryBroker, MemoryOptions, MemorySource},
};
use lockstep_model::{Message, QueueId, Settlement};

/// The broker in memory, of either kind.
pub(crate) struct Memory(pub(crate) MemoryOptions);

/// One source of it.
pub(crate) struct MemoryCase {
    pub(crate) source: MemorySource,
    pub(crate) clock: Clock,
    options: MemoryOptions,
}

impl MemoryCase {
    pub(crate) fn new(options: MemoryOptions, queues: usize) -> Self {
        let clock = Clock::new();
        let names: Vec<String> = (0..queues).map(|queue| format!("queue/{queue}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self { source: MemorySource::new(options, clock, &names), clock, options }
    }
}

pub(crate) fn id(queue: usize) -> QueueId {
    QueueId(u32::try_from(queue).unwrap_or(u32::MAX))
}

impl Harness for Memory {
    type Source = MemoryCase;

    async fn source(&self, queues: usize) -> MemoryCase {
        MemoryCase::new(self.0, queues)
    }
}

impl Source for MemoryCase {
    type Broker = MemoryBroker;

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn member(&self, client_id: &str) -> MemoryBroker {
        self.source.member(client_id)
    }

    fn queue_name(&self, queue: usize) -> String {
        format!("queue/{queue}")
    }

    async fn publish(&self, queue: usize, message: Message) {
        self.source.publish_message(id(queue), message);
    }

    async fn unsettled(&self, queue: usize) -> u64 {
        self.source.unsettled(id(queue))
    }

    async fn dead_letters(&self) -> Vec<Bytes> {
        self.source.dead_letters().into_iter().map(|dead| dead.raw.unwrap_or(dead.message.body)).collect()
    }

    async fn kill(&self, _client_id: &str) {}

    async fn publish_undecodable(&self, queue: usize, raw: Bytes) -> bool {
        self.source.publish_undecodable(id(queue), raw);
        true
    }

    async fn cut(&self, client_id: &str) -> bool {
        self.source.cut(client_id);
        true
    }

    async fn restore(&self, client_id: &str) {
        self.source.restore(client_id);
    }

    fn lease_life(&self) -> Option<Duration> {
        (self.options.settlement == Settlement::Cumulative).then_some(self.options.lock_lifetime)
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_under_locks_conforms() {
    let report = conformance::run_all(&Memory(MemoryOptions::cumulative())).await;
    assert!(report.passed(), "\n{report}");
    assert_eq!(report.not_applicable(), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn exclusive_consumers_conform() {
    let report = conformance::run_all(&Memory(MemoryOptions::per_delivery())).await;
    assert!(report.passed(), "\n{report}");
    let expected = [
        "a_position_can_be_read_again",
        "the_end_of_the_queue_is_told",
        "a_lease_lives_while_the_other_halves_hang",
    ];
    assert_eq!(report.not_applicable(), expected);
}

#[tokio::test(start_paused = true)]
async fn one_delivery_at_a_time_conforms() {
    let options = MemoryOptions { lookahead: Some(1), ..MemoryOptions::per_delivery() };
    let report = conformance::run_all(&Memory(options)).await;
    assert!(report.passed(), "\n{report}");
}
