//! The invariants I1 to I10 as names for what can go wrong. `ledger.rs` finds it, from inputs and outputs alone.

use std::fmt;

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// One attempt in flight per lane, over epochs too.
    I1,
    /// `Accept` only after a 2xx, a confirmed dead letter or a skip.
    I2,
    /// The cursor never passes a delivery without a final verdict.
    I3,
    /// After a lease ended, nothing of its epoch is attempted, settled or committed.
    I4,
    /// No fetch at the bound; each owned queue keeps a share of at least one.
    I5,
    /// Each delivery ends exactly once.
    I6,
    /// Attempts rise by one; exhaustion is acted on once.
    I7,
    /// A drain fetches nothing and ends by its deadline.
    I8,
    /// No attempt starts in the reserve or outlives its lease uncancelled.
    I9,
    /// Lanes are independent.
    I10,
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {:?} is broken: {}", self.invariant, self.what)
    }
}
