//! The PodDisruptionBudget, and the user's own.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use kube::ResourceExt;
use lockstep_crds::DisruptionBudget;

use super::{Owned, pod};
use crate::facts::Observed;

/// At most one pod away at a time; none where the user wants none or has one.
pub(super) fn budget(observed: &Observed, owned: &Owned) -> Option<PodDisruptionBudget> {
    match observed.group.spec.pod_disruption_budget {
        DisruptionBudget::None => return None,
        DisruptionBudget::Managed => {}
    }
    if own_budget(observed).is_some() {
        return None;
    }
    let spec = PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(1)),
        selector: Some(LabelSelector {
            match_labels: Some(pod::selector(&owned.group)),
            ..LabelSelector::default()
        }),
        // A pod that is not ready delivers nothing, so it must not hold up a node that is emptied.
        unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
        ..PodDisruptionBudgetSpec::default()
    };
    let metadata = owned.named(owned.group.clone());
    Some(PodDisruptionBudget { metadata, spec: Some(spec), ..PodDisruptionBudget::default() })
}

/// A PodDisruptionBudget of the user's own that selects the group's pods: with two of them Kubernetes refuses to
/// evict a pod at all.
pub(crate) fn own_budget(observed: &Observed) -> Option<&PodDisruptionBudget> {
    let labels = pod::pod_labels(&observed.group);
    let uid = observed.group.metadata.uid.as_deref();
    let ours = |budget: &PodDisruptionBudget| {
        budget.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid)
    };
    let budgets = observed.disruption_budgets.iter().map(AsRef::as_ref);
    budgets.into_iter().find(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        !ours(budget) && selector.is_some_and(|selector| selects(selector, &labels))
    })
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut met = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value)) && met.all(|wanted| meets(wanted, labels))
}

fn meets(wanted: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&wanted.key);
    let listed = value.is_some_and(|value| wanted.values.iter().flatten().any(|other| other == value));
    match wanted.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // The API server stores no other word.
        _ => false,
    }
}
