//! Whether pods can be made of a group. Pure: what is wrong, all at once, each with the field and the remedy.

mod duplicates;
mod neighbours;
mod rule;
mod template;
#[cfg(test)]
mod tests;

use kube::ResourceExt;
use lockstep_contract::{Reason, Strictness, parse};
use lockstep_crds::{ConsumerGroup, DisruptionBudget};

pub use rule::Rule;

use crate::{
    build::own_budget,
    facts::{Fault, Notice, Observed},
};

/// What is wrong with a group, and what its user should know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Each stalls the group. Empty = children can be built.
    pub faults: Vec<Fault>,
    /// Each stops nothing.
    pub notices: Vec<Notice>,
}

/// Judges a group and what is beside it.
pub fn validate(observed: &Observed) -> Verdict {
    let mut verdict = Verdict::default();
    let group = observed.group.as_ref();
    spec(group, &mut verdict);
    template::check(group, &mut verdict);
    neighbours::check(observed, &mut verdict);
    if wants_budget(group)
        && let Some(budget) = own_budget(observed)
    {
        verdict.notice(
            Reason::OwnDisruptionBudget,
            format!(
                "the PodDisruptionBudget {} selects the group's pods, so Lockstep keeps none of its own; with two, \
                 no pod could be evicted",
                budget.name_any()
            ),
        );
    }
    verdict
}

fn wants_budget(group: &ConsumerGroup) -> bool {
    match group.spec.pod_disruption_budget {
        DisruptionBudget::Managed => true,
        DisruptionBudget::None => false,
    }
}

/// What is wrong with the pod template alone.
pub(crate) fn validate_template(group: &ConsumerGroup) -> Vec<String> {
    let mut verdict = Verdict::default();
    template::check(group, &mut verdict);
    verdict.faults.into_iter().map(|fault| fault.message).collect()
}

impl Verdict {
    fn fault(&mut self, rule: Rule, path: &str, problem: impl AsRef<str>, remedy: impl AsRef<str>) {
        let message = format!("{path}: {}; {}", problem.as_ref(), remedy.as_ref());
        self.faults.push(Fault { rule, message });
    }

    fn notice(&mut self, reason: Reason, message: String) {
        self.notices.push(Notice { reason, message });
    }
}

/// The contract's own rules, which hold wherever a manifest is read, and those of the fields beside it.
fn spec(group: &ConsumerGroup, verdict: &mut Verdict) {
    let manifest = serde_json::to_string(&group.contract()).unwrap_or_default();
    if let Err(mistakes) = parse(&manifest, Strictness::Strict) {
        let faults = mistakes.iter().map(|found| Fault { rule: Rule::Contract, message: found.to_string() });
        verdict.faults.extend(faults);
    }
    let replicas = group.spec.replicas;
    if replicas < 0 {
        verdict.fault(Rule::Replicas, "spec.replicas", format!("is {replicas}"), "give 0 or more");
    }
    if group.spec.sidecar.image.as_ref().is_some_and(|image| image.trim().is_empty()) {
        let remedy = "name an image, or leave the field out";
        verdict.fault(Rule::SidecarImage, "spec.sidecar.image", "is empty", remedy);
    }
}
