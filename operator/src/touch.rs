//! Annotations of pods: the touch that makes the kubelet look at the hot ConfigMap at once instead of after a minute or
//! two, and the queues that a pod should take. The operator may patch nothing else of a pod.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use lockstep_contract::names::{FIELD_MANAGER, annotations};
use serde_json::json;
use tokio::time::Instant;

/// The shortest time between two touches of a pod: the kubelet needs half a second, the sidecar as much.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest, for a pod that never applies what it is shown.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// When the pods of a group were touched, by name.
#[derive(Debug, Default)]
pub struct Touches(BTreeMap<String, Touch>);

#[derive(Debug)]
struct Touch {
    hash: String,
    at: Instant,
    pause: Duration,
}

impl Touches {
    /// Of the pods that have not applied `hash`, those whose turn it is. Forgets all others.
    pub fn due(&mut self, waiting: &[String], hash: &str, now: Instant) -> Vec<String> {
        self.0.retain(|pod, touch| touch.hash == hash && waiting.contains(pod));
        let rests =
            |pod: &&String| self.0.get(*pod).is_some_and(|touch| now.duration_since(touch.at) < touch.pause);
        waiting.iter().filter(|pod| !rests(pod)).cloned().collect()
    }

    /// The pod was touched.
    pub fn touched(&mut self, pod: &str, hash: &str, now: Instant) {
        let pause = self.0.get(pod).map_or(FIRST_PAUSE, |touch| (touch.pause * 2).min(LONGEST_PAUSE));
        self.0.insert(pod.to_owned(), Touch { hash: hash.to_owned(), at: now, pause });
    }
}

/// Touches a pod. `now_ms` makes the value another one each time: only a change wakes the kubelet.
///
/// # Errors
///
/// What the API says; a pod that is gone is none.
pub async fn touch(
    client: &Client,
    namespace: &str,
    pod: &str,
    hash: &str,
    now_ms: i64,
) -> Result<(), kube::Error> {
    annotate(client, namespace, pod, annotations::HOT_HASH, &format!("{hash}.{now_ms}")).await
}

/// Tells a pod which queues it should take, as a JSON list of names.
///
/// # Errors
///
/// As [`touch`].
pub async fn assign(client: &Client, namespace: &str, pod: &str, queues: &str) -> Result<(), kube::Error> {
    annotate(client, namespace, pod, annotations::ASSIGNMENT, queues).await
}

async fn annotate(
    client: &Client,
    namespace: &str,
    pod: &str,
    annotation: &str,
    value: &str,
) -> Result<(), kube::Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    let manager = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match pods.patch_metadata(pod, &manager, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_touched_again_after_growing_pauses_until_it_has_applied() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut touches, both) = (Touches::default(), ["a".to_owned(), "b".to_owned()]);
        let mut touched = |waiting: &[String], hash: &str, now| {
            let due = touches.due(waiting, hash, now);
            due.iter().for_each(|pod| touches.touched(pod, hash, now));
            due
        };
        assert_eq!(touched(&both, "1", start), both);
        assert_eq!(touched(&both, "1", after(1)), [""; 0]);
        assert_eq!(touched(&both, "1", after(2)), both);
        assert_eq!(touched(&both, "1", after(5)), [""; 0]);
        assert_eq!(touched(&both, "1", after(6)), both);
        // One has applied it and later needs another: it starts anew.
        assert_eq!(touched(&both[..1], "1", after(7)), [""; 0]);
        assert_eq!(touched(&both, "2", after(8)), both);
        assert_eq!(touched(&both, "2", after(10)), both);
    }

    #[test]
    fn a_touch_that_failed_is_due_still() {
        let (mut touches, pod) = (Touches::default(), ["a".to_owned()]);
        let now = Instant::now();
        assert_eq!(touches.due(&pod, "1", now), pod);
        assert_eq!(touches.due(&pod, "1", now), pod);
        touches.touched("a", "1", now);
        assert_eq!(touches.due(&pod, "1", now), [""; 0]);
    }

    #[test]
    fn pauses_end_growing() {
        let (mut touches, pod) = (Touches::default(), ["a".to_owned()]);
        let mut now = Instant::now();
        for _ in 0..12 {
            assert_eq!(touches.due(&pod, "1", now), pod);
            touches.touched("a", "1", now);
            now += LONGEST_PAUSE;
        }
    }
}
