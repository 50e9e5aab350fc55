//! What may change when. All that must outlive the operator stands in annotations of the Deployment ([`MARKS`]); the
//! wave's memory only bridges the moment until the watch shows them.

mod complete;
mod former;
mod plan;
mod touch;
mod wave;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use lockstep_contract::{config_hash, names::annotations};
use lockstep_crds::ConsumerGroup;

pub use complete::{is_complete, is_rolled_out};
pub(crate) use complete::{is_ending, is_living};
pub use former::former_member;
pub use plan::{Plan, Strategy, TemplateSource};
pub use touch::untouched;
pub use wave::{Candidate, Wave, WaveView};

use crate::{Observed, Settings, hash};

/// The annotations that a plan reads from the live Deployment and writes to the next.
pub const MARKS: [&str; 5] = [
    annotations::INPUT_HASH,
    annotations::BUILT_BY,
    annotations::SUBSCRIPTION_HASH,
    annotations::UPGRADED_TO,
    annotations::DRAIN_SECONDS,
];

/// What a group is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    /// [`hash::input_hash`].
    pub input: String,
    /// [`hash::subscription_hash`].
    pub subscription: String,
    /// Of the hot file, as sidecars report it.
    pub hot: String,
}

impl Hashes {
    /// Those of a group.
    pub fn of(group: &ConsumerGroup) -> Self {
        Self {
            input: hash::input_hash(group),
            subscription: hash::subscription_hash(group),
            hot: config_hash(&group.contract().hot_file()),
        }
    }
}

/// Names the version of the operator and its default sidecar image.
pub fn built_by(settings: &Settings) -> String {
    format!("{} {}", settings.version, settings.sidecar_image)
}

/// The default sidecar image of the operator that built a Deployment.
pub(crate) fn former_image(live: &Deployment) -> Option<&str> {
    mark(live, annotations::BUILT_BY)?.split_once(' ').map(|(_, image)| image)
}

/// Plans a reconciliation of a group without faults.
pub fn plan(observed: &Observed, settings: &Settings, view: &WaveView<'_>, hashes: &Hashes) -> Plan {
    let group = &observed.group;
    let live = observed.deployment.as_deref();
    let changed = live.is_none_or(|live| mark(live, annotations::INPUT_HASH) != Some(&hashes.input));
    let ours = built_by(settings);
    let outdated = live.filter(|live| mark(live, annotations::BUILT_BY) != Some(&ours));
    let upgrade = outdated.filter(|_| !changed);
    let waits = upgrade.is_some_and(|live| !view.admit(live, &ours, settings.upgrade_groups_max));
    let image = group.spec.sidecar.image.as_ref().unwrap_or(&settings.sidecar_image);
    let kept = live.filter(|_| waits || !changed && upgrade.is_none());
    let mut marks = marks(kept, upgrade.is_some(), &ours, hashes);
    let drain_seconds = kept.and_then(drain_seconds);
    let drain_seconds = drain_seconds.unwrap_or_else(|| group.contract().drain_timeout().as_secs());
    if !waits {
        marks.insert(annotations::DRAIN_SECONDS, drain_seconds.to_string());
    }
    Plan {
        template: if waits { TemplateSource::KeepLive } else { TemplateSource::Build },
        sidecar_image: image.clone(),
        strategy: strategy(observed, hashes),
        drain_seconds,
        marks,
        waits_for_upgrade: waits,
    }
}

/// All members must agree on the subscriptions, so that none of the former ones may run beside one of the new ones. It
/// stays so until the last new one is there: a second change in between meets the same rule.
fn strategy(observed: &Observed, hashes: &Hashes) -> Strategy {
    let Some(live) = observed.deployment.as_deref() else { return Strategy::Rolling };
    let same = mark(live, annotations::SUBSCRIPTION_HASH) == Some(&hashes.subscription);
    let replacing = is_recreating(live) && !is_complete(live, &observed.pods);
    if same && !replacing { Strategy::Rolling } else { Strategy::Recreate }
}

/// The marks of `kept` as they are, else new ones.
fn marks(
    kept: Option<&Deployment>,
    upgraded: bool,
    ours: &str,
    hashes: &Hashes,
) -> BTreeMap<&'static str, String> {
    if let Some(kept) = kept {
        return MARKS.iter().filter_map(|name| Some((*name, mark(kept, name)?.clone()))).collect();
    }
    let mut marks = BTreeMap::from([
        (annotations::INPUT_HASH, hashes.input.clone()),
        (annotations::BUILT_BY, ours.to_owned()),
        (annotations::SUBSCRIPTION_HASH, hashes.subscription.clone()),
    ]);
    if upgraded {
        marks.insert(annotations::UPGRADED_TO, ours.to_owned());
    }
    marks
}

fn mark<'a>(deployment: &'a Deployment, name: &str) -> Option<&'a String> {
    deployment.metadata.annotations.as_ref()?.get(name)
}

/// The drain's time that the live pods were built with. Its default follows a hot field, and a change of that must not
/// replace them.
fn drain_seconds(live: &Deployment) -> Option<u64> {
    mark(live, annotations::DRAIN_SECONDS)?.parse().ok()
}

fn is_recreating(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

#[cfg(test)]
mod tests;
