//! What Kubernetes says of a pod that does not get on.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// How long a pod may outlive the moment by which Kubernetes means it to be gone, before it is named: the kubelet's
/// last word takes a few seconds.
const OVERDUE: SignedDuration = SignedDuration::from_secs(15);

/// Words of containers that wait although nothing is wrong.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The first thing that keeps a pod from running, in Kubernetes' words.
pub(super) fn trouble(pod: &Pod) -> Option<String> {
    unscheduled(pod).or_else(|| statuses(pod).find_map(waiting))
}

/// Whether the image's name of a container can't be read: only another name helps.
pub(super) fn invalid_image(pod: &Pod) -> Option<String> {
    let invalid = statuses(pod).filter(|status| waiting_word(status) == Some("InvalidImageName"));
    invalid.into_iter().find_map(waiting)
}

/// Whether a container of the pod runs and passed its startup probe.
pub(super) fn has_started(pod: &Pod, container: &str) -> bool {
    statuses(pod).any(|status| status.name == container && status.started == Some(true))
}

/// Whether a container of the pod ever ran.
pub(super) fn has_run(pod: &Pod, container: &str) -> bool {
    statuses(pod).filter(|status| status.name == container).any(|status| {
        let state = status.state.as_ref();
        status.restart_count > 0
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    })
}

/// Pods that should be gone by now, and what to do about them: `None` = there is none.
pub(super) fn overdue(ending: &[&Pod], now: Timestamp) -> Option<String> {
    let deadline = |pod: &Pod| pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let late = |pod: &&&Pod| deadline(pod).is_some_and(|time| now.duration_since(time) > OVERDUE);
    let pod = ending.iter().find(late)?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("unknown");
    Some(format!(
        "{} pods should have ended; pod {name} on node {node}: see whether the node answers (kubectl get node {node}); \
         only if it is gone for good: kubectl delete pod -n {namespace} {name} --force",
        ending.iter().filter(late).count()
    ))
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

fn waiting_word(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

fn waiting(status: &ContainerStatus) -> Option<String> {
    let word = waiting_word(status).filter(|word| !USUAL.contains(word))?;
    let message = status.state.as_ref()?.waiting.as_ref()?.message.as_deref().unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let exit = last.map(|last| format!(", last exit code {}", last.exit_code)).unwrap_or_default();
    Some(format!("container {} waits: {word}{exit}: {message}", status.name))
}

fn unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    let reason = condition.reason.as_deref().unwrap_or("Unschedulable");
    Some(format!("{reason}: {}", condition.message.as_deref().unwrap_or_default()))
}
