//! How a queue of ActiveMQ is written: its name, and behind a `?` options as ActiveMQ's own clients take them. A broker
//! knows nothing of these: they are read here, by the operator and the sidecar alike.

use crate::{ActiveMq, source::ActiveMqQueue};

/// What stands between a queue's name and its options.
const OPTIONS: char = '?';
/// The one option that is taken.
const SELECTOR: &str = "consumer.selector";

/// Options that Lockstep decides itself, each with what to do instead.
const DECIDED: [(&str, &str); 7] = [
    (
        "consumer.prefetchSize",
        "`mode` says how deliveries come, and `delivery.maxInFlight` how many run at once",
    ),
    ("consumer.exclusive", "every `ordering.mode` but `Unordered` consumes exclusively"),
    (
        "consumer.priority",
        "all members have the same, since one of a higher priority would take a queue while a message of it runs",
    ),
    ("consumer.dispatchAsync", "`mode` says how deliveries come"),
    ("consumer.retroactive", "it is for topics, and only queues are consumed"),
    ("consumer.noLocal", "it is for topics, and only queues are consumed"),
    ("consumer.maximumPendingMessageLimit", "it is for topics, and only queues are consumed"),
];

/// One option, its value decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueueOption {
    /// `consumer.selector`, which may be empty.
    Selector(String),
    /// One that Lockstep decides itself: its name, and what says it.
    Decided(&'static str, &'static str),
    /// One that nobody knows.
    Unknown(String),
    /// One with a `%` that two hexadecimal digits don't follow.
    Undecodable(String),
}

/// Every option that [`QueueOption`] has a meaning for.
pub(crate) fn known_options() -> impl Iterator<Item = &'static str> {
    DECIDED.iter().map(|(name, _)| *name).chain([SELECTOR])
}

/// A queue's name without its options: the form in which it is assigned, shown, and told to the application.
pub fn queue_name(text: &str) -> &str {
    text.split_once(OPTIONS).map_or(text, |(name, _)| name)
}

/// The options behind a queue's name, in their order.
pub(crate) fn queue_options(text: &str) -> Vec<QueueOption> {
    let options = text.split_once(OPTIONS).map_or("", |(_, options)| options);
    options.split('&').filter(|option| !option.is_empty()).map(option).collect()
}

fn option(text: &str) -> QueueOption {
    // The first `=` parts them; a selector holds more.
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if let Some((name, instead)) = DECIDED.iter().find(|(decided, _)| *decided == name) {
        return QueueOption::Decided(name, instead);
    }
    if name != SELECTOR {
        return QueueOption::Unknown(name.to_owned());
    }
    decoded(value).map_or_else(|| QueueOption::Undecodable(name.to_owned()), QueueOption::Selector)
}

/// As `java.net.URLDecoder` reads it, so that a text means the same here as in a Java client: `+` is a blank.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

impl ActiveMq {
    /// The names of the queues, without options, in their order.
    pub fn queue_names(&self) -> Vec<String> {
        self.queues.iter().map(|text| queue_name(text).to_owned()).collect()
    }

    /// The queues, each with its own selector or else the one of all.
    pub fn each_queue(&self) -> Vec<ActiveMqQueue> {
        let own = |text: &str| {
            queue_options(text).into_iter().find_map(|option| match option {
                QueueOption::Selector(selector) => Some(selector),
                QueueOption::Decided(..) | QueueOption::Unknown(_) | QueueOption::Undecodable(_) => None,
            })
        };
        let queue = |text: &String| ActiveMqQueue {
            name: queue_name(text).to_owned(),
            selector: own(text).or_else(|| self.selector.clone()),
        };
        self.queues.iter().map(queue).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(text: &str) -> QueueOption {
        QueueOption::Selector(text.to_owned())
    }

    #[test]
    fn a_selector_is_read_as_a_java_client_reads_it() {
        assert_eq!(queue_options("q?consumer.selector=a = 1"), [selector("a = 1")]);
        assert_eq!(queue_options("q?consumer.selector=a+%3D+%271%27"), [selector("a = '1'")]);
        assert_eq!(queue_options("q?consumer.selector=a LIKE 'x%25'&"), [selector("a LIKE 'x%'")]);
        assert_eq!(queue_options("q?consumer.selector=n = '%c3%bc'"), [selector("n = 'ü'")]);
        assert_eq!(queue_options("q?consumer.selector"), [selector("")]);
        for bad in ["%", "%2", "%zz", "a%", "%ff"] {
            let option = QueueOption::Undecodable("consumer.selector".to_owned());
            assert_eq!(queue_options(&format!("q?consumer.selector={bad}")), [option], "{bad}");
        }
        for none in ["q", "q?", "Consumer.a.VirtualTopic.b", "address::queue"] {
            assert_eq!(queue_options(none), [], "{none}");
        }
    }

    #[test]
    fn a_queue_is_known_by_its_name_and_has_its_own_selector_first() {
        let source = ActiveMq {
            urls: Vec::new(),
            queues: vec!["a?consumer.selector=x > 1".to_owned(), "b".to_owned()],
            mode: crate::ActiveMqMode::Pull,
            selector: None,
        };
        assert_eq!(source.queue_names(), ["a", "b"]);
        let queue = |name: &str, selector: Option<&str>| ActiveMqQueue {
            name: name.to_owned(),
            selector: selector.map(str::to_owned),
        };
        assert_eq!(source.each_queue(), [queue("a", Some("x > 1")), queue("b", None)]);
        let all = ActiveMq { queues: vec!["b".to_owned()], selector: Some("y = 2".to_owned()), ..source };
        assert_eq!(all.each_queue(), [queue("b", Some("y = 2"))]);
    }

    #[test]
    fn options_that_lockstep_decides_are_told_apart_from_unknown_ones() {
        let options = queue_options("q?consumer.prefetchSize=1&consumer.prefetchsize=2&jms.x=3");
        let [first, second, third] = options.as_slice() else { panic!("{options:?}") };
        assert!(matches!(first, QueueOption::Decided("consumer.prefetchSize", _)), "{first:?}");
        assert_eq!(*second, QueueOption::Unknown("consumer.prefetchsize".to_owned()));
        assert_eq!(*third, QueueOption::Unknown("jms.x".to_owned()));
    }
}
