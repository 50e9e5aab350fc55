//! What can be wrong with a manifest.

use std::{error::Error, fmt};

/// Declares the rules together with the list of all.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// A rule that a manifest can break. The tests hold a passing and a failing case of each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])* $name,)+
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

rules! {
    /// It is YAML.
    Syntax,
    /// It is small enough.
    Size,
    /// It is not nested too deeply and, aliases expanded, not too large.
    Nesting,
    /// It holds something.
    Empty,
    /// It is one document.
    OneDocument,
    /// Each key stands once in its mapping.
    DuplicateKey,
    /// Keys are texts.
    TextKey,
    /// `apiVersion` is the known one.
    ApiVersion,
    /// `kind` is the known one.
    Kind,
    /// Every field is known.
    UnknownField,
    /// What must be given is given.
    Missing,
    /// A value has its field's type.
    Type,
    /// A number is whole.
    Fraction,
    /// A number has no unit of its own.
    Unit,
    /// A number lies in its range.
    Range,
    /// A word is one of the known ones.
    Choice,
    /// A list or a text has a permitted length.
    Length,
    /// A name is one that Kubernetes takes.
    KubernetesName,
    /// Exactly one source is given.
    OneSource,
    /// An address is `host:port`.
    Address,
    /// A URL has a known scheme, a host and nothing else.
    Url,
    /// A URL carries no user and password.
    UrlCredentials,
    /// URL schemes and `tls` agree.
    UrlTls,
    /// A consumer group's name is one that RocketMQ takes.
    GroupName,
    /// A topic's name is one that RocketMQ takes.
    TopicName,
    /// A topic or queue is listed once.
    ListedOnce,
    /// A queue of ActiveMQ is named by itself: no wildcard, no list, no topic.
    QueueName,
    /// Behind the name of a queue of ActiveMQ stands at most a selector.
    QueueOptions,
    /// At most one of `selector` and a queue's own.
    OneSelector,
    /// At most one of `tags` and `sql`.
    OneFilter,
    /// Tags are parted by `||`.
    Tags,
    /// `time` is given for `Timestamp` and only then.
    StartTime,
    /// A moment is RFC 3339.
    Moment,
    /// `header` is given for `Header` and only then.
    KeyHeader,
    /// A host is a name or an address.
    Host,
    /// A port is a number or a port's name.
    Port,
    /// A path begins with `/`.
    Path,
    /// A content type is `type/subtype`.
    ContentType,
    /// A status stands in one list.
    StatusOnce,
    /// A 2xx can't be made a failure.
    StatusSuccess,
    /// The first wait is not longer than the longest.
    BackoffOrder,
    /// A drain may take as long as an attempt.
    DrainTimeout,
    /// The dead-letter policy is one that the source has.
    DeadLetterPolicy,
    /// A dead-letter queue is named for `Queue` and only then.
    DeadLetterName,
    /// Dead letters don't come back.
    DeadLetterLoop,
    /// Two attempts fit into the broker's acknowledgement timeout.
    AcknowledgementTimeout,
    /// The application and the sidecar use different ports.
    PortClash,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Where, for example `spec.source.rocketmq.subscriptions[1].topic`; empty for the document as a whole.
    pub path: String,
    /// Which rule it breaks.
    pub rule: Rule,
    /// What is wrong, with the value found.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "manifest" } else { &self.path };
        write!(f, "{path}: {}; {}", self.problem, self.remedy)
    }
}

/// Something that is passed over, but that a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub Mistake);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Every mistake of a manifest, in the order of their paths; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    pub(crate) fn sorted(mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by(|a, b| {
            let by_path = natural(&a.path).cmp(natural(&b.path));
            by_path.then_with(|| (a.rule, &a.problem).cmp(&(b.rule, &b.problem)))
        });
        mistakes.dedup();
        Self(mistakes)
    }

    /// The mistakes, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A path whose numbers compare as numbers: entry 2 of a list stands before entry 10.
fn natural(path: &str) -> impl Iterator<Item = (&str, usize)> {
    // An entry's number is all digits; a field's name never is.
    path.split(['.', '[', ']']).map(|part| part.parse().map_or((part, 0), |number| ("", number)))
}

/// One mistake per line.
impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Mistakes {}

/// Collects mistakes while a manifest is read.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) mistakes: Vec<Mistake>,
}

impl Collector {
    pub(crate) fn add(
        &mut self,
        rule: Rule,
        path: &str,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.mistakes.push(Mistake {
            path: path.to_owned(),
            rule,
            problem: problem.into(),
            remedy: remedy.into(),
        });
    }
}
