//! From a group to the objects that the cluster should hold for it. Pure: the same input makes the same objects.

mod configmaps;
mod deployment;
mod disruption;
mod hooks;
mod kept;
mod pod;
mod sidecar;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Container},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    serde::Serialize,
};
use kube::{Resource, ResourceExt};
use lockstep_contract::{self as contract, Port, names};
use lockstep_crds::ConsumerGroup;
use thiserror::Error;

use crate::{facts::Observed, hash::applied_hash, rollout::Plan};

pub use configmaps::{cold_name, hot_name};
pub(crate) use disruption::own_budget;
pub(crate) use hooks::has_own as has_own_hook;
pub(crate) use pod::{is_tcp, labels};

/// What the cluster should hold of a group, beside the group.
#[derive(Debug, Clone, PartialEq)]
pub struct Children {
    /// Named like the group.
    pub deployment: Deployment,
    /// What needs new pods: immutable, and named by its hash.
    pub cold: ConfigMap,
    /// What applies while pods live.
    pub hot: ConfigMap,
    /// Named like the group; `None` where none is wanted or the user has one.
    pub disruption_budget: Option<PodDisruptionBudget>,
}

/// A group of which nothing can be built. [`crate::validate`] finds what a user can cure before.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The group was never stored, so that children can't name it as their owner.
    #[error("the group has no name or no UID: only one that the API server has stored can own pods")]
    NotStored,
    /// There is no application.
    #[error("spec.template.spec.containers: is empty; give the application's container")]
    NoContainer,
    /// The port's name means nothing.
    #[error(
        "spec.delivery.port: no port of the container \"{container}\" is called \"{port}\"; give one of its ports a name, or a number here"
    )]
    NoSuchPort {
        /// The application's container.
        container: String,
        /// The name.
        port: String,
    },
}

/// The objects that the cluster should hold for a group.
///
/// # Errors
///
/// The group breaks a rule of [`crate::validate`], or was never stored.
pub fn build(observed: &Observed, plan: &Plan) -> Result<Children, BuildError> {
    let group = observed.group.as_ref();
    let contract = resolved(group)?;
    let owned = Owned::new(group)?;
    let built = deployment::Built::new(observed, plan, &contract, &owned)?;
    Ok(Children {
        deployment: sealed(deployment::deployment(group, plan, &owned, built.template)),
        cold: sealed(built.cold),
        hot: sealed(configmaps::hot(&contract, &owned)),
        disruption_budget: disruption::budget(observed, &owned).map(sealed),
    })
}

/// The hot ConfigMap alone, which rests on the sidecar's part of the group only.
///
/// # Errors
///
/// The group was never stored.
pub fn hot(group: &ConsumerGroup) -> Result<ConfigMap, BuildError> {
    Ok(sealed(configmaps::hot(&group.contract(), &Owned::new(group)?)))
}

/// The container that receives the messages.
pub(crate) fn application(group: &ConsumerGroup) -> Option<&Container> {
    let containers = group.spec.template.spec.as_ref()?.containers.iter();
    match &group.spec.delivery.container_name {
        Some(name) => containers.into_iter().find(|container| container.name == *name),
        None => containers.into_iter().next(),
    }
}

/// The number behind the name of one of the container's TCP ports.
pub(crate) fn port_number(container: &Container, name: &str) -> Option<std::num::NonZeroU16> {
    let ports = container.ports.iter().flatten();
    let mut named = ports.filter(|port| port.name.as_deref() == Some(name) && is_tcp(port));
    named.next().and_then(|port| u16::try_from(port.container_port).ok()).and_then(std::num::NonZeroU16::new)
}

/// The sidecar's part of a group, a port's number in the place of its name.
fn resolved(group: &ConsumerGroup) -> Result<contract::ConsumerGroup, BuildError> {
    let mut contract = group.contract();
    if let Port::Name(port) = &contract.spec.delivery.port {
        let container = application(group).ok_or(BuildError::NoContainer)?;
        let number = port_number(container, port).ok_or_else(|| BuildError::NoSuchPort {
            container: container.name.clone(),
            port: port.clone(),
        })?;
        contract.spec.delivery.port = Port::Number(number);
    }
    Ok(contract)
}

/// Metadata of children.
#[derive(Debug)]
pub(crate) struct Owned {
    /// The group's name.
    pub(crate) group: String,
    /// Its UID.
    pub(crate) uid: String,
    metadata: ObjectMeta,
}

impl Owned {
    fn new(group: &ConsumerGroup) -> Result<Self, BuildError> {
        let (Some(mut owner), Some(uid)) = (group.controller_owner_ref(&()), group.uid()) else {
            return Err(BuildError::NotStored);
        };
        owner.block_owner_deletion = Some(true);
        let metadata = ObjectMeta {
            namespace: group.namespace(),
            labels: Some(labels(&owner.name)),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        };
        Ok(Self { group: owner.name, uid, metadata })
    }

    /// Metadata of the child with that name.
    pub(crate) fn named(&self, name: String) -> ObjectMeta {
        ObjectMeta { name: Some(name), ..self.metadata.clone() }
    }
}

/// Writes the hash of the object into it.
fn sealed<T: Resource<Scope = NamespaceResourceScope> + Serialize>(mut object: T) -> T {
    let hash = applied_hash(&object);
    let annotations = object.meta_mut().annotations.get_or_insert_with(BTreeMap::new);
    annotations.insert(names::annotations::APPLIED_HASH.to_owned(), hash);
    object
}
