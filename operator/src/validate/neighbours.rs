//! What is beside a group: other groups, and objects with the names of its children.

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use lockstep_contract::{KIND, Reason, SourceKind};
use lockstep_crds::ConsumerGroup;

use super::{Verdict, wants_budget};
use crate::{
    build::{hot_name, own_budget},
    facts::Observed,
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

/// Two groups that consume as the same consumer group would take each other's queues; the older one goes on.
fn duplicate(observed: &Observed, verdict: &mut Verdict) {
    let group = observed.group.as_ref();
    let Some(name) = consumer_group(group) else { return };
    let mut older = observed.siblings.iter().filter(|sibling| {
        sibling.name_any() != group.name_any()
            && consumer_group(sibling) == Some(name)
            && age(sibling) < age(group)
    });
    if let Some(first) = older.next() {
        let problem =
            format!("is \"{name}\", as which the older ConsumerGroup {} consumes", first.name_any());
        let remedy = "delete one of the two and make this one anew under another name in RocketMQ, or put both topics into one";
        let path = "spec.source.rocketmq.consumerGroup";
        verdict.fault(Reason::DuplicateConsumerGroup, path, problem, remedy);
    }
}

fn consumer_group(group: &ConsumerGroup) -> Option<&str> {
    match group.spec.source.kind()? {
        SourceKind::RocketMq(source) => Some(&source.consumer_group),
        // Their queues are exclusive one by one, so a second consumer waits and takes nothing.
        SourceKind::RabbitMq(_) | SourceKind::ActiveMq(_) => None,
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
    verdict.fault(Reason::ChildNotOwned, "metadata.name", problem, remedy);
}
