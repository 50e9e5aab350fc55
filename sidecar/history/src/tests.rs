//! Doctored histories: each anomaly is found, and clean ones pass.

mod doctored;
mod planted;
mod text;

use std::sync::Arc;

use crate::{Anomaly, Event, History, Order, Outcome, Rules, Verdict, check};

/// Writes histories with a clock of its own: each event comes 10 microseconds after the one before.
#[derive(Debug, Default)]
struct Script {
    history: History,
    now: u64,
    posts: u64,
    epoch: u64,
}

impl Script {
    /// A queue `q` with so many messages, keys `k0` and `k1` in turn.
    fn with_messages(count: u64) -> Self {
        let mut script = Self { epoch: 1, ..Self::default() };
        for position in 0..count {
            let key = Some(Arc::from(format!("k{}", position % 2)));
            script.history.push(Event::Published { queue: "q".into(), position, key });
        }
        script
    }

    fn tick(&mut self) -> u64 {
        self.now += 10;
        self.now
    }

    fn start(&mut self, position: u64, attempt: u32, consumer: &str) -> Arc<str> {
        self.posts += 1;
        let post: Arc<str> = format!("p{}", self.posts).into();
        let event = Event::Start {
            at: self.tick(),
            post: Arc::clone(&post),
            queue: "q".into(),
            position,
            attempt,
            consumer: consumer.into(),
            epoch: Some(self.epoch),
        };
        self.history.push(event);
        post
    }

    fn end(&mut self, post: Arc<str>, outcome: Outcome) {
        let at = self.tick();
        self.history.push(Event::End { at, post, outcome });
    }

    fn answer(&mut self, position: u64, attempt: u32, status: u16) {
        let post = self.start(position, attempt, "a");
        self.end(post, Outcome::Answered(status));
    }

    /// Answers 200 to first attempts.
    fn deliver(&mut self, positions: impl IntoIterator<Item = u64>) {
        positions.into_iter().for_each(|position| self.answer(position, 1, 200));
    }

    fn commit(&mut self, position: u64) {
        let at = self.tick();
        self.history.push(Event::Commit { at, queue: "q".into(), position });
    }

    fn fault(&mut self, duplicates: u64, overlaps: u64) {
        let at = self.tick();
        self.history.push(Event::Fault { at, name: "kill".into(), queue: None, duplicates, overlaps });
    }

    fn verdict(&self, order: Order) -> Verdict {
        check(&self.history, &Rules::new(order))
    }

    fn finds(&self, anomaly: Anomaly) {
        let verdict = self.verdict(Order::PerQueue);
        let found: Vec<Anomaly> = verdict.findings().map(|(anomaly, _)| anomaly).collect();
        assert_eq!(found, [anomaly], "{verdict}");
    }

    fn is_clean(&self) -> Verdict {
        let verdict = self.verdict(Order::PerQueue);
        assert!(verdict.is_clean(), "{verdict}");
        verdict
    }
}
