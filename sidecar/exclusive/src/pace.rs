/// How soon to try again what failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It may be over in a moment.
    Quick,
    /// Somebody has to change something.
    Slow,
    /// The connection is over, which is nobody's trouble beside its own.
    Reconnect,
}
