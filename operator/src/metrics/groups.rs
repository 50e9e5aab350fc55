//! What is shown of each group. It is kept by group and encoded when asked for, so that a deleted group leaves nothing
//! behind.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lockstep_crds::ConsumerGroupStatus;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

/// Namespace and name.
type Id = (String, String);

/// All groups.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    shown: Arc<Mutex<BTreeMap<Id, Shown>>>,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq)]
struct Shown {
    /// Type and status.
    conditions: Vec<(String, String)>,
    wanted: i64,
    ready: i64,
    /// Total, owned, blocked.
    queues: Option<[i64; 3]>,
    backlog: Option<i64>,
    oldest_age: Option<i64>,
}

/// A metric of a group: its name, its help, and its value where the group has one.
type GroupGauge = (&'static str, &'static str, fn(&Shown) -> Option<i64>);

const GAUGES: [GroupGauge; 7] = [
    ("consumergroup_replicas_wanted", "Pods that the spec asks for", |group| Some(group.wanted)),
    ("consumergroup_replicas_ready", "Pods that are ready", |group| Some(group.ready)),
    ("consumergroup_queues", "Queues that the pods know of", |group| group.queues.map(|[total, _, _]| total)),
    ("consumergroup_queues_owned", "Queues that a pod owns", |group| group.queues.map(|[_, owned, _]| owned)),
    ("consumergroup_queues_blocked", "Owned queues that a message holds up", |group| {
        group.queues.map(|[_, _, blocked]| blocked)
    }),
    ("consumergroup_backlog_messages", "Messages that wait, as in the status", |group| group.backlog),
    ("consumergroup_oldest_age_seconds", "Age of the oldest of them, as in the status", |group| {
        group.oldest_age
    }),
];

impl Groups {
    pub(super) fn show(&self, namespace: &str, name: &str, wanted: i32, status: &ConsumerGroupStatus) {
        let conditions = status.conditions.iter().map(|it| (it.type_.clone(), it.status.clone())).collect();
        let queues = status.queues.as_ref();
        let shown = Shown {
            conditions,
            wanted: i64::from(wanted),
            ready: i64::from(status.ready_replicas),
            queues: queues.map(|it| [it.total, it.owned, it.blocked].map(i64::from)),
            backlog: status.backlog.as_ref().map(|it| it.messages),
            oldest_age: status.backlog.as_ref().and_then(|it| it.oldest_age_seconds),
        };
        self.lock().insert((namespace.to_owned(), name.to_owned()), shown);
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Groups {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let shown = self.lock();
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let help = "1 for the status that the condition has";
        let mut family =
            encoder.encode_descriptor("consumergroup_condition", help, None, MetricType::Gauge)?;
        for ((namespace, name), group) in shown.iter() {
            for (condition, status) in &group.conditions {
                *counts.entry((condition, status)).or_default() += 1;
                let labels = [
                    ("namespace", namespace.as_str()),
                    ("name", name),
                    ("condition", condition),
                    ("status", status),
                ];
                family.encode_family(&labels)?.encode_gauge(&1_i64)?;
            }
        }
        for (metric, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(metric, help, None, MetricType::Gauge)?;
            for ((namespace, name), group) in shown.iter() {
                if let Some(value) = value(group) {
                    let labels = [("namespace", namespace.as_str()), ("name", name)];
                    family.encode_family(&labels)?.encode_gauge(&value)?;
                }
            }
        }
        let help = "Groups by condition and status";
        let mut family = encoder.encode_descriptor("operator_groups", help, None, MetricType::Gauge)?;
        for ((condition, status), count) in counts {
            let labels = [("condition", condition), ("status", status)];
            family.encode_family(&labels)?.encode_gauge(&count)?;
        }
        Ok(())
    }
}
