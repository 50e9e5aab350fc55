/// Why bytes are no command, message or body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends before it should.
    #[error("it ends within {0}")]
    Truncated(&'static str),
    /// A length or a count that can't be.
    #[error("{what} can't have the length {length}")]
    Length {
        /// Of what.
        what: &'static str,
        /// As it stands there.
        length: i32,
    },
    /// Something must be there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Another type stands where it may not.
    #[error("type {kind} stands in place of {what}")]
    Type {
        /// Instead of this.
        what: &'static str,
        /// Its number.
        kind: u8,
    },
    /// Values within values, more than [`crate::DEPTH_MOST`] deep.
    #[error("values are nested too deep")]
    Depth,
    /// More than [`crate::VALUES_MOST`] values.
    #[error("there are too many values")]
    Values,
    /// The peer does not speak OpenWire.
    #[error("it is not OpenWire")]
    Magic,
    /// What is compressed can't be inflated.
    #[error("it can't be inflated")]
    Inflate,
    /// It would be larger than allowed when it is inflated.
    #[error("it has more than {0} bytes when it is inflated")]
    Inflated(usize),
}

/// What can't be written: it is longer than its length can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} is too long with {length}")]
pub struct EncodeError {
    /// What.
    pub what: &'static str,
    /// Bytes or elements.
    pub length: usize,
}
