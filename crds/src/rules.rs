//! What the definition says beyond the types: rules in CEL, which the API server runs when a group is written, and the
//! bounds that it needs to estimate their cost. Their messages name the field and the remedy. Texts are judged here
//! and not by `pattern`, whose message would be a regular expression.

use serde_json::{Value, json};

/// One rule in CEL.
#[derive(Debug, Clone, Copy)]
pub struct CelRule {
    /// Its name, for tests.
    pub id: &'static str,
    /// The schema's node that it is written at, below `spec`: names, `[]` for a list's items, `{}` for a mapping's
    /// values. Empty for the whole object.
    pub at: &'static str,
    /// The expression. `self` is the node's value, `oldSelf` the one before a change.
    pub rule: &'static str,
    /// What the API server answers.
    pub message: &'static str,
    /// The field that is told, relative to `at`; empty for `at` itself.
    pub field: &'static str,
}

macro_rules! host {
    () => {
        r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?)*\.?"
    };
}
macro_rules! port {
    () => {
        "0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9][0-9]|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
    };
}
macro_rules! address {
    () => {
        concat!(r"(", host!(), r"|\[[0-9A-Fa-f:.]+\]):", port!())
    };
}
macro_rules! url {
    ($schemes:literal) => {
        concat!(
            "self.contains('@') || self.matches(r'^(",
            $schemes,
            ")://(",
            host!(),
            r"|\[[0-9A-Fa-f:.]+\])(:",
            port!(),
            ")?/?$')"
        )
    };
}
macro_rules! text {
    ($pattern:expr) => {
        concat!("self.matches(r'^", $pattern, "$')")
    };
}
macro_rules! tag {
    () => {
        r"[^|\pC]*[^|\pC\s][^|\pC]*"
    };
}
macro_rules! listed_once {
    () => {
        "self.all(x, self.exists_one(y, y == x))"
    };
}

const NO_CREDENTIALS: &str = "!self.contains('@')";
const CREDENTIALS: &str =
    "holds a user or a password; put them into a Secret and name it in spec.source.credentialsSecretRef";
const LABEL: &str = text!("[a-z0-9]([-a-z0-9]*[a-z0-9])?");
const SECRET_NAME: &str = text!(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
const SECRET_NAME_TOLD: &str =
    "must be a Secret's name: lower-case letters, digits, '-' and '.', with a letter or digit at either end";
const SECRET_KEY: &str = "self.matches(r'^[-._a-zA-Z0-9]+$') && self != '.' && !self.startsWith('..')";
const SECRET_KEY_TOLD: &str = "must be a Secret's key: letters, digits, '-', '_' and '.'";
const ADDRESS: &str = text!(address!());
const ADDRESS_TOLD: &str =
    "must be host:port, for example 'rocketmq-namesrv.mq:9876', an IPv6 address in brackets";
const PATH: &str = text!(r"/[!$-;=?-\[\]_a-z~]*");
const PATH_TOLD: &str = "must begin with '/' and hold only visible characters without '#', quotes, braces, '|', '\\', '^', '<' and '>'; percent-encode others";
const LISTED_ONCE_TOLD: &str = "lists an entry twice; remove one of the two";
const NOT_BLANK: &str = "self.trim() != ''";
const NOT_BLANK_TOLD: &str = "is blank; give a queue's name";
const NO_SUCCESS: &str = "self.all(code, code < 200 || code > 299)";
const NO_SUCCESS_TOLD: &str = "holds a 2xx, which always means that the message is done; remove it, and let the application answer otherwise when a message is not done";
const ONCE_IN_LIST_TOLD: &str = "holds a status twice; remove one of the two";

const fn rule(id: &'static str, at: &'static str, rule: &'static str, message: &'static str) -> CelRule {
    CelRule { id, at, rule, message, field: "" }
}

const fn told_at(mut rule: CelRule, field: &'static str) -> CelRule {
    rule.field = field;
    rule
}

/// Every rule in CEL.
#[rustfmt::skip]
pub const CEL_RULES: &[CelRule] = &[
    told_at(rule("Name", "", "self.metadata.name.size() <= 52 && self.metadata.name.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "must be at most 52 lower-case letters, digits and '-', so that the names of its pods fit; choose a shorter name without dots"), ".metadata.name"),

    rule("OneSource", "source", "[has(self.rocketmq), has(self.rabbitmq), has(self.activemq)].filter(given, given).size() == 1",
        "must hold exactly one of rocketmq, rabbitmq and activemq; make a group for each source"),
    rule("SourceKindImmutable", "source", "has(self.rocketmq) == has(oldSelf.rocketmq) && has(self.rabbitmq) == has(oldSelf.rabbitmq) && has(self.activemq) == has(oldSelf.activemq)",
        "can't change to another kind of source; make a new group for it"),
    told_at(rule("RabbitMqUrlTls", "source", "!has(self.rabbitmq) || self.rabbitmq.urls.all(url, url.startsWith('amqps://') == has(self.tls))",
        "must all be amqps:// with spec.source.tls, and amqp:// without; change the URLs, or give or remove spec.source.tls"), ".rabbitmq.urls"),
    told_at(rule("ActiveMqUrlTls", "source", "!has(self.activemq) || self.activemq.urls.all(url, url.startsWith('ssl://') == has(self.tls))",
        "must all be ssl:// with spec.source.tls, and tcp:// without; change the URLs, or give or remove spec.source.tls"), ".activemq.urls"),
    rule("CredentialsSecretName", "source.credentialsSecretRef.name", SECRET_NAME, SECRET_NAME_TOLD),
    rule("CaSecretName", "source.tls.caSecretRef.name", SECRET_NAME, SECRET_NAME_TOLD),
    rule("CaSecretKey", "source.tls.caSecretRef.key", SECRET_KEY, SECRET_KEY_TOLD),
    rule("ClientCertSecretName", "source.tls.clientCertSecretRef.name", SECRET_NAME, SECRET_NAME_TOLD),

    rule("NameServer", "source.rocketmq.nameServers.[]", ADDRESS, ADDRESS_TOLD),
    rule("OverriddenAddress", "source.rocketmq.addressOverrides", concat!("self.all(from, from.matches(r'^", address!(), "$'))"),
        "must map host:port to host:port, for example '10.1.2.3:10911': 'rocketmq-broker.mq:10911'; correct the key"),
    rule("OverridingAddress", "source.rocketmq.addressOverrides.{}", ADDRESS, ADDRESS_TOLD),
    rule("GroupName", "source.rocketmq.consumerGroup", text!("[A-Za-z0-9%|_-]{1,120}"),
        "must be at most 120 letters, digits, '%', '|', '_' and '-'; correct the name as it is known to RocketMQ"),
    rule("GroupReserved", "source.rocketmq.consumerGroup", "!(self in ['DEFAULT_CONSUMER', 'TOOLS_CONSUMER', 'SELF_TEST_C_GROUP', 'FILTERSRV_CONSUMER']) && !self.startsWith('rmq_sys_') && !self.startsWith('CID_RMQ_SYS_')",
        "is RocketMQ's own group; choose another name"),
    rule("GroupImmutable", "source.rocketmq.consumerGroup", "self == oldSelf",
        "can't be changed, since positions belong to it; make a new group for it"),
    rule("SubscriptionsOnce", "source.rocketmq.subscriptions", "self.all(x, self.exists_one(y, y.topic == x.topic))",
        "list a topic twice; remove one of the two entries"),
    rule("TopicName", "source.rocketmq.subscriptions.[].topic", text!("[A-Za-z0-9%|_-]{1,127}"),
        "must be at most 127 letters, digits, '%', '|', '_' and '-'; correct the name as it is known to RocketMQ"),
    rule("TopicReserved", "source.rocketmq.subscriptions.[].topic", "!(self in ['TBW102', 'SCHEDULE_TOPIC_XXXX', 'BenchmarkTest', 'RMQ_SYS_TRANS_HALF_TOPIC', 'RMQ_SYS_TRANS_OP_HALF_TOPIC', 'TRANS_CHECK_MAX_TIME_TOPIC', 'SELF_TEST_TOPIC', 'OFFSET_MOVED_EVENT']) && !self.startsWith('rmq_sys_') && !self.startsWith('CID_RMQ_SYS_')",
        "is RocketMQ's own topic; consume another one"),
    rule("TopicRetry", "source.rocketmq.subscriptions.[].topic", "!self.startsWith('%RETRY%')",
        "is a retry topic; remove it: the group's own is consumed without being listed"),
    rule("OneFilter", "source.rocketmq.subscriptions.[]", "!has(self.tags) || !has(self.sql)",
        "has both tags and sql; keep one of them"),
    rule("Tags", "source.rocketmq.subscriptions.[].tags", concat!("self.matches(r'^", tag!(), r"(\|\|", tag!(), r")*$') && !self.matches(r'^\s*\*\s*\|\||\|\|\s*\*\s*(\|\||$)')"),
        "must be tags parted by '||', for example 'created || paid', or '*' alone; leave the field out for all"),
    rule("SqlNotBlank", "source.rocketmq.subscriptions.[].sql", NOT_BLANK,
        "is blank; give an expression, or leave the field out for all"),
    told_at(rule("StartTimeMissing", "source.rocketmq.startPosition", "self.type != 'Timestamp' || has(self.time)",
        "is missing for type Timestamp; give the moment, for example time: '2026-11-30T08:00:00Z'"), ".time"),
    told_at(rule("StartTimeNeedless", "source.rocketmq.startPosition", "self.type == 'Timestamp' || !has(self.time)",
        "is given, but type is not Timestamp; remove it, or write type: Timestamp"), ".time"),

    rule("RabbitMqUrl", "source.rabbitmq.urls.[]", url!("amqps?"), "must be like 'amqp://rabbit.mq:5672' or 'amqps://rabbit.mq:5671', with nothing behind"),
    rule("RabbitMqUrlCredentials", "source.rabbitmq.urls.[]", NO_CREDENTIALS, CREDENTIALS),
    rule("RabbitMqQueuesOnce", "source.rabbitmq.queues", listed_once!(), LISTED_ONCE_TOLD),
    rule("RabbitMqQueueNotBlank", "source.rabbitmq.queues.[]", NOT_BLANK, NOT_BLANK_TOLD),
    rule("ManagementUrl", "source.rabbitmq.management.url", url!("https?"), "must be like 'http://rabbit.mq:15672', with nothing behind"),
    rule("ManagementUrlCredentials", "source.rabbitmq.management.url", NO_CREDENTIALS, CREDENTIALS),

    rule("ActiveMqUrl", "source.activemq.urls.[]", url!("tcp|ssl"), "must be like 'tcp://activemq.mq:61616' or 'ssl://activemq.mq:61617', with nothing behind; list each broker of a failover:(...) by itself"),
    rule("ActiveMqUrlCredentials", "source.activemq.urls.[]", NO_CREDENTIALS, CREDENTIALS),
    rule("ActiveMqQueueNotBlank", "source.activemq.queues.[]", NOT_BLANK, NOT_BLANK_TOLD),
    // What may stand behind the '?' is judged by the contract, which names the field that says it.
    rule("ActiveMqQueueName", "source.activemq.queues.[]", r"!self.matches(r'^[^?]*([*>,]|://)')",
        "must be one queue's name; list each queue of a wildcard ('*', '>') or of a list with commas by itself, and write no 'queue://'"),

    told_at(rule("KeyHeaderMissing", "ordering.key", "self.from != 'Header' || has(self.header)",
        "is missing for from: Header; give the name of the message property that holds the key"), ".header"),
    told_at(rule("KeyHeaderNeedless", "ordering.key", "self.from == 'Header' || !has(self.header)",
        "is given, but from is not Header; remove it, or write from: Header"), ".header"),

    rule("ContainerName", "delivery.containerName", LABEL,
        "must be a container's name: lower-case letters, digits and '-', with a letter or digit at either end"),
    rule("Host", "delivery.host", concat!("isIP(self) || self.matches(r'^(", host!(), r"|\[[0-9A-Fa-f:.]+\])$')"),
        "must be a host's name or address alone, for example 'localhost'; port and path have their own fields"),
    // A number is not equal to its text; there is no other way to tell the two apart that every evaluator knows.
    rule("Port", "delivery.port", concat!("self != string(self) ? string(self).matches(r'^", port!(), "$') : (size(string(self)) <= 15 && string(self).matches(r'^[a-z0-9-]*[a-z][a-z0-9-]*$') && !string(self).matches(r'^-|-$|--'))"),
        "must be a number from 1 to 65535 without quotes, or the name of a container port: at most 15 lower-case letters, digits and '-'"),
    rule("Path", "delivery.path", PATH, PATH_TOLD),
    rule("HealthPath", "delivery.healthCheck.path", PATH, PATH_TOLD),
    rule("ContentType", "delivery.contentType", text!(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(;[ -~]*)?"),
        "must be like 'application/json'"),
    rule("HeadersSecretName", "delivery.headersSecretRef.name", SECRET_NAME, SECRET_NAME_TOLD),
    rule("SigningSecretName", "delivery.signing.secretRefs.[].name", SECRET_NAME, SECRET_NAME_TOLD),
    rule("SigningSecretKey", "delivery.signing.secretRefs.[].key", SECRET_KEY, SECRET_KEY_TOLD),
    rule("StatusInOneList", "delivery.statusCodes", "!self.done.exists(c, c in self.again || c in self.never || c in self.misconfigured) && !self.again.exists(c, c in self.never || c in self.misconfigured) && !self.never.exists(c, c in self.misconfigured)",
        "hold a status in two lists; keep it in one"),
    rule("DoneOnce", "delivery.statusCodes.done", listed_once!(), ONCE_IN_LIST_TOLD),
    rule("AgainOnce", "delivery.statusCodes.again", listed_once!(), ONCE_IN_LIST_TOLD),
    rule("NeverOnce", "delivery.statusCodes.never", listed_once!(), ONCE_IN_LIST_TOLD),
    rule("MisconfiguredOnce", "delivery.statusCodes.misconfigured", listed_once!(), ONCE_IN_LIST_TOLD),
    rule("AgainNoSuccess", "delivery.statusCodes.again", NO_SUCCESS, NO_SUCCESS_TOLD),
    rule("NeverNoSuccess", "delivery.statusCodes.never", NO_SUCCESS, NO_SUCCESS_TOLD),
    rule("MisconfiguredNoSuccess", "delivery.statusCodes.misconfigured", NO_SUCCESS, NO_SUCCESS_TOLD),

    told_at(rule("BackoffOrder", "retry.backoff", "self.initialMilliseconds <= self.maxSeconds * 1000",
        "is longer than the longest wait; lower it, or raise maxSeconds"), ".initialMilliseconds"),
    told_at(rule("DrainTimeout", ".", "!has(self.drain.timeoutSeconds) || self.drain.timeoutSeconds >= self.delivery.timeoutSeconds",
        "is shorter than one attempt; give at least spec.delivery.timeoutSeconds, or leave it out"), ".drain.timeoutSeconds"),
    told_at(rule("DeadLetterPolicy", ".", "self.deadLetter.policy != 'Queue' || has(self.source.rabbitmq)",
        "is Queue, which only RabbitMQ takes; write policy: Broker: RocketMQ and ActiveMQ have their own dead-letter queue"), ".deadLetter.policy"),
    told_at(rule("DeadLetterNameMissing", "deadLetter", "self.policy != 'Queue' || has(self.name)",
        "is missing for policy: Queue; give the queue's name"), ".name"),
    told_at(rule("DeadLetterNameNeedless", "deadLetter", "self.policy == 'Queue' || !has(self.name)",
        "is given for policy: Broker; remove it, or write policy: Queue"), ".name"),
    told_at(rule("DeadLetterLoop", ".", "!has(self.source.rabbitmq) || !has(self.deadLetter.name) || !(self.deadLetter.name in self.source.rabbitmq.queues)",
        "is a queue that the group consumes itself; name another queue"), ".deadLetter.name"),
    told_at(rule("AcknowledgementTimeout", ".", "!has(self.source.rabbitmq) || self.delivery.timeoutSeconds * 2 <= self.source.rabbitmq.acknowledgementTimeoutSeconds",
        "is shorter than two attempts; lower spec.delivery.timeoutSeconds to half of it, or raise consumer_timeout in the broker and this with it"), ".source.rabbitmq.acknowledgementTimeoutSeconds"),
    told_at(rule("PortClash", ".", "self.delivery.port != self.sidecar.adminPort",
        "is the application's port; give the sidecar a port of its own"), ".sidecar.adminPort"),

    told_at(rule("HostNetwork", "template.spec", "!has(self.hostNetwork) || !self.hostNetwork",
        "would open the sidecar's port on the node; remove it"), ".hostNetwork"),
    told_at(rule("RestartPolicy", "template.spec", "!has(self.restartPolicy) || self.restartPolicy == 'Always'",
        "must be Always, since the pods belong to a Deployment; remove it"), ".restartPolicy"),
    told_at(rule("ActiveDeadline", "template.spec", "!has(self.activeDeadlineSeconds)",
        "would end the pods, which belong to a Deployment; remove it"), ".activeDeadlineSeconds"),
    told_at(rule("EphemeralContainers", "template.spec", "!has(self.ephemeralContainers) || size(self.ephemeralContainers) == 0",
        "can't be in a template; remove it, and add them to running pods with kubectl debug"), ".ephemeralContainers"),
    told_at(rule("Os", "template.spec", "!has(self.os) || self.os.name == 'linux'",
        "must be linux, since the sidecar runs on Linux alone; write linux, or remove it"), ".os.name"),
];

/// Bounds that only the API server needs. Texts keep to narrower ones by the rules above and the contract's own.
pub(crate) fn bounds() -> [(&'static str, Value); 26] {
    let secret = json!({ "minLength": 1, "maxLength": 253 });
    let address = json!({ "maxLength": 320 });
    let url = json!({ "maxLength": 340 });
    let queue = json!({ "minLength": 1, "maxLength": 255 });
    // A name, and a selector behind it.
    let queue_and_options = json!({ "minLength": 1, "maxLength": 4608 });
    let text = json!({ "minLength": 1, "maxLength": 4096 });
    let name = json!({ "minLength": 1, "maxLength": 255 });
    let path = json!({ "maxLength": 1024 });
    [
        ("source.credentialsSecretRef.name", secret.clone()),
        ("source.tls.caSecretRef.name", secret.clone()),
        ("source.tls.caSecretRef.key", secret.clone()),
        ("source.tls.clientCertSecretRef.name", secret.clone()),
        ("source.rocketmq.nameServers.[]", address.clone()),
        ("source.rocketmq.addressOverrides", json!({ "maxProperties": 64 })),
        ("source.rocketmq.addressOverrides.{}", address),
        ("source.rocketmq.consumerGroup", name.clone()),
        ("source.rocketmq.subscriptions.[].topic", name),
        ("source.rocketmq.subscriptions.[].tags", text.clone()),
        ("source.rocketmq.subscriptions.[].sql", text),
        ("source.rabbitmq.urls.[]", url.clone()),
        ("source.rabbitmq.queues.[]", queue),
        ("source.rabbitmq.management.url", url.clone()),
        ("source.activemq.urls.[]", url),
        ("source.activemq.queues.[]", queue_and_options),
        ("delivery.containerName", json!({ "maxLength": 63 })),
        ("delivery.host", json!({ "maxLength": 255 })),
        ("delivery.path", path.clone()),
        ("delivery.healthCheck.path", path),
        ("delivery.contentType", json!({ "maxLength": 255 })),
        ("delivery.headersSecretRef.name", secret.clone()),
        ("delivery.signing.secretRefs.[].name", secret.clone()),
        ("delivery.signing.secretRefs.[].key", secret),
        ("template.spec.terminationGracePeriodSeconds", json!({ "minimum": 0 })),
        ("template.spec.containers", json!({ "minItems": 1 })),
    ]
}
