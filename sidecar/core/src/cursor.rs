//! A queue's cursor: the contiguous prefix of finished positions, and the finished ranges ahead of it.

use std::collections::BTreeMap;

use lockstep_model::{Identity, Position};

#[derive(Debug)]
struct Range {
    end: Position,
    deliveries: usize,
    last: Identity,
}

/// Everything before `at` is finished. Ranges ahead never touch it or each other.
#[derive(Debug)]
pub(crate) struct Cursor {
    at: Position,
    last: Identity,
    passed: u64,
    ahead: BTreeMap<Position, Range>,
    deliveries_ahead: usize,
}

impl Cursor {
    pub(crate) fn new(at: Position) -> Self {
        Self { at, last: Identity::None, passed: 0, ahead: BTreeMap::new(), deliveries_ahead: 0 }
    }

    pub(crate) fn at(&self) -> Position {
        self.at
    }

    /// The identity of the last delivery that the cursor passed.
    pub(crate) fn last(&self) -> &Identity {
        &self.last
    }

    /// How many deliveries the cursor has passed since it was made.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Finished deliveries that the cursor could not pass yet.
    pub(crate) fn ahead(&self) -> usize {
        self.deliveries_ahead
    }

    /// A delivery has its final verdict.
    pub(crate) fn finish(&mut self, position: Position, identity: Identity) {
        self.insert(position, Range { end: position.next(), deliveries: 1, last: identity });
    }

    /// Nothing in `from..to` concerns this group.
    pub(crate) fn gap(&mut self, from: Position, to: Position) {
        if from < to {
            self.insert(from, Range { end: to, deliveries: 0, last: Identity::None });
        }
    }

    fn insert(&mut self, start: Position, mut range: Range) {
        if start <= self.at {
            self.pass(range);
            while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= self.at) {
                let range = entry.remove();
                self.deliveries_ahead = self.deliveries_ahead.saturating_sub(range.deliveries);
                self.pass(range);
            }
            return;
        }
        self.deliveries_ahead = self.deliveries_ahead.saturating_add(range.deliveries);
        if let Some(next) = self.ahead.remove(&range.end) {
            range.end = next.end;
            range.deliveries = range.deliveries.saturating_add(next.deliveries);
            if next.last != Identity::None {
                range.last = next.last;
            }
        }
        if let Some((_, before)) = self.ahead.range_mut(..start).next_back().filter(|(_, b)| b.end == start) {
            before.end = range.end;
            before.deliveries = before.deliveries.saturating_add(range.deliveries);
            if range.last != Identity::None {
                before.last = range.last;
            }
            return;
        }
        self.ahead.insert(start, range);
    }

    fn pass(&mut self, range: Range) {
        self.at = self.at.max(range.end);
        self.passed = self.passed.saturating_add(range.deliveries as u64);
        if range.deliveries > 0 {
            self.last = range.last;
        }
    }
}
