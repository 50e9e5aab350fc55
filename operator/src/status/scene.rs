//! A group of three pods and eight queues where all is well, to be changed by tests.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentCondition},
    core::v1::Pod,
};
use lockstep_contract::{
    ApplicationStatus, BlockedMessage, Health, Phase, QueueState, QueueStatus, Reason, SourceStatus, Status,
    Totals, config_hash, names::annotations,
};
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};
use serde_json::{from_value, json};

use super::{ApplyFailure, StatusFacts, status};
use crate::{
    Fault, Notice, PodReport,
    rollout::{Plan, Strategy, TemplateSource},
};

pub(crate) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) group: ConsumerGroup,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) reports: BTreeMap<String, PodReport>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) plan: Plan,
    pub(crate) failure: Option<ApplyFailure>,
    pub(crate) now: Timestamp,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let group = group();
        let hot = hot_hash(&group);
        let pods = ["a", "b", "c"].map(pod);
        let reports = ["a", "b", "c"].iter().zip([0..3, 3..6, 6..8]);
        let reports = reports.map(|(name, queues)| {
            (format!("orders-{name}"), PodReport::Answered(Arc::new(report(queues, &hot))))
        });
        Self {
            deployment: Some(deployment(3)),
            pods: pods.into(),
            reports: reports.collect(),
            faults: Vec::new(),
            notices: Vec::new(),
            plan: Plan {
                template: TemplateSource::Build,
                sidecar_image: "lockstep-sidecar:1".to_owned(),
                drain_seconds: 35,
                strategy: Strategy::Rolling,
                marks: BTreeMap::new(),
                waits_for_upgrade: false,
            },
            failure: None,
            group,
            now: NOW,
        }
    }

    pub(crate) fn status(&self) -> ConsumerGroupStatus {
        let pods: Vec<_> = self.pods.iter().cloned().map(Arc::new).collect();
        let stalled = !self.faults.is_empty();
        status(&StatusFacts {
            group: &self.group,
            faults: &self.faults,
            notices: &self.notices,
            plan: (!stalled).then_some(&self.plan),
            deployment: self.deployment.as_ref(),
            applied_hash: (!stalled).then_some("applied"),
            pods: &pods,
            reports: &self.reports,
            hot_hash: &hot_hash(&self.group),
            failure: self.failure.as_ref(),
            now: self.now,
        })
    }

    /// The condition as `True/Reason`.
    pub(crate) fn condition(&self, kind: &str) -> String {
        let status = self.status();
        let condition = status.conditions.iter().find(|one| one.type_ == kind).expect("always present");
        format!("{}/{}", condition.status, condition.reason)
    }

    pub(crate) fn message(&self, kind: &str) -> String {
        let status = self.status();
        status.conditions.iter().find(|one| one.type_ == kind).expect("always present").message.clone()
    }

    pub(crate) fn live(&mut self) -> &mut Deployment {
        self.deployment.as_mut().expect("there")
    }

    /// Counts of the live Deployment: all, updated, available.
    pub(crate) fn counts(&mut self, all: i32, updated: i32, available: i32) {
        let status = self.live().status.as_mut().expect("there");
        status.replicas = Some(all);
        status.updated_replicas = Some(updated);
        status.available_replicas = Some(available);
        status.ready_replicas = Some(available);
    }

    /// A condition of the live Deployment, which ends the one of its kind.
    pub(crate) fn deployment_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let conditions = self.live().status.as_mut().expect("there").conditions.as_mut().expect("there");
        conditions.retain(|condition| condition.type_.as_deref() != Some(kind));
        conditions.push(DeploymentCondition {
            type_: Some(kind.to_owned()),
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..DeploymentCondition::default()
        });
    }

    /// No pod of the current template was ready yet.
    pub(crate) fn rolls(&mut self, all: i32, updated: i32, available: i32) {
        self.counts(all, updated, available);
        self.deployment_condition("Progressing", "True", "ReplicaSetUpdated", "");
    }

    pub(crate) fn pause(&mut self) {
        self.group.spec.state = lockstep_contract::RunState::Paused;
    }

    pub(crate) fn scale(&mut self, replicas: i32) {
        self.group.spec.replicas = replicas;
        self.live().spec.replicas = Some(replicas);
        let names: Vec<_> = self.pods.drain(..).collect();
        self.pods = names.into_iter().take(usize::try_from(replicas).unwrap()).collect();
        self.counts(replicas, replicas, replicas);
    }

    /// Nobody is wanted, and all pods still end.
    pub(crate) fn scale_to_zero(&mut self) {
        let pods = self.pods.clone();
        self.scale(0);
        self.pods = pods;
        ["a", "b", "c"].iter().for_each(|name| self.ends(name));
    }

    /// The sidecar of pod `name` ended and is started again.
    pub(crate) fn restarts(&mut self, name: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod.metadata.name == Some(format!("orders-{name}")));
        let status = json!({"phase": "Running", "initContainerStatuses": [{
            "name": "lockstep", "image": "", "imageID": "", "ready": false, "restartCount": 1,
        }]});
        pod.expect("there").status = Some(from_value(status).unwrap());
        self.reports.remove(&format!("orders-{name}"));
    }

    /// Changes what pod `name` says.
    pub(crate) fn says(&mut self, name: &str, change: impl FnOnce(&mut Status)) {
        match self.reports.get_mut(&format!("orders-{name}")) {
            Some(PodReport::Answered(status)) => change(Arc::make_mut(status)),
            other => panic!("{name} says {other:?}"),
        }
    }

    pub(crate) fn all_say(&mut self, change: impl Fn(&mut Status)) {
        for name in ["a", "b", "c"] {
            self.says(name, &change);
        }
    }

    /// They left the broker's group and know the configuration that says so.
    pub(crate) fn all_left(&mut self) {
        let hot = hot_hash(&self.group);
        self.all_say(|status| {
            leave(status);
            status.config.hot_hash = hot.clone();
        });
    }

    pub(crate) fn unreachable(&mut self, name: &str) {
        self.reports.insert(format!("orders-{name}"), PodReport::Unreachable("timed out".to_owned()));
    }

    pub(crate) fn all_unreachable(&mut self) {
        ["a", "b", "c"].iter().for_each(|name| self.unreachable(name));
    }

    /// A container of pod `name` waits.
    pub(crate) fn waits(&mut self, name: &str, reason: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod.metadata.name == Some(format!("orders-{name}")));
        let status = json!({"containerStatuses": [{
            "name": "app", "image": "shop", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": "says the kubelet"}},
        }]});
        pod.expect("there").status = Some(from_value(status).unwrap());
        self.reports.remove(&format!("orders-{name}"));
    }

    /// Pod `name` ends.
    pub(crate) fn ends(&mut self, name: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod.metadata.name == Some(format!("orders-{name}")));
        pod.expect("there").metadata.deletion_timestamp =
            Some(from_value(json!("1970-01-01T00:00:00Z")).unwrap());
    }
}

/// The first blocked message of a pod.
pub(crate) fn block(status: &mut Status, hold: Reason, age_seconds: u64) {
    status.totals.blocked = 1;
    status.queues[0].blocked_lanes = 1;
    status.queues[0].blocked = vec![BlockedMessage {
        message_id: format!("id-{age_seconds}"),
        position: 7,
        attempts: 16,
        age_seconds,
        hold,
        last_error: "the application answered 500".to_owned(),
    }];
}

pub(crate) fn leave(status: &mut Status) {
    status.phase = Phase::Paused;
    status.source = SourceStatus::default();
    status.totals = Totals { known: status.totals.known, ..Totals::default() };
    status.queues.clear();
}

pub(crate) fn ill(status: &mut Status, health: Health, reason: Reason) {
    status.application =
        ApplicationStatus { health, reason, message: "connection refused".to_owned(), since_ms: 0 };
}

pub(crate) fn cut(status: &mut Status, reason: &str) {
    status.source = SourceStatus {
        connected: false,
        reason: reason.to_owned(),
        message: "broker-a is gone".to_owned(),
        remedy: "start it".to_owned(),
        since_ms: 0,
    };
}

pub(crate) fn hot_hash(group: &ConsumerGroup) -> String {
    config_hash(&group.contract().hot_file())
}

pub(crate) fn group() -> ConsumerGroup {
    from_value(json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "group-uid", "generation": 4},
        "spec": {
            "replicas": 3,
            "source": {"rocketmq": {
                "nameServers": ["mq:9876"], "consumerGroup": "shop-orders", "subscriptions": [{"topic": "orders"}],
            }},
            "template": {"spec": {"containers": [{"name": "app", "image": "shop"}]}},
        },
    }))
    .unwrap()
}

pub(crate) fn deployment(replicas: i32) -> Deployment {
    from_value(json!({
        "metadata": {
            "name": "orders", "namespace": "shop", "uid": "deployment-uid", "generation": 2,
            "annotations": {annotations::APPLIED_HASH: "applied"},
            "ownerReferences": [{
                "apiVersion": "lockstep.dev/v1alpha1", "kind": "ConsumerGroup", "name": "orders", "uid": "group-uid",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": replicas,
            "selector": {},
            "strategy": {"type": "RollingUpdate"},
            "template": {"spec": {
                "containers": [],
                "initContainers": [{"name": "lockstep", "image": "lockstep-sidecar:1"}],
            }},
        },
        "status": {
            "observedGeneration": 2, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
        },
    }))
    .unwrap()
}

pub(crate) fn pod(name: &str) -> Pod {
    from_value(json!({
        "metadata": {"name": format!("orders-{name}"), "namespace": "shop"},
        "status": {"phase": "Running", "initContainerStatuses": [{
            "name": "lockstep", "image": "", "imageID": "", "ready": true, "restartCount": 0, "started": true,
        }]},
    }))
    .unwrap()
}

fn report(queues: std::ops::Range<u32>, hot: &str) -> Status {
    let owned = queues.clone().count();
    let queue = |number| QueueStatus {
        name: format!("orders/broker-a/{number}"),
        state: QueueState::Owned,
        lag: Some(100),
        ..QueueStatus::default()
    };
    let mut status = Status {
        phase: Phase::Running,
        ready: true,
        source: SourceStatus { connected: true, ..SourceStatus::default() },
        totals: Totals {
            known: Some(8),
            owned: u32::try_from(owned).unwrap(),
            blocked: 0,
            backlog: Some(100 * u64::try_from(owned).unwrap()),
            oldest_age_seconds: Some(12),
        },
        queues: queues.map(queue).collect(),
        ..Status::default()
    };
    ill(&mut status, Health::Healthy, Reason::Healthy);
    status.config.hot_hash = hot.to_owned();
    status
}
