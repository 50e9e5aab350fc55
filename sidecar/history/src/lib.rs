//! Judges what happened: was the promise kept?
//!
//! Tests and the demo write down what the broker held, what the application saw and what was committed; [`check`]
//! compares the three. It knows neither the engine nor a broker, so it can't share their mistakes, and it depends on
//! nothing.
//!
//! ```
//! use lockstep_history::{Event, History, Order, Outcome, Rules, check};
//!
//! let mut history = History::default();
//! history.push(Event::Published { queue: "q/0".into(), position: 0, key: None });
//! history.push(Event::Start {
//!     at: 10,
//!     post: "p1".into(),
//!     queue: "q/0".into(),
//!     position: 0,
//!     attempt: 1,
//!     consumer: "sidecar-1".into(),
//!     epoch: Some(1),
//! });
//! history.push(Event::End { at: 20, post: "p1".into(), outcome: Outcome::Answered(200) });
//! history.push(Event::Commit { at: 30, queue: "q/0".into(), position: 1 });
//! let verdict = check(&history, &Rules::new(Order::PerQueue));
//! assert!(verdict.is_clean(), "{verdict}");
//! ```

mod attempts;
mod commits;
mod duplicates;
mod event;
mod lines;
mod model;

mod owners;
mod text;
mod verdict;

#[cfg(test)]
mod tests;

pub use event::{Event, How, Outcome};
pub use text::ParseError;
pub use verdict::{Anomaly, Counts, Finding, Verdict};

use std::collections::BTreeSet;

/// Events in the order in which they were written down; the checker sorts by time where it matters.
#[derive(Debug, Default, Clone)]
pub struct History {
    pub(crate) events: Vec<Event>,
}

impl History {
    /// Adds one event.
    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Adds all events of another history.
    pub fn extend(&mut self, other: Self) {
        self.events.extend(other.events);
    }

    /// The events as they were added.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl From<Vec<Event>> for History {
    fn from(events: Vec<Event>) -> Self {
        Self { events }
    }
}

/// Within what the deliveries must be in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Within a queue.
    PerQueue,
    /// Within a key of a queue; messages without a key share one line per queue.
    PerKey,
    /// Nowhere.
    Unordered,
}

/// What is asked of a history.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Within what the deliveries must be in order.
    pub order: Order,
    /// Whether every published message must have been answered 2xx (or have another final verdict) by the end.
    pub complete: bool,
    /// Consumers of other make, for example a plain Java member. What they had handled and others repeat is counted
    /// apart: they give a queue up without committing.
    pub apart: BTreeSet<String>,
    /// Microseconds by which an application may notice late that a request was broken off.
    pub slack: u64,
    /// Whether a queue may have several owners at once, as where a broker shares an unordered queue out among them. Then an
    /// older ownership may send beside a newer one.
    pub shared: bool,
    /// Whether a rewind may leave out what is done: where deliveries are settled one by one, a consumer that knows a message
    /// to be done does not send it again when the broker hands it over again.
    pub gaps: bool,
}

impl Rules {
    /// Everything must be complete, only our own consumers took part, and each queue has one owner.
    pub const fn new(order: Order) -> Self {
        Self { order, complete: true, apart: BTreeSet::new(), slack: 1_000_000, shared: false, gaps: false }
    }
}

/// Judges a history.
pub fn check(history: &History, rules: &Rules) -> Verdict {
    let mut verdict = Verdict::default();
    let model = model::Model::build(history, rules, &mut verdict);
    lines::check(&model, rules, &mut verdict);
    duplicates::check(&model, rules, &mut verdict);
    owners::check(&model, rules, &mut verdict);
    commits::check(&model, &mut verdict);
    attempts::check(&model, &mut verdict);
    verdict
}
