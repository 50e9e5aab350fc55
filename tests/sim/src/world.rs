use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockstep_broker::{
    Broker, Clock,
    memory::{Happening, MemoryBroker, MemoryOptions, MemorySource},
};
use lockstep_core::{Config, OrderingMode};
use lockstep_history::{Event, History, How, Order, Rules, Verdict, check};
use lockstep_model::QueueId;
use tokio::time::{sleep, timeout};

use crate::{App, Member, config};

/// How often a condition is looked at. It is a step of paused time, not a hope.
const LOOK: Duration = Duration::from_millis(5);
/// A condition that does not hold after so long never will.
const PATIENCE: Duration = Duration::from_secs(600);

/// Everything that a test needs.
#[derive(Debug)]
pub struct World {
    /// The one clock.
    pub clock: Clock,
    /// The broker.
    pub source: MemorySource,
    /// The application.
    pub app: App,
    /// How much order members keep.
    pub mode: OrderingMode,
    names: BTreeMap<QueueId, Arc<str>>,
    faults: Vec<Event>,
}

impl World {
    /// A world with so many queues and no member.
    pub fn new(options: MemoryOptions, mode: OrderingMode, queues: usize) -> Self {
        let clock = Clock::new();
        let names: Vec<String> = (0..queues).map(|number| format!("orders/{number}")).collect();
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let source = MemorySource::new(options, clock, &texts);
        let names = source.queues().into_iter().zip(names.into_iter().map(Arc::from)).collect();
        Self { clock, source, app: App::new(clock), mode, names, faults: Vec::new() }
    }

    /// A log under locks that live 10 s.
    pub fn log(mode: OrderingMode, queues: usize) -> Self {
        let options = MemoryOptions { lock_lifetime: Duration::from_secs(10), ..MemoryOptions::cumulative() };
        Self::new(options, mode, queues)
    }

    /// Publishes so many messages to each queue, over so many keys (0 = without a key).
    pub fn publish(&self, each: usize, keys: usize) {
        for number in 0..each {
            for queue in self.names.keys() {
                let key = (keys > 0).then(|| format!("k{}", (number * 7 + number / 3) % keys));
                self.source.publish(*queue, key.as_deref(), "{}");
            }
        }
    }

    /// A member's settings.
    pub fn config(&self, seed: u64) -> Config {
        config(self.source.member("probe").capabilities(), self.mode, seed)
    }

    /// Starts a member whose application is healthy.
    pub async fn member(&self, name: &str) -> Member {
        self.member_with(name, self.config(7)).await
    }

    /// The same with other settings.
    pub async fn member_with(&self, name: &str, config: Config) -> Member {
        Member::start(name, self.source.member(name), &self.app, self.clock, config).await
    }

    /// A connection for a member.
    pub fn broker(&self, name: &str) -> MemoryBroker {
        self.source.member(name)
    }

    /// Messages without a final verdict at the broker.
    pub fn unsettled(&self) -> u64 {
        self.names.keys().map(|queue| self.source.unsettled(*queue)).sum()
    }

    /// Waits until a condition holds.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let wait = async {
            while !holds() {
                sleep(LOOK).await;
            }
        };
        let held = timeout(PATIENCE, wait).await.is_ok();
        assert!(held, "not within {PATIENCE:?}: {what}");
    }

    /// Waits until everything published has a final verdict.
    pub async fn until_done(&self) {
        self.until("everything is settled", || self.unsettled() == 0).await;
    }

    /// Notes something broken on purpose and what it may cost in each queue.
    pub fn fault(&mut self, name: &str, duplicates: u64) {
        let at = self.now();
        self.faults.push(Event::Fault { at, name: name.into(), queue: None, duplicates, overlaps: 0 });
    }

    /// Notes each change of owner as a fault that may cost so many duplicates: for runs in which leases are lost.
    pub fn excuse_losses(&mut self, duplicates: u64) {
        for record in self.source.records() {
            if let (Happening::Acquired { .. }, Some(queue)) = (&record.what, self.names.get(&record.queue)) {
                let (at, queue) = (record.at.as_nanos() / 1_000, Some(Arc::clone(queue)));
                self.faults.push(Event::Fault {
                    at,
                    name: "change of owner".into(),
                    queue,
                    duplicates,
                    overlaps: 0,
                });
            }
        }
    }

    /// The time in the history's unit.
    pub fn now(&self) -> u64 {
        self.clock.now().as_nanos() / 1_000
    }

    /// All that happened.
    pub fn history(&self) -> History {
        let mut history = self.app.history();
        for record in self.source.records() {
            let Some(queue) = self.names.get(&record.queue).cloned() else { continue };
            let at = record.at.as_nanos() / 1_000;
            match record.what {
                Happening::Published { offset, key, .. } => {
                    let key = key.map(|key| Arc::from(key.as_str()));
                    history.push(Event::Published { queue, position: offset, key });
                }
                Happening::Committed { position, .. } => {
                    history.push(Event::Commit { at, queue, position: position.0 });
                }
                Happening::DeadLettered { offset, .. } => {
                    history.push(Event::Final { at, queue, position: offset, how: How::DeadLetter });
                }
                Happening::Acquired { .. }
                | Happening::Released { .. }
                | Happening::Lost { .. }
                | Happening::Accepted { .. }
                | Happening::Reset { .. }
                | Happening::Trimmed { .. } => {}
            }
        }
        for fault in &self.faults {
            history.push(fault.clone());
        }
        history
    }

    /// The judgement, with messages that were skipped on purpose excused.
    pub fn verdict(&self, skipped: &[(usize, u64)]) -> Verdict {
        let order = match self.mode {
            OrderingMode::PerQueue => Order::PerQueue,
            OrderingMode::PerKey => Order::PerKey,
            OrderingMode::Unordered => Order::Unordered,
        };
        let mut history = self.history();
        for (queue, position) in skipped {
            let queue: Arc<str> = Arc::from(format!("orders/{queue}"));
            history.push(Event::Final { at: 0, queue, position: *position, how: How::Skip });
        }
        check(&history, &Rules::new(order))
    }

    /// Fails unless everything was kept, without a duplicate that no fault explains.
    pub fn judge(&self) -> Verdict {
        let verdict = self.verdict(&[]);
        assert!(verdict.is_clean(), "{verdict}");
        verdict
    }
}
