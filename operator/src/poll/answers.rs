//! What a group's pods said last.

use std::collections::BTreeMap;

use crate::PodReport;

/// Polls in a row that a pod may miss before it counts as unreachable: one slow answer says nothing of the group.
const MISSES_MAX: u32 = 2;

/// What a group's pods said last, by their names.
#[derive(Debug, Default)]
pub struct Answers {
    reports: BTreeMap<String, PodReport>,
    /// Polls in a row that a pod missed.
    misses: BTreeMap<String, u32>,
}

impl Answers {
    /// What is known.
    pub fn reports(&self) -> &BTreeMap<String, PodReport> {
        &self.reports
    }

    /// Takes what a poll brought, of all pods that were asked; answers whether anything is new. What a pod said stays for
    /// a few polls that it misses.
    pub fn take(&mut self, polled: BTreeMap<String, PodReport>) -> bool {
        let before = std::mem::take(&mut self.reports);
        let misses = std::mem::take(&mut self.misses);
        for (pod, report) in polled {
            let kept = match (&report, before.get(&pod)) {
                (PodReport::Unreachable(_), Some(said @ PodReport::Answered(_))) => {
                    let missed = misses.get(&pod).map_or(1, |missed| missed + 1);
                    self.misses.insert(pod.clone(), missed);
                    (missed <= MISSES_MAX).then(|| said.clone())
                }
                (_, _) => None,
            };
            self.reports.insert(pod, kept.unwrap_or(report));
        }
        self.reports != before
    }
}
