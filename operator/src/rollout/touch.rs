//! Which pods have not applied the hot configuration.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;

use super::complete::is_living;
use crate::PodReport;

/// The living pods that say that they have not applied the hot file `wanted`. Those that don't answer are not among them:
/// a touch helps only who listens.
pub fn untouched(pods: &[Arc<Pod>], reports: &BTreeMap<String, PodReport>, wanted: &str) -> Vec<String> {
    let waiting = |pod: &Arc<Pod>| {
        let name = pod.metadata.name.as_ref().filter(|_| is_living(pod))?;
        match reports.get(name)? {
            PodReport::Answered(status) => (status.config.hot_hash != wanted).then(|| name.clone()),
            PodReport::Unreachable(_) => None,
        }
    };
    pods.iter().filter_map(waiting).collect()
}
