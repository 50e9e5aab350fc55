//! Rules of `spec.source.activemq`.

use super::{At, listed_once};
use crate::{
    Rule,
    activemq::{QueueOption, known_options, queue_name, queue_options},
    mistake::Collector,
    words::{nearest, shortened},
};

/// Bytes of a queue's name; far more than anybody uses.
const NAME_MAX: usize = 255;
/// Bytes of a name with its options.
const QUEUE_MAX: usize = 4608;
/// Characters of a selector, as the schema has it for the one of all queues.
const SELECTOR_MAX: usize = 4096;
/// What ActiveMQ's clients put before a destination to say its kind (`ActiveMQDestination`).
const QUEUE_PREFIX: &str = "queue://";
const OTHER_PREFIXES: [&str; 3] = ["topic://", "temp-queue://", "temp-topic://"];
/// Addresses of ActiveMQ's clients that hold other addresses.
const COMPOSITE_SCHEMES: [&str; 4] = ["failover:", "static:", "discovery:", "fanout:"];

/// Whether an address holds other addresses; tells so.
pub(super) fn composite_url(at: &At<'_>, out: &mut Collector) -> bool {
    let Some(text) = at.text() else { return false };
    let Some(scheme) = COMPOSITE_SCHEMES.into_iter().find(|scheme| text.starts_with(scheme)) else {
        return false;
    };
    let remedy = "list each broker in `urls`, for example `[\"tcp://a.mq:61616\", \"tcp://b.mq:61616\"]`: when \
                  the one in use fails, the next is taken";
    out.add(Rule::Url, &at.path, format!("is a `{scheme}` address"), remedy);
    true
}

pub(super) fn check(activemq: &At<'_>, out: &mut Collector) {
    let selector = activemq.get("selector");
    listed_once(activemq.get("queues").items(), queue_name, out);
    for at in activemq.get("queues").items() {
        let Some(text) = at.text() else { continue };
        if text.len() > QUEUE_MAX {
            let problem = format!("has {} bytes", text.len());
            let remedy = format!("give a queue's name and options of at most {QUEUE_MAX} bytes together");
            out.add(Rule::Length, &at.path, problem, remedy);
            continue;
        }
        name(&at, queue_name(text), out);
        options(&at, &queue_options(text), selector.is_given(), out);
    }
}

fn name(at: &At<'_>, name: &str, out: &mut Collector) {
    if name.trim().is_empty() || name.len() > NAME_MAX {
        let problem =
            if name.len() > NAME_MAX { format!("has {} bytes", name.len()) } else { "is empty".to_owned() };
        let remedy = format!("give a queue's name of at most {NAME_MAX} bytes");
        return out.add(Rule::Length, &at.path, problem, remedy);
    }
    let shown = shortened(name);
    let (problem, remedy) = if name.contains(['*', '>']) {
        (format!("is \"{shown}\", a wildcard"), "list each of its queues by its name".to_owned())
    } else if name.contains(',') {
        (format!("is \"{shown}\", several queues in one"), "list each queue by its own name".to_owned())
    } else if let Some(plain) = name.strip_prefix(QUEUE_PREFIX) {
        (format!("is \"{shown}\", a queue's address"), format!("write `{}`", shortened(plain)))
    } else if OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        let remedy =
            "name a queue; of a virtual topic `VirtualTopic.X` it is `Consumer.GROUP.VirtualTopic.X`";
        (format!("is \"{shown}\", which is no queue"), remedy.to_owned())
    } else {
        return;
    };
    out.add(Rule::QueueName, &at.path, problem, remedy);
}

fn options(at: &At<'_>, options: &[QueueOption], selected: bool, out: &mut Collector) {
    let mut selectors = 0;
    for option in options {
        match option {
            QueueOption::Selector(selector) => {
                selectors += 1;
                if selectors == 1 {
                    own_selector(at, selector, selected, out);
                }
            }
            QueueOption::Decided(name, instead) => {
                out.add(
                    Rule::QueueOptions,
                    &at.path,
                    format!("has `{name}`"),
                    format!("remove it: {instead}"),
                );
            }
            QueueOption::Unknown(name) => {
                let remedy = match nearest(name, known_options()) {
                    Some(meant) => {
                        format!("perhaps `{meant}` is meant; only `consumer.selector` may be given")
                    }
                    None => "remove it: only `consumer.selector` may be given".to_owned(),
                };
                let problem = format!("has the unknown option `{}`", shortened(name));
                out.add(Rule::QueueOptions, &at.path, problem, remedy);
            }
            QueueOption::Undecodable(name) => {
                let problem = format!("has a `{name}` with a `%` that encodes nothing");
                out.add(
                    Rule::QueueOptions,
                    &at.path,
                    problem,
                    "write `%25` for a `%`, `%26` for a `&`, `%2B` for a `+`",
                );
            }
        }
    }
    if selectors > 1 {
        let problem = format!("has {selectors} times `consumer.selector`");
        out.add(Rule::QueueOptions, &at.path, problem, "keep one, and join them by `AND`");
    }
}

fn own_selector(at: &At<'_>, selector: &str, selected: bool, out: &mut Collector) {
    if selected {
        let remedy =
            "keep one of them: `selector` holds for all queues, and each queue may have its own instead";
        out.add(Rule::OneSelector, &at.path, "has `consumer.selector` beside `selector`", remedy);
    }
    let characters = selector.chars().count();
    if selector.trim().is_empty() || characters > SELECTOR_MAX {
        let problem = if characters > SELECTOR_MAX {
            format!("has a `consumer.selector` of {characters} characters")
        } else {
            "has an empty `consumer.selector`".to_owned()
        };
        let remedy = format!("give a selector of at most {SELECTOR_MAX} characters, or leave it out");
        out.add(Rule::Length, &at.path, problem, remedy);
    }
}
