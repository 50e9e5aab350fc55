//! Rules of `spec.source`, and of what depends on which source it is.

use std::time::Duration;

use super::{At, activemq, listed_once, texts};
use crate::{
    Rule, defaults,
    mistake::Collector,
    words::{number_and_unit, shortened},
};

/// RocketMQ's limits (`Validators`, `TopicValidator`).
const TOPIC_MAX: usize = 127;
const GROUP_MAX: usize = 120;
/// RocketMQ's own topics, which no group may consume.
const RESERVED_TOPICS: [&str; 8] = [
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];
/// Prefixes of RocketMQ's own topics and groups.
const RESERVED_PREFIXES: [&str; 2] = ["rmq_sys_", "CID_RMQ_SYS_"];
/// RocketMQ's own groups, which the broker treats in its own way.
const RESERVED_GROUPS: [&str; 4] =
    ["DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SELF_TEST_C_GROUP", "FILTERSRV_CONSUMER"];

pub(super) fn check(spec: &At<'_>, out: &mut Collector) {
    let source = spec.get("source");
    let kinds = ["rocketmq", "rabbitmq", "activemq"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| source.get(kind).is_given()).collect();
    if source.is_mapping() && given.len() != 1 {
        let (problem, remedy) = match given.as_slice() {
            [] => ("names no source".to_owned(), "give one of rocketmq, rabbitmq, activemq"),
            several => {
                (format!("names {}", several.join(" and ")), "keep one of them; make a group for each source")
            }
        };
        out.add(Rule::OneSource, &source.path, problem, remedy);
    }
    rocketmq(&source.get("rocketmq"), out);
    let tls = source.get("tls").is_given();
    let rabbitmq = source.get("rabbitmq");
    urls(&rabbitmq, ["amqp", "amqps"], "amqp://rabbit.mq:5672", tls, out);
    listed_once(rabbitmq.get("queues").items(), |text| text, out);
    queues(&rabbitmq, out);
    texts::url(&rabbitmq.get("management").get("url"), &["http", "https"], "http://rabbit.mq:15672", out);
    let activemq = source.get("activemq");
    urls(&activemq, ["tcp", "ssl"], "tcp://activemq.mq:61616", tls, out);
    activemq::check(&activemq, out);

    texts::secret_ref(&source.get("credentialsSecretRef"), out);
    texts::secret_ref(&source.get("tls").get("caSecretRef"), out);
    texts::secret_ref(&source.get("tls").get("clientCertSecretRef"), out);
    dead_letter(&spec.get("deadLetter"), rabbitmq.is_given(), out);
    dead_letter_loop(&spec.get("deadLetter"), &rabbitmq, out);
    acknowledgement_timeout(&rabbitmq, &spec.get("delivery").get("timeoutSeconds"), out);
}

fn rocketmq(rocketmq: &At<'_>, out: &mut Collector) {
    for server in rocketmq.get("nameServers").items() {
        if let Some(text) = server.text() {
            texts::address(&server.path, text, out);
        }
    }
    let overrides = rocketmq.get("addressOverrides");
    for (from, to) in overrides.value.and_then(|value| value.as_object()).into_iter().flatten() {
        let path = format!("{}.{from}", overrides.path);
        texts::address(&path, from, out);
        if let Some(to) = to.as_str() {
            texts::address(&path, to, out);
        }
    }
    group_name(&rocketmq.get("consumerGroup"), out);
    let subscriptions = rocketmq.get("subscriptions");
    listed_once(subscriptions.items().map(|subscription| subscription.get("topic")), |text| text, out);
    for subscription in subscriptions.items() {
        topic_name(&subscription.get("topic"), out);
        filter(&subscription, out);
    }
    start(&rocketmq.get("startPosition"), out);
}

fn name_has(text: &str, most: usize) -> bool {
    // The charset of RocketMQ's `TopicValidator`, which holds for groups too.
    let inner = |c: char| c.is_ascii_alphanumeric() || "%|_-".contains(c);
    !text.is_empty() && text.len() <= most && text.chars().all(inner)
}

fn reserved(text: &str, names: &[&str]) -> bool {
    names.contains(&text) || RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

fn group_name(at: &At<'_>, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    if !name_has(text, GROUP_MAX) {
        let remedy = format!("use at most {GROUP_MAX} letters, digits, `%`, `|`, `_` and `-`");
        out.add(Rule::GroupName, &at.path, texts::found(text), remedy);
    } else if reserved(text, &RESERVED_GROUPS) {
        out.add(Rule::GroupName, &at.path, format!("is \"{text}\", RocketMQ's own"), "choose another name");
    }
}

fn topic_name(at: &At<'_>, out: &mut Collector) {
    let Some(text) = at.text() else { return };
    if !name_has(text, TOPIC_MAX) {
        let remedy = format!("use at most {TOPIC_MAX} letters, digits, `%`, `|`, `_` and `-`");
        out.add(Rule::TopicName, &at.path, texts::found(text), remedy);
    } else if reserved(text, &RESERVED_TOPICS) {
        out.add(Rule::TopicName, &at.path, format!("is \"{text}\", RocketMQ's own"), "consume another topic");
    } else if text.starts_with("%RETRY%") {
        let remedy = "remove it: the group's own retry topic is consumed without being listed";
        out.add(Rule::TopicName, &at.path, format!("is \"{text}\", a retry topic"), remedy);
    }
}

fn filter(subscription: &At<'_>, out: &mut Collector) {
    let (tags, sql) = (subscription.get("tags"), subscription.get("sql"));
    if tags.is_given() && sql.is_given() {
        out.add(Rule::OneFilter, &subscription.path, "has both `tags` and `sql`", "keep one of them");
    }
    if let Some(text) = tags.text() {
        // `*` alone is RocketMQ's word for every tag.
        let tag =
            |tag: &str| !tag.trim().is_empty() && !tag.trim().contains(|c: char| c == '|' || c.is_control());
        let star = |tag: &str| tag.trim() == "*";
        if !text.split("||").all(tag) || (text.contains("||") && text.split("||").any(star)) {
            let remedy = "part tags by `||`, for example `created || paid`, or leave the field out for all";
            out.add(Rule::Tags, &tags.path, texts::found(text), remedy);
        }
    }
    if let Some(text) = sql.text().filter(|text| text.trim().is_empty() || text.len() > 4096) {
        let problem =
            if text.len() > 4096 { format!("has {} bytes", text.len()) } else { "is empty".to_owned() };
        out.add(
            Rule::Length,
            &sql.path,
            problem,
            "give an expression of at most 4096 bytes, or leave the field out",
        );
    }
}

fn start(start: &At<'_>, out: &mut Collector) {
    let (kind, time) = (start.get("type").text().unwrap_or("Latest"), start.get("time"));
    match (kind == "Timestamp", time.is_given()) {
        (true, false) => {
            let remedy = "give the moment, for example `time: \"2026-11-30T08:00:00Z\"`";
            out.add(Rule::StartTime, &time.path, "is missing for `type: Timestamp`", remedy);
        }
        (false, true) if ["Latest", "Earliest"].contains(&kind) => {
            let problem = format!("is given for `type: {kind}`");
            out.add(Rule::StartTime, &time.path, problem, "remove it, or write `type: Timestamp`");
        }
        _ => {}
    }
    if let Some(text) = time.text().filter(|text| text.parse::<jiff::Timestamp>().is_err()) {
        let hint = match number_and_unit(text) {
            Some((_, "")) => "write the moment as text",
            _ => "write date, time and zone",
        };
        let remedy = format!("{hint} in RFC 3339, for example `2026-11-30T08:00:00Z`");
        out.add(Rule::Moment, &time.path, format!("is \"{}\"", shortened(text)), remedy);
    }
}

fn urls(kind: &At<'_>, schemes: [&str; 2], example: &str, tls: bool, out: &mut Collector) {
    let [plain, secure] = schemes;
    for at in kind.get("urls").items() {
        if activemq::composite_url(&at, out) {
            continue;
        }
        let Some(scheme) = texts::url(&at, &schemes, example, out) else { continue };
        if scheme == secure && !tls {
            let remedy = format!("give `source.tls: {{mode: Verify}}`, or write `{plain}://`");
            out.add(
                Rule::UrlTls,
                &at.path,
                format!("is a `{secure}://` address without `source.tls`"),
                remedy,
            );
        }
        if scheme == plain && tls {
            let remedy = format!("write `{secure}://`, or remove `source.tls`");
            out.add(Rule::UrlTls, &at.path, format!("is a `{plain}://` address with `source.tls`"), remedy);
        }
    }
}

fn queues(kind: &At<'_>, out: &mut Collector) {
    for at in kind.get("queues").items() {
        let Some(text) = at.text() else { continue };
        // AMQP's short string.
        if text.trim().is_empty() || text.len() > 255 {
            let problem =
                if text.len() > 255 { format!("has {} bytes", text.len()) } else { "is empty".to_owned() };
            out.add(Rule::Length, &at.path, problem, "give a queue's name of at most 255 bytes");
        }
    }
}

/// A consumed queue would bring its dead letters back.
fn dead_letter_loop(dead_letter: &At<'_>, rabbitmq: &At<'_>, out: &mut Collector) {
    let name = dead_letter.get("name");
    let queue = dead_letter.get("policy").text() == Some("Queue");
    let Some(text) = name.text().filter(|_| queue) else { return };
    if rabbitmq.get("queues").items().any(|consumed| consumed.text() == Some(text)) {
        let problem = format!("is \"{}\", which the group consumes itself", shortened(text));
        out.add(Rule::DeadLetterLoop, &name.path, problem, "name another queue");
    }
}

/// One attempt runs, one more waits behind it: less room, and the broker takes messages away that are being worked on.
fn acknowledgement_timeout(rabbitmq: &At<'_>, attempt: &At<'_>, out: &mut Collector) {
    if !rabbitmq.is_given() {
        return;
    }
    let at = rabbitmq.get("acknowledgementTimeoutSeconds");
    let seconds =
        |at: &At<'_>, default: Duration| if at.is_given() { at.number() } else { Some(default.as_secs()) };
    let (Some(within), Some(attempt)) =
        (seconds(&at, defaults::ACKNOWLEDGEMENT_TIMEOUT), seconds(attempt, defaults::TIMEOUT))
    else {
        return;
    };
    if attempt.saturating_mul(2) > within {
        let problem =
            format!("is {within}, shorter than two attempts (`delivery.timeoutSeconds`: {attempt})");
        let remedy = format!(
            "lower delivery.timeoutSeconds to {} or less, or raise consumer_timeout in the broker and this with it",
            within / 2
        );
        out.add(Rule::AcknowledgementTimeout, &at.path, problem, remedy);
    }
}

fn dead_letter(dead_letter: &At<'_>, rabbitmq: bool, out: &mut Collector) {
    let (policy, name) = (dead_letter.get("policy"), dead_letter.get("name"));
    let queue = policy.text() == Some("Queue");
    if queue && !rabbitmq {
        let remedy = "write `policy: Broker`: RocketMQ and ActiveMQ have their own dead-letter queue";
        out.add(Rule::DeadLetterPolicy, &policy.path, "is `Queue`, which only RabbitMQ takes", remedy);
    }
    if queue && !name.is_given() {
        out.add(Rule::DeadLetterName, &name.path, "is missing for `policy: Queue`", "give the queue's name");
    }
    if !queue && name.is_given() && policy.text().is_none_or(|policy| policy == "Broker") {
        let remedy = "remove it, or write `policy: Queue`";
        out.add(Rule::DeadLetterName, &name.path, "is given for `policy: Broker`", remedy);
    }
}
