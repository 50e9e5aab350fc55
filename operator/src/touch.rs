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
        let mut due = Vec::new();
        for pod in waiting {
            let touch = self.0.get_mut(pod);
            match touch {
                Some(touch) if now.duration_since(touch.at) < touch.pause => continue,
                Some(touch) => {
                    touch.at = now;
                    touch.pause = (touch.pause * 2).min(LONGEST_PAUSE);
                }
                None => {
                    let touch = Touch { hash: hash.to_owned(), at: now, pause: FIRST_PAUSE };
                    self.0.insert(pod.clone(), touch);
                }
            }
            due.push(pod.clone());
        }
        due
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
        assert_eq!(touches.due(&both, "1", start), both);
        assert_eq!(touches.due(&both, "1", after(1)), [""; 0]);
        assert_eq!(touches.due(&both, "1", after(2)), both);
        assert_eq!(touches.due(&both, "1", after(5)), [""; 0]);
        assert_eq!(touches.due(&both, "1", after(6)), both);
        // One has applied it and later needs another: it starts anew.
        assert_eq!(touches.due(&both[..1], "1", after(7)), [""; 0]);
        assert_eq!(touches.due(&both, "2", after(8)), both);
        assert_eq!(touches.due(&both, "2", after(10)), both);
    }

    #[test]
    fn pauses_end_growing() {
        let (mut touches, pod) = (Touches::default(), ["a".to_owned()]);
        let mut now = Instant::now();
        for _ in 0..12 {
            assert_eq!(touches.due(&pod, "1", now), pod);
            now += LONGEST_PAUSE;
        }
    }
}
