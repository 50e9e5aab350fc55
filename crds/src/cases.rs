//! Every rule of the resource with manifests that keep it and manifests that break it: one table for the tests in
//! this crate, and against a real API server with the operator beside it. Feature `cases`.

mod rules;
mod template;

use std::fmt;

use lockstep_contract::{Reason, Rule};
use serde_json::Value;

/// The rule that a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The one of [`crate::CEL_RULES`] with that name.
    Cel(&'static str),
    /// What the schema's types and bounds hold.
    Schema(Bound),
    /// A rule of the contract that neither the schema nor CEL can hold, so that the operator does.
    Contract(Rule),
    /// A rule of the pod template that only the operator holds.
    Template(TemplateRule),
    /// A rule of fields of the spec that only the operator holds.
    Spec(SpecRule),
    /// A member of a list that Kubernetes tells apart by a key, which the operator holds.
    Once(Keyed),
    /// A rule of several objects, which only the operator holds.
    Beside(BesideRule),
    /// A rule that Kubernetes holds and the operator tells of.
    Told(ToldRule),
}

/// Declares an enum together with the list of all.
macro_rules! listed {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $word,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];
        }
    };
}

listed! {
    /// Kinds of bounds that the schema holds.
    Bound {
        /// A field must be there.
        Required,
        /// A value has its field's type.
        Type,
        /// A number is whole.
        Whole,
        /// A word is a known one.
        Enum,
        /// A number is not too small.
        Minimum,
        /// A number is not too large.
        Maximum,
        /// A list is not too short.
        MinItems,
        /// A list is not too long.
        MaxItems,
        /// A text is not too short.
        MinLength,
        /// A text is not too long.
        MaxLength,
        /// A mapping is not too large.
        MaxProperties,
        /// A moment is one.
        Format,
        /// A field is known; the API server says so when it is asked to (`fieldValidation=Strict`, kubectl's default).
        Known,
    }
}

listed! {
    /// Rules of the pod template that only the operator holds. Their reason is `InvalidTemplate`.
    TemplateRule {
        /// No container is called like the sidecar.
        ContainerName,
        /// No init container is called like the sidecar.
        InitContainerName,
        /// No volume is called like one of the sidecar's.
        VolumeName,
        /// `delivery.containerName` is a container.
        ContainerThere,
        /// A named `delivery.port` is a port of that container.
        PortThere,
        /// `delivery.port`, given by name, is not the sidecar's.
        PortClash,
        /// No container's port is the sidecar's.
        ContainerPort,
        /// No container takes the sidecar's port of the node.
        HostPort,
        /// No label contradicts those that Lockstep sets.
        Labels,
        /// No annotation is one of Lockstep's own.
        Annotations,
    }
}

listed! {
    /// Rules of the spec that only the operator holds.
    SpecRule {
        /// A given image of the sidecar is not blank.
        SidecarImage,
    }
}

listed! {
    /// Lists of the pod template with a key. Server-side apply answers one that is given twice with an internal error.
    Keyed {
        /// Containers of all kinds, by name.
        Container,
        /// Variables of a container, by name.
        Variable,
        /// Ports of a container, by number and protocol.
        Port,
        /// Mounts of a container, by path.
        Mount,
        /// Devices of a container, by path.
        Device,
        /// Claims that a container uses, by name.
        ContainerClaim,
        /// Claims that the pod uses, by name.
        PodClaim,
        /// Volumes, by name.
        Volume,
        /// Aliases of hosts, by IP.
        HostAlias,
        /// Secrets to pull images with, by name.
        PullSecret,
        /// Claims of resources, by name.
        ResourceClaim,
        /// Scheduling gates, by name.
        Gate,
        /// Constraints of the spread, by topology key and what follows from it.
        Spread,
    }
}

listed! {
    /// Rules of several objects.
    BesideRule {
        /// One group of a namespace consumes as one consumer group.
        OneGroup,
        /// The group's Deployment is its own.
        DeploymentOwned,
        /// The group's ConfigMap is its own.
        ConfigMapOwned,
        /// The group's PodDisruptionBudget is its own.
        DisruptionBudgetOwned,
    }
}

listed! {
    /// Rules that Kubernetes holds when the operator has made its children.
    ToldRule {
        /// The API server takes the children. The reason is `ChildRefused`.
        ChildTaken,
        /// The kubelet can read the names of images. The reason is `InvalidTemplate`.
        ImageName,
    }
}

/// Who refuses a case's failing manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The API server, as invalid.
    ByApiServer,
    /// The operator, by `Stalled=True` with that reason.
    ByOperator(Reason),
}

/// What a case's texts are laid over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// A RocketMQ group.
    Rocket,
    /// A RabbitMQ group.
    Rabbit,
    /// An ActiveMQ group.
    Active,
}

/// When a case's manifests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// They are created.
    Create,
    /// The base is created, and then changed to them.
    Update,
}

/// One rule with a manifest that keeps it and one that breaks it and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The rule.
    pub held: Held,
    /// What both are laid over.
    pub base: Base,
    /// Whether the rule is about a change.
    pub when: When,
    keeps: &'static str,
    breaks: &'static str,
    beside: &'static str,
    /// Who refuses the broken one.
    pub refused: Refused,
    /// The field that the refusal names.
    pub field: &'static str,
    /// A part of what the refusal says.
    pub says: &'static str,
}

impl Case {
    /// Every case.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        rules::CEL.iter().chain(rules::SCHEMA).chain(rules::OPERATOR).chain(template::CASES)
    }

    /// The manifest that a change begins with.
    pub fn before(&self) -> Option<Value> {
        (self.when == When::Update).then(|| self.base.manifest())
    }

    /// The manifest that keeps the rule.
    pub fn keeping(&self) -> Value {
        laid(self.base.manifest(), self.keeps)
    }

    /// The manifest that breaks the rule.
    pub fn breaking(&self) -> Value {
        laid(self.base.manifest(), self.breaks)
    }

    /// An object that is in the namespace before, for rules of several objects.
    pub fn beside(&self) -> Option<Value> {
        (!self.beside.is_empty()).then(|| read(self.beside))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}, {})", self.held, self.field, self.breaks)
    }
}

impl Base {
    /// The valid manifest itself.
    pub fn manifest(self) -> Value {
        let source = match self {
            Self::Rocket => {
                "rocketmq: {nameServers: ['rocketmq-namesrv.mq:9876'], consumerGroup: shop-orders, subscriptions: [{topic: orders, tags: created || paid}]}"
            }
            Self::Rabbit => "rabbitmq: {urls: ['amqp://rabbit.mq:5672'], queues: [orders-0, orders-1]}",
            Self::Active => "activemq: {urls: ['tcp://activemq.mq:61616'], queues: [orders]}",
        };
        read(&format!(
            "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: orders}}
spec:
  source: {{{source}}}
  template:
    metadata: {{labels: {{app: orders}}}}
    spec: {{containers: [{{name: app, image: 'registry.example/orders:1', ports: [{{name: http, containerPort: 8080}}]}}]}}
"
        ))
    }
}

const fn case(held: Held, base: Base, keeps: &'static str, breaks: &'static str, refused: Refused) -> Case {
    Case { held, base, when: When::Create, keeps, breaks, beside: "", refused, field: "", says: "" }
}

const fn told(mut case: Case, field: &'static str, says: &'static str) -> Case {
    case.field = field;
    case.says = says;
    case
}

/// What stands for a text of [`LONG_CHARACTERS`] in a case.
const LONG: &str = "LONG";
/// Fewer than 4,096 characters, and more bytes than that.
const LONG_CHARACTERS: usize = 2100;

fn read(text: &str) -> Value {
    serde_yaml::from_str(&text.replace(LONG, &"é".repeat(LONG_CHARACTERS)))
        .expect("a case's text must be YAML")
}

/// Lays a text over a manifest; `null` removes, a list replaces.
fn laid(mut base: Value, over: &str) -> Value {
    lay(&mut base, read(over));
    base
}

fn lay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() {
                    base.remove(&key);
                } else {
                    lay(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (base, over) => *base = over,
    }
}
