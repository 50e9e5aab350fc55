use super::Method;

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

impl Reply {
    /// The kind of answer that a method is, if it is one.
    pub(in crate::amqp) const fn of(method: &Method) -> Option<Self> {
        match method {
            Method::ChannelOpenOk => Some(Self::ChannelOpen),
            Method::DeclareOk { .. } => Some(Self::Declare),
            Method::DeleteOk => Some(Self::Delete),
            Method::QosOk => Some(Self::Qos),
            Method::ConsumeOk => Some(Self::Consume),
            Method::CancelOk => Some(Self::Cancel),
            Method::SelectOk => Some(Self::Select),
            Method::Start { .. }
            | Method::Tune { .. }
            | Method::OpenOk
            | Method::Close { .. }
            | Method::CloseOk
            | Method::Blocked { .. }
            | Method::Unblocked
            | Method::ChannelFlow { .. }
            | Method::ChannelClose { .. }
            | Method::ChannelCloseOk
            | Method::Cancel { .. }
            | Method::Deliver { .. }
            | Method::Return { .. }
            | Method::Ack { .. }
            | Method::Nack { .. } => None,
        }
    }
}
