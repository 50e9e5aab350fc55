use super::method::Answer;

/// Which answer a question has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::amqp) enum Reply {
    ChannelOpen,
    Declare,
    Delete,
    Qos,
    Consume,
    Cancel,
    Select,
}

impl Answer {
    /// What it answers.
    pub(in crate::amqp) const fn reply(&self) -> Reply {
        match self {
            Self::ChannelOpen => Reply::ChannelOpen,
            Self::Declare { .. } => Reply::Declare,
            Self::Delete => Reply::Delete,
            Self::Qos => Reply::Qos,
            Self::Consume => Reply::Consume,
            Self::Cancel => Reply::Cancel,
            Self::Select => Reply::Select,
        }
    }
}
