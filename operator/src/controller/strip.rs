//! What the stores keep of objects: the parts that somebody reads.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Container, Pod, PodSpec},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use lockstep_contract::names::{SIDECAR_CONTAINER, annotations};

use super::Entry;
use crate::{compact::Keep, poll::Place, rollout::Candidate};

/// Large, and rewritten by every client-side `kubectl apply`.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Groups: all but bookkeeping.
pub(super) fn group(entry: &mut Entry) {
    metadata(kube::Resource::meta_mut(entry));
    let group = entry.0.as_mut().ok().map(Arc::make_mut);
    if let Some(spec) = group.and_then(|group| group.spec.template.spec.as_mut()) {
        // Decoding makes room for four, of more than 2 KB each.
        spec.containers.shrink_to_fit();
        spec.init_containers.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

/// All but bookkeeping, since drift can be anywhere.
impl Keep for Deployment {
    type Glance = Candidate;

    fn glance(&self) -> Candidate {
        Candidate::from(self)
    }

    fn strip(&mut self) {
        metadata(&mut self.metadata);
    }
}

/// ConfigMaps: all but bookkeeping.
pub(super) fn config_map(config_map: &mut ConfigMap) {
    metadata(&mut config_map.metadata);
}

/// PodDisruptionBudgets: what they select, and whether ours has drifted.
pub(super) fn disruption_budget(budget: &mut PodDisruptionBudget) {
    metadata(&mut budget.metadata);
    budget.status = None;
}

/// Which ConfigMaps its template names, and how many pods it has.
impl Keep for ReplicaSet {
    type Glance = ();

    fn glance(&self) {}

    fn strip(&mut self) {
        metadata(&mut self.metadata);
        if let Some(pod) = self.spec.template.as_mut().and_then(|template| template.spec.as_mut()) {
            pod_spec(pod);
        }
    }
}

/// What must be known of every pod at every look.
#[derive(Debug, Clone)]
pub struct PodGlance {
    /// As whom it says that it takes part at a broker.
    pub(crate) member_of: Option<Box<str>>,
    /// Where its sidecar is asked, while that runs.
    pub(crate) place: Option<Place>,
}

/// How it is, which ConfigMaps it names, and the sidecar's ports.
impl Keep for Pod {
    type Glance = PodGlance;

    fn glance(&self) -> PodGlance {
        let annotations = self.metadata.annotations.as_ref();
        let member_of = annotations.and_then(|all| all.get(annotations::MEMBER_OF));
        PodGlance { member_of: member_of.map(|text| text.as_str().into()), place: Place::of(self) }
    }

    fn strip(&mut self) {
        metadata(&mut self.metadata);
        if let Some(spec) = self.spec.as_mut() {
            pod_spec(spec);
        }
    }
}

fn metadata(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = metadata.annotations.as_mut() {
        annotations.remove(LAST_APPLIED);
    }
}

fn pod_spec(spec: &mut PodSpec) {
    let PodSpec { volumes, node_name, termination_grace_period_seconds, containers, init_containers, .. } =
        std::mem::take(spec);
    let slim = |container: Container| {
        let ports = (container.name == SIDECAR_CONTAINER).then_some(container.ports).flatten();
        Container { name: container.name, image: container.image, ports, ..Container::default() }
    };
    *spec = PodSpec {
        volumes,
        node_name,
        termination_grace_period_seconds,
        containers: containers.into_iter().map(slim).collect(),
        init_containers: init_containers.map(|all| all.into_iter().map(slim).collect()),
        ..PodSpec::default()
    };
}
