//! Cases of what the API server holds, and of what the contract's rules hold beyond it.

use lockstep_contract::{Reason, Rule};

use super::{
    Base::{Active, Rabbit, Rocket},
    Bound, Case,
    Held::{Cel, Contract, Schema},
    Refused, When, case, told,
};

const fn cel(rule: &'static str, base: super::Base, keeps: &'static str, breaks: &'static str) -> Case {
    case(Cel(rule), base, keeps, breaks, Refused::ByApiServer)
}

const fn schema(bound: Bound, base: super::Base, keeps: &'static str, breaks: &'static str) -> Case {
    case(Schema(bound), base, keeps, breaks, Refused::ByApiServer)
}

const fn invalid(rule: Rule, base: super::Base, keeps: &'static str, breaks: &'static str) -> Case {
    case(Contract(rule), base, keeps, breaks, Refused::ByOperator(Reason::InvalidSpec))
}

const fn changed(mut case: Case) -> Case {
    case.when = When::Update;
    case
}

#[rustfmt::skip]
pub(super) const CEL: &[Case] = &[
    told(cel("Name", Rocket, "metadata: {name: abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijab}", "metadata: {name: abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabc}"), "metadata.name", "at most 52"),
    told(cel("Name", Rocket, "metadata: {name: a-1}", "metadata: {name: a.b}"), "metadata.name", "without dots"),
    told(cel("OneSource", Rocket, "{}", "spec: {source: {rocketmq: null}}"), "spec.source", "exactly one"),
    told(cel("OneSource", Rocket, "{}", "spec: {source: {activemq: {urls: ['tcp://a:1'], queues: [a]}}}"), "spec.source", "exactly one"),
    told(changed(cel("SourceKindImmutable", Rocket, "spec: {source: {tls: {}}}", "spec: {source: {rocketmq: null, activemq: {urls: ['tcp://a:1'], queues: [a]}}}")), "spec.source", "make a new group"),
    told(cel("RabbitMqUrlTls", Rabbit, "spec: {source: {tls: {}, rabbitmq: {urls: ['amqps://rabbit:5671']}}}", "spec: {source: {rabbitmq: {urls: ['amqps://rabbit:5671']}}}"), "spec.source.rabbitmq.urls", "spec.source.tls"),
    told(cel("RabbitMqUrlTls", Rabbit, "{}", "spec: {source: {tls: {}}}"), "spec.source.rabbitmq.urls", "spec.source.tls"),
    told(cel("ActiveMqUrlTls", Active, "spec: {source: {tls: {mode: Verify}, activemq: {urls: ['ssl://a:1']}}}", "spec: {source: {tls: {mode: Verify}}}"), "spec.source.activemq.urls", "spec.source.tls"),
    told(cel("CredentialsSecretName", Rocket, "spec: {source: {credentialsSecretRef: {name: a.b-1}}}", "spec: {source: {credentialsSecretRef: {name: a_b}}}"), "spec.source.credentialsSecretRef.name", "a Secret's name"),
    told(cel("CaSecretName", Rocket, "spec: {source: {tls: {caSecretRef: {name: ca, key: ca.crt}}}}", "spec: {source: {tls: {caSecretRef: {name: Ca, key: ca.crt}}}}"), "spec.source.tls.caSecretRef.name", "a Secret's name"),
    told(cel("CaSecretKey", Rocket, "spec: {source: {tls: {caSecretRef: {name: ca, key: .ca}}}}", "spec: {source: {tls: {caSecretRef: {name: ca, key: ..ca}}}}"), "spec.source.tls.caSecretRef.key", "a Secret's key"),
    told(cel("ClientCertSecretName", Rocket, "spec: {source: {tls: {clientCertSecretRef: {name: me}}}}", "spec: {source: {tls: {clientCertSecretRef: {name: me-}}}}"), "spec.source.tls.clientCertSecretRef.name", "a Secret's name"),
    told(cel("NameServer", Rocket, "spec: {source: {rocketmq: {nameServers: ['[::1]:9876', '10.0.0.1:9876', 'a_b.mq.:65535']}}}", "spec: {source: {rocketmq: {nameServers: ['a:1', namesrv]}}}"), "spec.source.rocketmq.nameServers[1]", "host:port"),
    told(cel("NameServer", Rocket, "{}", "spec: {source: {rocketmq: {nameServers: ['a:65536']}}}"), "spec.source.rocketmq.nameServers[0]", "host:port"),
    told(cel("OverriddenAddress", Rocket, "spec: {source: {rocketmq: {addressOverrides: {'10.1.2.3:10911': 'broker.mq:10911'}}}}", "spec: {source: {rocketmq: {addressOverrides: {here: 'broker:1'}}}}"), "spec.source.rocketmq.addressOverrides", "correct the key"),
    told(cel("OverridingAddress", Rocket, "{}", "spec: {source: {rocketmq: {addressOverrides: {'10.1.2.3:10911': broker}}}}"), "spec.source.rocketmq.addressOverrides[10.1.2.3:10911]", "host:port"),
    told(cel("GroupName", Rocket, "spec: {source: {rocketmq: {consumerGroup: 'ns%a|b_c-1'}}}", "spec: {source: {rocketmq: {consumerGroup: a.b}}}"), "spec.source.rocketmq.consumerGroup", "at most 120"),
    told(cel("GroupReserved", Rocket, "spec: {source: {rocketmq: {consumerGroup: TOOLS}}}", "spec: {source: {rocketmq: {consumerGroup: TOOLS_CONSUMER}}}"), "spec.source.rocketmq.consumerGroup", "another name"),
    told(changed(cel("GroupImmutable", Rocket, "spec: {replicas: 2}", "spec: {source: {rocketmq: {consumerGroup: others}}}")), "spec.source.rocketmq.consumerGroup", "make a new group"),
    told(cel("SubscriptionsOnce", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a}, {topic: b}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a}, {topic: a}]}}}"), "spec.source.rocketmq.subscriptions", "remove one"),
    told(cel("TopicName", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: '%DLQ%orders'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a b}]}}}"), "spec.source.rocketmq.subscriptions[0].topic", "at most 127"),
    told(cel("TopicReserved", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: TBW}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: TBW102}]}}}"), "spec.source.rocketmq.subscriptions[0].topic", "another one"),
    told(cel("TopicRetry", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: RETRY}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: '%RETRY%shop-orders'}]}}}"), "spec.source.rocketmq.subscriptions[0].topic", "without being listed"),
    told(cel("OneFilter", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: b = 1}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: b = 1, tags: x}]}}}"), "spec.source.rocketmq.subscriptions[0]", "keep one"),
    told(cel("Tags", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: '*'}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: x | y}]}}}"), "spec.source.rocketmq.subscriptions[0].tags", "parted by"),
    told(cel("Tags", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: x||y}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: x||}]}}}"), "spec.source.rocketmq.subscriptions[0].tags", "parted by"),
    told(cel("Tags", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: x *||y}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, tags: x || * ||y}]}}}"), "spec.source.rocketmq.subscriptions[0].tags", "parted by"),
    told(cel("SqlNotBlank", Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: b = 1}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: ' '}]}}}"), "spec.source.rocketmq.subscriptions[0].sql", "blank"),
    told(cel("StartTimeMissing", Rocket, "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: '2026-11-30T08:00:00Z'}}}}", "spec: {source: {rocketmq: {startPosition: {type: Timestamp}}}}"), "spec.source.rocketmq.startPosition.time", "give the moment"),
    told(cel("StartTimeNeedless", Rocket, "spec: {source: {rocketmq: {startPosition: {type: Earliest}}}}", "spec: {source: {rocketmq: {startPosition: {time: '2026-11-30T08:00:00Z'}}}}"), "spec.source.rocketmq.startPosition.time", "remove it"),
    told(cel("RabbitMqUrl", Rabbit, "spec: {source: {rabbitmq: {urls: ['amqp://rabbit', 'amqp://[::1]:5672/']}}}", "spec: {source: {rabbitmq: {urls: ['http://rabbit']}}}"), "spec.source.rabbitmq.urls[0]", "amqp://rabbit.mq:5672"),
    told(cel("RabbitMqUrlCredentials", Rabbit, "{}", "spec: {source: {rabbitmq: {urls: ['amqp://me:secret@rabbit:5672']}}}"), "spec.source.rabbitmq.urls[0]", "into a Secret"),
    told(cel("RabbitMqQueuesOnce", Rabbit, "spec: {source: {rabbitmq: {queues: [a, b]}}}", "spec: {source: {rabbitmq: {queues: [a, a]}}}"), "spec.source.rabbitmq.queues", "remove one"),
    told(cel("RabbitMqQueueNotBlank", Rabbit, "spec: {source: {rabbitmq: {queues: [a b]}}}", "spec: {source: {rabbitmq: {queues: [' ']}}}"), "spec.source.rabbitmq.queues[0]", "blank"),
    told(cel("ManagementUrl", Rabbit, "spec: {source: {rabbitmq: {management: {url: 'http://rabbit:15672'}}}}", "spec: {source: {rabbitmq: {management: {url: rabbit}}}}"), "spec.source.rabbitmq.management.url", "http://rabbit.mq:15672"),
    told(cel("ManagementUrlCredentials", Rabbit, "{}", "spec: {source: {rabbitmq: {management: {url: 'http://me@rabbit:15672'}}}}"), "spec.source.rabbitmq.management.url", "into a Secret"),
    told(cel("ActiveMqUrl", Active, "spec: {source: {activemq: {urls: ['tcp://[::1]:61616/']}}}", "spec: {source: {activemq: {urls: ['tcp://a:0']}}}"), "spec.source.activemq.urls[0]", "tcp://activemq.mq:61616"),
    told(cel("ActiveMqUrlCredentials", Active, "{}", "spec: {source: {activemq: {urls: ['tcp://me@a:1']}}}"), "spec.source.activemq.urls[0]", "into a Secret"),
    told(cel("ActiveMqQueueNotBlank", Active, "spec: {source: {activemq: {queues: [a]}}}", "spec: {source: {activemq: {queues: [' ']}}}"), "spec.source.activemq.queues[0]", "blank"),
    told(cel("ActiveMqQueueName", Active, "spec: {source: {activemq: {queues: ['orders::eu', Consumer.shop.VirtualTopic.orders]}}}", "spec: {source: {activemq: {queues: ['orders.>']}}}"), "spec.source.activemq.queues[0]", "by itself"),
    told(cel("ActiveMqQueueName", Active, "spec: {source: {activemq: {queues: [\"a?consumer.selector=b * 2 > 1 AND c IN ('x', 'y')\"]}}}", "spec: {source: {activemq: {queues: ['a,b']}}}"), "spec.source.activemq.queues[0]", "by itself"),
    told(cel("ActiveMqQueueName", Active, "{}", "spec: {source: {activemq: {queues: ['queue://a?consumer.selector=b = 1']}}}"), "spec.source.activemq.queues[0]", "queue://"),
    told(cel("KeyHeaderMissing", Rocket, "spec: {ordering: {key: {from: Header, header: customer}}}", "spec: {ordering: {key: {from: Header}}}"), "spec.ordering.key.header", "give the name"),
    told(cel("KeyHeaderNeedless", Rocket, "spec: {ordering: {key: {from: Native}}}", "spec: {ordering: {key: {header: customer}}}"), "spec.ordering.key.header", "remove it"),
    told(cel("ContainerName", Rocket, "spec: {delivery: {containerName: app}}", "spec: {delivery: {containerName: App}}"), "spec.delivery.containerName", "a container's name"),
    told(cel("Host", Rocket, "spec: {delivery: {host: '::1'}}", "spec: {delivery: {host: 'localhost:8080'}}"), "spec.delivery.host", "fields"),
    told(cel("Port", Rocket, "spec: {delivery: {port: http}}", "spec: {delivery: {port: '8080'}}"), "spec.delivery.port", "without quotes"),
    told(cel("Port", Rocket, "spec: {delivery: {port: 65535}}", "spec: {delivery: {port: 65536}}"), "spec.delivery.port", "from 1 to 65535"),
    told(cel("Port", Rocket, "spec: {delivery: {port: 1}}", "spec: {delivery: {port: 0}}"), "spec.delivery.port", "from 1 to 65535"),
    told(cel("Path", Rocket, "spec: {delivery: {path: '/a/b?c=[d]&e=%20'}}", "spec: {delivery: {path: messages}}"), "spec.delivery.path", "begin with '/'"),
    told(cel("HealthPath", Rocket, "spec: {delivery: {healthCheck: {path: /healthz}}}", "spec: {delivery: {healthCheck: {path: /a b}}}"), "spec.delivery.healthCheck.path", "begin with '/'"),
    told(cel("ContentType", Rocket, "spec: {delivery: {contentType: text/plain; charset=utf-8}}", "spec: {delivery: {contentType: json}}"), "spec.delivery.contentType", "application/json"),
    told(cel("HeadersSecretName", Rocket, "spec: {delivery: {headersSecretRef: {name: a.b}}}", "spec: {delivery: {headersSecretRef: {name: a..b}}}"), "spec.delivery.headersSecretRef.name", "a Secret's name"),
    told(cel("SigningSecretName", Rocket, "spec: {delivery: {signing: {secretRefs: [{name: a, key: k_1}]}}}", "spec: {delivery: {signing: {secretRefs: [{name: A, key: k}]}}}"), "spec.delivery.signing.secretRefs[0].name", "a Secret's name"),
    told(cel("SigningSecretKey", Rocket, "{}", "spec: {delivery: {signing: {secretRefs: [{name: a, key: k/1}]}}}"), "spec.delivery.signing.secretRefs[0].key", "a Secret's key"),
    told(cel("StatusInOneList", Rocket, "spec: {delivery: {statusCodes: {done: [409], again: [404]}}}", "spec: {delivery: {statusCodes: {done: [409], again: [409]}}}"), "spec.delivery.statusCodes", "keep it in one"),
    told(cel("DoneOnce", Rocket, "spec: {delivery: {statusCodes: {done: [409, 410]}}}", "spec: {delivery: {statusCodes: {done: [409, 409]}}}"), "spec.delivery.statusCodes.done", "remove one"),
    told(cel("AgainOnce", Rocket, "spec: {delivery: {statusCodes: {again: [409, 410]}}}", "spec: {delivery: {statusCodes: {again: [409, 409]}}}"), "spec.delivery.statusCodes.again", "remove one"),
    told(cel("NeverOnce", Rocket, "spec: {delivery: {statusCodes: {never: [409, 410]}}}", "spec: {delivery: {statusCodes: {never: [409, 409]}}}"), "spec.delivery.statusCodes.never", "remove one"),
    told(cel("MisconfiguredOnce", Rocket, "spec: {delivery: {statusCodes: {misconfigured: [409, 410]}}}", "spec: {delivery: {statusCodes: {misconfigured: [409, 409]}}}"), "spec.delivery.statusCodes.misconfigured", "remove one"),
    told(cel("AgainNoSuccess", Rocket, "spec: {delivery: {statusCodes: {done: [204]}}}", "spec: {delivery: {statusCodes: {again: [202]}}}"), "spec.delivery.statusCodes.again", "2xx"),
    told(cel("NeverNoSuccess", Rocket, "spec: {delivery: {statusCodes: {never: [300]}}}", "spec: {delivery: {statusCodes: {never: [299]}}}"), "spec.delivery.statusCodes.never", "2xx"),
    told(cel("MisconfiguredNoSuccess", Rocket, "spec: {delivery: {statusCodes: {misconfigured: [199]}}}", "spec: {delivery: {statusCodes: {misconfigured: [200]}}}"), "spec.delivery.statusCodes.misconfigured", "2xx"),
    told(cel("BackoffOrder", Rocket, "spec: {retry: {backoff: {initialMilliseconds: 1000, maxSeconds: 1}}}", "spec: {retry: {backoff: {initialMilliseconds: 1001, maxSeconds: 1}}}"), "spec.retry.backoff.initialMilliseconds", "raise maxSeconds"),
    told(cel("DrainTimeout", Rocket, "spec: {drain: {timeoutSeconds: 30}}", "spec: {drain: {timeoutSeconds: 29}}"), "spec.drain.timeoutSeconds", "shorter than one attempt"),
    told(cel("DeadLetterPolicy", Rocket, "spec: {deadLetter: {policy: Broker}}", "spec: {deadLetter: {policy: Queue, name: dead}}"), "spec.deadLetter.policy", "policy: Broker"),
    told(cel("DeadLetterNameMissing", Rabbit, "spec: {deadLetter: {policy: Queue, name: dead}}", "spec: {deadLetter: {policy: Queue}}"), "spec.deadLetter.name", "give the queue's name"),
    told(cel("DeadLetterNameNeedless", Rabbit, "spec: {deadLetter: {policy: Broker}}", "spec: {deadLetter: {name: dead}}"), "spec.deadLetter.name", "remove it"),
    told(cel("DeadLetterLoop", Rabbit, "spec: {deadLetter: {policy: Queue, name: dead}}", "spec: {source: {rabbitmq: {queues: [a, dead]}}, deadLetter: {policy: Queue, name: dead}}"), "spec.deadLetter.name", "another queue"),
    told(cel("AcknowledgementTimeout", Rabbit, "spec: {delivery: {timeoutSeconds: 900}}", "spec: {delivery: {timeoutSeconds: 901}}"), "spec.source.rabbitmq.acknowledgementTimeoutSeconds", "two attempts"),
    told(cel("AcknowledgementTimeout", Rabbit, "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 60}}}", "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 60}}, delivery: {timeoutSeconds: 31}}"), "spec.source.rabbitmq.acknowledgementTimeoutSeconds", "consumer_timeout"),
    told(cel("PortClash", Rocket, "spec: {delivery: {port: 15464}, sidecar: {adminPort: 15465}}", "spec: {delivery: {port: 15464}}"), "spec.sidecar.adminPort", "a port of its own"),
    told(cel("HostNetwork", Rocket, "spec: {template: {spec: {hostNetwork: false}}}", "spec: {template: {spec: {hostNetwork: true}}}"), "spec.template.spec.hostNetwork", "remove it"),
    told(cel("RestartPolicy", Rocket, "spec: {template: {spec: {restartPolicy: Always}}}", "spec: {template: {spec: {restartPolicy: Never}}}"), "spec.template.spec.restartPolicy", "must be Always"),
    told(cel("ActiveDeadline", Rocket, "spec: {template: {spec: {terminationGracePeriodSeconds: 60}}}", "spec: {template: {spec: {activeDeadlineSeconds: 60}}}"), "spec.template.spec.activeDeadlineSeconds", "remove it"),
    told(cel("EphemeralContainers", Rocket, "spec: {template: {spec: {ephemeralContainers: []}}}", "spec: {template: {spec: {ephemeralContainers: [{name: debug}]}}}"), "spec.template.spec.ephemeralContainers", "kubectl debug"),
    told(cel("Os", Rocket, "spec: {template: {spec: {os: {name: linux}}}}", "spec: {template: {spec: {os: {name: windows}}}}"), "spec.template.spec.os.name", "must be linux"),
];

#[rustfmt::skip]
pub(super) const SCHEMA: &[Case] = &[
    told(schema(Bound::Required, Rocket, "{}", "spec: {source: {rocketmq: {consumerGroup: null}}}"), "spec.source.rocketmq.consumerGroup", "Required"),
    told(schema(Bound::Required, Rocket, "{}", "spec: {template: null}"), "spec.template", "Required"),
    told(schema(Bound::Required, Rocket, "{}", "spec: {template: {spec: null}}"), "spec.template.spec", "Required"),
    told(schema(Bound::Type, Rocket, "spec: {retry: {maxAttempts: 3}}", "spec: {retry: {maxAttempts: many}}"), "spec.retry.maxAttempts", "must be of type integer"),
    told(schema(Bound::Type, Rabbit, "{}", "spec: {source: {rabbitmq: {queues: orders}}}"), "spec.source.rabbitmq.queues", "must be of type array"),
    told(schema(Bound::Whole, Rocket, "spec: {delivery: {timeoutSeconds: 2}}", "spec: {delivery: {timeoutSeconds: 1.5}}"), "spec.delivery.timeoutSeconds", "must be of type integer"),
    told(schema(Bound::Type, Rocket, "spec: {delivery: {timeoutSeconds: 20}}", "spec: {delivery: {timeoutSeconds: 20s}}"), "spec.delivery.timeoutSeconds", "must be of type integer"),
    told(schema(Bound::Enum, Rocket, "spec: {state: Paused}", "spec: {state: paused}"), "spec.state", "Paused"),
    told(schema(Bound::Enum, Rocket, "spec: {sidecar: {logLevel: debug}}", "spec: {sidecar: {logLevel: loud}}"), "spec.sidecar.logLevel", "debug"),
    told(schema(Bound::Enum, Rocket, "spec: {podDisruptionBudget: None}", "spec: {podDisruptionBudget: none}"), "spec.podDisruptionBudget", "Managed"),
    told(schema(Bound::Enum, Rocket, "spec: {retry: {whenExhausted: Skip}}", "spec: {retry: {whenExhausted: Drop}}"), "spec.retry.whenExhausted", "DeadLetter"),
    told(schema(Bound::Minimum, Rocket, "spec: {template: {spec: {terminationGracePeriodSeconds: 0}}}", "spec: {template: {spec: {terminationGracePeriodSeconds: -1}}}"), "spec.template.spec.terminationGracePeriodSeconds", "greater than or equal to 0"),
    told(schema(Bound::Minimum, Rocket, "spec: {replicas: 0}", "spec: {replicas: -1}"), "spec.replicas", "greater than or equal to 0"),
    told(schema(Bound::Minimum, Rocket, "spec: {sidecar: {adminPort: 1024}}", "spec: {sidecar: {adminPort: 1023}}"), "spec.sidecar.adminPort", "greater than or equal to 1024"),
    told(schema(Bound::Minimum, Rocket, "spec: {source: {rocketmq: {lockLifetimeSeconds: 6}}}", "spec: {source: {rocketmq: {lockLifetimeSeconds: 5}}}"), "spec.source.rocketmq.lockLifetimeSeconds", "greater than or equal to 6"),
    told(schema(Bound::Minimum, Rabbit, "spec: {source: {rabbitmq: {heartbeatSeconds: 10}}}", "spec: {source: {rabbitmq: {heartbeatSeconds: 9}}}"), "spec.source.rabbitmq.heartbeatSeconds", "greater than or equal to 10"),
    told(schema(Bound::Maximum, Rabbit, "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 86400}}}", "spec: {source: {rabbitmq: {acknowledgementTimeoutSeconds: 86401}}}"), "spec.source.rabbitmq.acknowledgementTimeoutSeconds", "less than or equal to 86400"),
    told(schema(Bound::Enum, Rabbit, "spec: {source: {rabbitmq: {ownership: Assumed}}}", "spec: {source: {rabbitmq: {ownership: assumed}}}"), "spec.source.rabbitmq.ownership", "Verified"),
    told(schema(Bound::Maximum, Rocket, "spec: {delivery: {maxInFlight: 1024}}", "spec: {delivery: {maxInFlight: 1025}}"), "spec.delivery.maxInFlight", "less than or equal to 1024"),
    told(schema(Bound::Maximum, Rocket, "spec: {delivery: {statusCodes: {done: [599]}}}", "spec: {delivery: {statusCodes: {done: [600]}}}"), "spec.delivery.statusCodes.done[0]", "less than or equal to 599"),
    told(schema(Bound::MinItems, Rocket, "{}", "spec: {source: {rocketmq: {subscriptions: []}}}"), "spec.source.rocketmq.subscriptions", "at least 1 items"),
    told(schema(Bound::MinItems, Rocket, "{}", "spec: {template: {spec: {containers: []}}}"), "spec.template.spec.containers", "at least 1 items"),
    told(schema(Bound::MaxItems, Rocket, "spec: {source: {rocketmq: {nameServers: ['a:1']}}}", "spec: {source: {rocketmq: {nameServers: ['a:1', 'a:2', 'a:3', 'a:4', 'a:5', 'a:6', 'a:7', 'a:8', 'a:9', 'a:10', 'a:11', 'a:12', 'a:13', 'a:14', 'a:15', 'a:16', 'a:17']}}}"), "spec.source.rocketmq.nameServers", "at most 16"),
    told(schema(Bound::MinLength, Rabbit, "spec: {source: {rabbitmq: {vhost: shop}}}", "spec: {source: {rabbitmq: {vhost: ''}}}"), "spec.source.rabbitmq.vhost", "at least 1 chars"),
    told(schema(Bound::MinLength, Active, "spec: {source: {activemq: {selector: a = 1}}}", "spec: {source: {activemq: {selector: ''}}}"), "spec.source.activemq.selector", "at least 1 chars"),
    told(schema(Bound::MaxLength, Rocket, "spec: {ordering: {key: {from: Header, header: customer}}}", "spec: {ordering: {key: {from: Header, header: LONG}}}"), "spec.ordering.key.header", "255"),
    told(schema(Bound::MaxProperties, Rocket, "spec: {source: {rocketmq: {addressOverrides: {'a:1': 'b:1'}}}}", "spec: {source: {rocketmq: {addressOverrides: {'a:1': 'b:1', 'a:2': 'b:1', 'a:3': 'b:1', 'a:4': 'b:1', 'a:5': 'b:1', 'a:6': 'b:1', 'a:7': 'b:1', 'a:8': 'b:1', 'a:9': 'b:1', 'a:10': 'b:1', 'a:11': 'b:1', 'a:12': 'b:1', 'a:13': 'b:1', 'a:14': 'b:1', 'a:15': 'b:1', 'a:16': 'b:1', 'a:17': 'b:1', 'a:18': 'b:1', 'a:19': 'b:1', 'a:20': 'b:1', 'a:21': 'b:1', 'a:22': 'b:1', 'a:23': 'b:1', 'a:24': 'b:1', 'a:25': 'b:1', 'a:26': 'b:1', 'a:27': 'b:1', 'a:28': 'b:1', 'a:29': 'b:1', 'a:30': 'b:1', 'a:31': 'b:1', 'a:32': 'b:1', 'a:33': 'b:1', 'a:34': 'b:1', 'a:35': 'b:1', 'a:36': 'b:1', 'a:37': 'b:1', 'a:38': 'b:1', 'a:39': 'b:1', 'a:40': 'b:1', 'a:41': 'b:1', 'a:42': 'b:1', 'a:43': 'b:1', 'a:44': 'b:1', 'a:45': 'b:1', 'a:46': 'b:1', 'a:47': 'b:1', 'a:48': 'b:1', 'a:49': 'b:1', 'a:50': 'b:1', 'a:51': 'b:1', 'a:52': 'b:1', 'a:53': 'b:1', 'a:54': 'b:1', 'a:55': 'b:1', 'a:56': 'b:1', 'a:57': 'b:1', 'a:58': 'b:1', 'a:59': 'b:1', 'a:60': 'b:1', 'a:61': 'b:1', 'a:62': 'b:1', 'a:63': 'b:1', 'a:64': 'b:1', 'a:65': 'b:1'}}}}"), "spec.source.rocketmq.addressOverrides", "64"),
    told(schema(Bound::Format, Rocket, "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: '2026-11-30T08:00:00+01:00'}}}}", "spec: {source: {rocketmq: {startPosition: {type: Timestamp, time: yesterday}}}}"), "spec.source.rocketmq.startPosition.time", "date-time"),
    told(schema(Bound::Type, Rocket, "spec: {template: {spec: {containers: [{name: app, image: app, resources: {requests: {cpu: 1, memory: 64Mi}}}]}}}", "spec: {template: {spec: {containers: [{name: app, resources: {requests: {cpu: [1]}}}]}}}"), "spec.template.spec.containers[0].resources.requests.cpu", "must be of type"),
    told(schema(Bound::Known, Rocket, "spec: {retry: {maxAttempts: 3}}", "spec: {retry: {maxAttempt: 3}}"), "spec.retry.maxAttempt", "unknown field"),
    told(schema(Bound::Known, Rocket, "spec: {template: {metadata: {annotations: {a: b}}}}", "spec: {template: {metadata: {finalizers: [a]}}}"), "spec.template.metadata.finalizers", "unknown field"),
];

#[rustfmt::skip]
pub(super) const OPERATOR: &[Case] = &[
    told(invalid(Rule::Address, Rocket, "{}", "spec: {source: {rocketmq: {nameServers: ['[::::]:9876']}}}"), "spec.source.rocketmq.nameServers[0]", "host:port"),
    told(invalid(Rule::Url, Rabbit, "{}", "spec: {source: {rabbitmq: {urls: ['amqp://[::::]:5672']}}}"), "spec.source.rabbitmq.urls[0]", "write it like"),
    told(invalid(Rule::ListedOnce, Active, "spec: {source: {activemq: {queues: [a, b]}}}", "spec: {source: {activemq: {queues: [a, 'a?consumer.selector=b = 1']}}}"), "spec.source.activemq.queues[1]", "remove one"),
    told(invalid(Rule::QueueOptions, Active, "spec: {source: {activemq: {queues: ['a?consumer.selector=b = 1']}}}", "spec: {source: {activemq: {queues: ['a?consumer.prefetchSize=1']}}}"), "spec.source.activemq.queues[0]", "delivery.maxInFlight"),
    told(invalid(Rule::QueueOptions, Active, "{}", "spec: {source: {activemq: {queues: ['a?consumer.exclusive=true']}}}"), "spec.source.activemq.queues[0]", "ordering.mode"),
    told(invalid(Rule::QueueOptions, Active, "{}", "spec: {source: {activemq: {queues: ['a?jms.x=true']}}}"), "spec.source.activemq.queues[0]", "jms.x"),
    told(invalid(Rule::OneSelector, Active, "spec: {source: {activemq: {selector: b = 1}}}", "spec: {source: {activemq: {queues: ['a?consumer.selector=b = 1'], selector: b = 1}}}"), "spec.source.activemq.queues[0]", "keep one"),
    told(invalid(Rule::Host, Rocket, "spec: {delivery: {host: '[::1]'}}", "spec: {delivery: {host: '[::::]'}}"), "spec.delivery.host", "host's name or address"),
    told(invalid(Rule::Length, Rocket, "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: \"b = 'é'\"}]}}}", "spec: {source: {rocketmq: {subscriptions: [{topic: a, sql: \"b = 'LONG'\"}]}}}"), "spec.source.rocketmq.subscriptions[0].sql", "at most 4096 bytes"),
];
