//! How a queue was declared, as far as it can be known, and whether that does for what is wanted of it.

mod judge;
mod management;
mod probe;

pub(crate) use judge::{Wanted, right};
pub(crate) use management::of_json;
pub(crate) use probe::{Learned, Probe, Value};

/// How a queue was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) kind: Kind,
    pub(crate) single_active: bool,
    /// `x-delivery-limit` or its policy; `None` = none is set.
    pub(crate) limit: Option<i64>,
    /// Whether dead letters have an exchange to go to.
    pub(crate) dead_letter_exchange: bool,
    /// The setting by which messages are handed out before older ones, if there is one.
    pub(crate) overtaking: Option<&'static str>,
    /// Whether policies were seen too: probing shows arguments only.
    pub(crate) with_policies: bool,
}

/// What keeps a queue's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Classic,
    Quorum,
    Stream,
    /// One that a plugin brings.
    Other(String),
}

/// Settings by which messages overtake: the argument's name, and the policy's where there is one. The second is known from
/// 4.3 on, and switched off by a word.
const MAX_PRIORITY: &str = "x-max-priority";
const DELAYED_RETRY: (&str, &str) = ("x-delayed-retry-type", "delayed-retry-type");
const DELAYED_RETRY_OFF: &str = "disabled";

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "classic" => Self::Classic,
            "quorum" => Self::Quorum,
            "stream" => Self::Stream,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// A release of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Version {
    /// The first with a delivery limit (20) where none is set, and with -1 for none.
    pub(crate) const LIMITS_ALL: Self = Self(4, 0, 0);

    /// `None` for what is no version.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().ok());
        Some(Self(parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
    }

    /// Whether a classic queue's process may crash when its single active consumer goes (fixed in 3.10.13 and 3.11.5,
    /// rabbitmq-server#5460).
    fn crashes_on_hand_over(self) -> bool {
        self < Self(3, 10, 13) || (self >= Self(3, 11, 0) && self < Self(3, 11, 5))
    }
}

#[cfg(test)]
mod tests;
