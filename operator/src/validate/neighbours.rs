//! What is beside a group: other groups, and objects with the names of its children.

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use lockstep_contract::{KIND, Reason};
use lockstep_crds::ConsumerGroup;

use super::{Rule, Verdict, wants_budget};
use crate::{
    build::{hot_name, own_budget},
    facts::Observed,
    membership::Membership,
};

pub(super) fn check(observed: &Observed, verdict: &mut Verdict) {
    duplicate(observed, verdict);
    let group = observed.group.as_ref();
    let name = group.name_any();
    if let Some(deployment) = &observed.deployment {
        owned(group, deployment.as_ref(), "Deployment", verdict);
    }
    let hot = hot_name(&name);
    if let Some(map) = observed.config_maps.iter().find(|map| map.name_any() == hot) {
        owned(group, map.as_ref(), "ConfigMap", verdict);
    }
    let wanted = wants_budget(group) && own_budget(observed).is_none();
    let budget = observed.disruption_budgets.iter().find(|budget| wanted && budget.name_any() == name);
    if let Some(budget) = budget {
        owned(group, budget.as_ref(), "PodDisruptionBudget", verdict);
    }
}

/// Two groups that consume as one consumer group would take each other's queues. The one whose pods are there goes on,
/// else the older one.
fn duplicate(observed: &Observed, verdict: &mut Verdict) {
    let group = observed.group.as_ref();
    let Some(own) = Membership::of(group) else { return };
    let name = own.consumer_group();
    let runs = |group: &ConsumerGroup| group.uid().is_some_and(|uid| observed.running.contains(&uid));
    let rank = |group: &ConsumerGroup| (!runs(group), age(group));
    let namesakes = observed.siblings.iter().filter_map(|sibling| {
        let other = Membership::of(sibling).filter(|other| other.is_namesake(&own))?;
        (sibling.name_any() != group.name_any()).then_some((sibling, other.is_same(&own)))
    });
    let (same, elsewhere): (Vec<_>, Vec<_>) = namesakes.partition(|(_, is_same)| *is_same);
    if let Some((first, _)) = same.iter().find(|(sibling, _)| rank(sibling) < rank(group)) {
        let which = if runs(first) && !runs(group) { "already runs" } else { "is older" };
        let problem =
            format!("is \"{name}\", as which the ConsumerGroup {} consumes, which {which}", first.name_any());
        let remedy = "delete one of the two and make this one anew under another name in RocketMQ, or put both topics into one";
        let path = "spec.source.rocketmq.consumerGroup";
        verdict.fault(Rule::OneGroup, path, problem, remedy);
    } else if let Some((first, _)) = elsewhere.first() {
        verdict.notice(
            Reason::DuplicateConsumerGroup,
            format!(
                "the ConsumerGroup {} consumes as \"{name}\" too, from other nameServers: that is well as long as they \
                 are of another RocketMQ cluster",
                first.name_any()
            ),
        );
    }
}

/// Groups in the order in which they were made.
fn age(group: &ConsumerGroup) -> (bool, Option<jiff::Timestamp>, String) {
    let created = group.metadata.creation_timestamp.as_ref().map(|time| time.0);
    // One that is not stored yet is the youngest.
    (created.is_none(), created, group.name_any())
}

/// An object with the name of a child must be one. That of an earlier group of the same name is no fault: Kubernetes
/// deletes it by itself.
fn owned<T: Resource<Scope = NamespaceResourceScope>>(
    group: &ConsumerGroup,
    object: &T,
    kind: &str,
    verdict: &mut Verdict,
) {
    let controller = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    let ours = |owner: &OwnerReference| {
        Some(&owner.uid) == group.metadata.uid.as_ref()
            || (owner.kind == KIND && owner.name == group.name_any())
    };
    if controller.is_some_and(ours) {
        return;
    }
    let name = object.name_any();
    let (owner, remedy) = match controller {
        Some(owner) => (
            format!("the {} {}", owner.kind, owner.name),
            format!("rename the {KIND} or that owner's {kind}"),
        ),
        None => ("somebody else".to_owned(), format!("delete that {kind}, or rename the {KIND}")),
    };
    let problem = format!("the {kind} {name} exists and belongs to {owner}");
    verdict.fault(Rule::ChildOwned, "metadata.name", problem, remedy);
}
