//! A running broker, and what is asked of it as a whole.

use std::time::{Duration, Instant};

use lockstep_tests_support::{
    activemq::Node,
    brokers::{ActiveMqOptions, ActiveMqServer},
    stage::LOOK_EVERY,
    time::pause,
};

/// How long the broker may show what has ended.
pub const IDLE: Duration = Duration::from_secs(30);

/// Which broker a scenario wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    version: &'static str,
}

impl Servers {
    /// Classic 6.3.1.
    pub const NEW: Self = Self { version: "6.3.1" };
    /// Classic 5.17.2.
    pub const OLD: Self = Self { version: "5.17.2" };
    /// Artemis 2.40.0.
    pub const ARTEMIS: Self = Self { version: "2.40.0" };

    /// Starts it.
    pub fn start(self) -> Site {
        let options = ActiveMqOptions { version: self.version, ..ActiveMqOptions::default() };
        let inactivity = options.inactivity;
        let server = ActiveMqServer::start(options);
        let node = server.node();
        Site { server, node, inactivity }
    }
}

/// A running broker.
#[derive(Debug)]
pub struct Site {
    /// The broker.
    pub server: ActiveMqServer,
    /// A client of it.
    pub node: Node,
    /// How long it lets a peer say nothing.
    pub inactivity: Duration,
}

impl Site {
    /// Where a queue's dead letters go.
    pub fn dead_letters_of(&self, queue: &str) -> String {
        if self.node.is_artemis() { "DLQ".to_owned() } else { format!("DLQ.{queue}") }
    }

    /// How many dead letters of a queue there are; Artemis: of all queues.
    pub fn dead_letters(&self, queue: &str) -> u64 {
        self.node.counts(&self.dead_letters_of(queue)).unwrap_or_default().unsettled
    }

    /// Waits until just so many connections are open.
    ///
    /// # Panics
    /// When it is not so in time.
    pub fn await_connections(&self, wanted: usize) {
        let start = Instant::now();
        loop {
            let open = self.node.connections();
            if open == u64::try_from(wanted).ok() {
                return;
            }
            assert!(start.elapsed() < IDLE, "there should be {wanted} connections, not {open:?}");
            pause(LOOK_EVERY);
        }
    }
}
