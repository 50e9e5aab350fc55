//! A permanent switch per invariant that makes the engine break it: proof that the checks can fail.

/// Which invariant is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sabotage {
    /// An orphan does not keep its lane.
    I1,
    /// A failure is taken for a success.
    I2,
    /// The commit passes the first unfinished delivery.
    I3,
    /// A lost queue is kept.
    I4,
    /// A fetch asks for twice the share.
    I5,
    /// A settlement is sent twice.
    I6,
    /// An attempt that never reached the application is charged.
    I7,
    /// A drain goes on fetching.
    I8,
    /// No reserve is kept before a lease's end.
    I9,
    /// One waiting lane stops its whole queue.
    I10,
}
