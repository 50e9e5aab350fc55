//! As whom pods take part at a broker. Two groups that do it as one with different subscriptions make the broker forget
//! what either of them subscribes to.

use std::{collections::BTreeSet, fmt};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use lockstep_contract::{SourceKind, names::annotations};
use lockstep_crds::ConsumerGroup;

/// Between the group and its servers, in text; neither holds a blank.
const AT: &str = " at ";

/// A consumer group of RocketMQ, and the name servers that know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    consumer_group: String,
    name_servers: BTreeSet<String>,
}

impl Membership {
    /// As whom a group's pods take part. `None` = alone: the queues of other sources are exclusive one by one, so that a
    /// second consumer waits and takes nothing.
    pub fn of(group: &ConsumerGroup) -> Option<Self> {
        match group.spec.source.kind()? {
            SourceKind::RocketMq(source) => {
                let namespace = group.namespace().unwrap_or_default();
                let servers = source.name_servers.iter().map(|server| full_name(server, &namespace));
                Some(Self { consumer_group: source.consumer_group.clone(), name_servers: servers.collect() })
            }
            SourceKind::RabbitMq(_) | SourceKind::ActiveMq(_) => None,
        }
    }

    /// As whom a pod takes part, as far as it says so.
    pub fn of_pod(pod: &Pod) -> Option<Self> {
        Self::parse(pod.annotations().get(annotations::MEMBER_OF)?)
    }

    /// The inverse of its text.
    pub fn parse(text: &str) -> Option<Self> {
        let (group, servers) = text.split_once(AT)?;
        Some(Self {
            consumer_group: group.to_owned(),
            name_servers: servers.split(',').map(str::to_owned).collect(),
        })
    }

    /// Whether the two go by one name, be it in two clusters.
    pub fn is_namesake(&self, other: &Self) -> bool {
        self.consumer_group == other.consumer_group
    }

    /// Whether the two are one group at one cluster, as far as addresses tell.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_namesake(other) && !self.name_servers.is_disjoint(&other.name_servers)
    }

    /// The group's name at the broker.
    pub fn consumer_group(&self) -> &str {
        &self.consumer_group
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.name_servers.iter().map(String::as_str).collect();
        write!(f, "{}{AT}{}", self.consumer_group, servers.join(","))
    }
}

/// One spelling of the several that a Service's name has.
fn full_name(server: &str, namespace: &str) -> String {
    let server = server.trim().to_ascii_lowercase();
    let (host, port) = server.rsplit_once(':').unwrap_or((&server, ""));
    let host = host.trim_end_matches('.');
    let short = host.strip_suffix(".svc.cluster.local").or_else(|| host.strip_suffix(".svc"));
    let host = short.unwrap_or(host);
    if host.contains(['.', ':']) { format!("{host}:{port}") } else { format!("{host}.{namespace}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::group;

    fn of(servers: &str, name: &str) -> Membership {
        let source = format!("{{rocketmq: {{nameServers: [{servers}], consumerGroup: '{name}'}}}}");
        Membership::of(&group(&format!("spec: {{source: {source}}}"))).unwrap()
    }

    #[test]
    fn it_is_one_group_where_a_server_is_shared_however_it_is_spelt() {
        let own = of("'mq:9876', '10.0.0.1:9876'", "orders");
        for servers in
            ["mq.shop:9876", "MQ.shop.svc:9876", "mq.shop.svc.cluster.local.:9876", "10.0.0.1:9876"]
        {
            assert!(own.is_same(&of(&format!("'a:1', '{servers}'"), "orders")), "{servers}");
            assert!(!own.is_namesake(&of(&format!("'{servers}'"), "other")), "{servers}");
        }
        for servers in ["mq.other:9876", "mq:9877", "10.0.0.2:9876"] {
            let other = of(&format!("'{servers}'"), "orders");
            assert!(own.is_namesake(&other) && !own.is_same(&other), "{servers}");
        }
    }

    #[test]
    fn a_pod_says_it_as_it_was_built() {
        let own = of("'mq:9876', '10.0.0.1:9876'", "%shop|or-ders_1");
        let mut pod = Pod::default();
        assert_eq!(Membership::of_pod(&pod), None);
        pod.metadata.annotations = Some([(annotations::MEMBER_OF.to_owned(), own.to_string())].into());
        assert_eq!(Membership::of_pod(&pod), Some(own));
    }
}
