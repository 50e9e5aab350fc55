//! The table of rules that the API server and the operator share: each case is judged rightly, and no rule is without one.

use std::{collections::BTreeSet, sync::Arc};

use lockstep_crds::{
    ConsumerGroup,
    cases::{Case, Held, Refused},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    facts::{Fault, Observed},
    test_support::children,
    validate::{Rule, validate},
};

/// The group of a manifest and what the case wants beside it; `None` when no group can be read from it.
fn observed(case: &Case, manifest: Value) -> Option<Observed> {
    let mut group: ConsumerGroup = serde_json::from_value(manifest).ok()?;
    group.metadata.uid = Some("the-group".to_owned());
    group.metadata.namespace = Some("shop".to_owned());
    let name = group.metadata.name.clone();
    let mut observed = Observed::alone(group);
    if let Some(beside) = case.beside() {
        match beside["kind"].as_str().unwrap_or_default() {
            "ConsumerGroup" => observed.siblings.push(object(beside)),
            "ConfigMap" => observed.config_maps.push(object(beside)),
            "PodDisruptionBudget" => observed.disruption_budgets.push(object(beside)),
            "Deployment" if name.as_deref() == beside["metadata"]["name"].as_str() => {
                observed.deployment = Some(object(beside));
            }
            "Deployment" => {}
            other => panic!("{case}: {other}"),
        }
    }
    Some(observed)
}

fn object<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn broken(case: &Case) -> Vec<Fault> {
    observed(case, case.breaking()).map(|observed| validate(&observed).faults).unwrap_or_default()
}

#[test]
fn what_keeps_a_rule_has_no_fault_and_can_be_built() {
    for case in Case::all() {
        let observed = observed(case, case.keeping()).unwrap_or_else(|| panic!("{case} can't be read"));
        assert_eq!(validate(&observed).faults, Vec::<Fault>::new(), "{case}");
        children(&observed);
    }
}

#[test]
fn what_breaks_a_rule_of_the_operator_is_told_by_reason_and_field() {
    for case in Case::all() {
        let Refused::ByOperator(reason) = case.refused else { continue };
        let faults = broken(case);
        if let Held::Told(_) = case.held {
            // Only what Kubernetes makes of the children says so: see the conditions' tests.
            assert_eq!(faults, [], "{case}");
            continue;
        }
        let first = faults.first().unwrap_or_else(|| panic!("{case} is taken"));
        assert_eq!(first.reason(), reason, "{case}: {}", first.message);
        for part in [case.field, case.says] {
            assert!(first.message.contains(part), "{case} does not say {part}: {}", first.message);
        }
        let others = faults.iter().filter(|fault| fault.rule != first.rule).map(|fault| fault.rule);
        assert_eq!(others.collect::<Vec<_>>(), [], "{case} breaks more than one rule");
    }
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let found: BTreeSet<Rule> = Case::all().flat_map(broken).map(|fault| fault.rule).collect();
    for rule in Rule::ALL {
        assert!(found.contains(rule), "{rule:?} has no case in lockstep_crds::cases");
    }
}
