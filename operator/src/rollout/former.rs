//! Pods of another group that take part where a new group is about to.

use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use lockstep_contract::names::{annotations, labels};

use super::complete::has_ended;
use crate::{Observed, facts::is_controlled_by, membership::Membership};

/// A pod because of which a group must not get its first ones: of a deleted group of the same name, or of one that
/// consumed as the same consumer group and is deleted or can't be read. Its subscription may be another one. `None` = there
/// is none, or the group has a Deployment already. Groups that can be read and consume alike are a fault of
/// [`crate::validate()`].
pub fn former_member(observed: &Observed) -> Option<&Pod> {
    let group = observed.group.as_ref();
    let uid = group.uid().unwrap_or_default();
    if observed.deployment.as_ref().is_some_and(|live| is_controlled_by(live.meta(), &uid)) {
        return None;
    }
    let own = Membership::of(group);
    let of_name = observed.pods.iter().filter(|pod| group_uid(pod) != Some(&uid));
    let of_others = observed.strangers.iter().filter(|pod| {
        let same = own.as_ref().zip(Membership::of_pod(pod)).is_some_and(|(own, other)| own.is_same(&other));
        same && !is_of_sibling(observed, pod)
    });
    of_name.chain(of_others).find(|pod| !has_ended(pod)).map(AsRef::as_ref)
}

fn group_uid(pod: &Pod) -> Option<&String> {
    pod.annotations().get(annotations::GROUP_UID)
}

fn is_of_sibling(observed: &Observed, pod: &Pod) -> bool {
    observed.siblings.iter().any(|sibling| {
        pod.labels().get(labels::GROUP) == sibling.metadata.name.as_ref()
            && group_uid(pod) == sibling.metadata.uid.as_ref()
    })
}
