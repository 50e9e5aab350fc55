//! The pods of groups, and what their sidecars say.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use futures_util::{FutureExt, future::BoxFuture};
use lockstep_operator::poll::Fetch;
use serde_json::{Value, json};

use crate::fake::Fake;

#[derive(Debug, Default)]
struct Inner {
    says: BTreeMap<IpAddr, Value>,
    busy: bool,
    asked: u64,
}

/// Sidecars that are asked without a network, so that the clock can be paused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sidecars(Arc<Mutex<Inner>>);

impl Sidecars {
    /// Does Kubernetes' part for the group's Deployment, with two pods `<group>-5d5b-a` and `-b` that have applied the hot
    /// configuration and deliver.
    pub(crate) fn roll_out(&self, fake: &Fake, group: &str) {
        let mut deployment = fake.get("deployments", group).unwrap();
        let hot = fake.get("configmaps", &format!("{group}-hot")).unwrap();
        let hot = &hot["metadata"]["annotations"]["lockstep.dev/hot-hash"];
        let labels = json!({"lockstep.dev/consumergroup": group, "pod-template-hash": "5d5b"});
        let owner = |kind, name: &str, uid: &Value| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        let set_name = format!("{group}-5d5b");
        let set = json!({
            "metadata": {
                "labels": labels,
                "ownerReferences": owner("Deployment", group, &deployment["metadata"]["uid"]),
            },
            "spec": {"selector": {}, "template": deployment["spec"]["template"]},
        });
        let generation = deployment["metadata"]["generation"].clone();
        deployment["status"] = json!({
            "observedGeneration": generation,
            "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
        });
        fake.edit(|store| {
            let set = store.put("replicasets", "shop", &set_name, set);
            for end in ["a", "b"] {
                let mut inner = self.0.lock().unwrap();
                let number = u16::try_from(inner.says.len()).unwrap();
                let [high, low] = number.to_be_bytes();
                let ip = IpAddr::from([10, 0, high, low]);
                inner.says.insert(ip, status(hot));
                let sidecar = json!({
                    "name": "lockstep", "started": true, "ready": true, "restartCount": 0, "image": "", "imageID": "",
                });
                let pod = json!({
                    "metadata": {
                        "labels": labels,
                        "ownerReferences": owner("ReplicaSet", &set_name, &set["metadata"]["uid"]),
                    },
                    "spec": {"containers": []},
                    "status": {"phase": "Running", "podIP": ip.to_string(), "initContainerStatuses": [sidecar]},
                });
                store.put("pods", "shop", &format!("{set_name}-{end}"), pod);
            }
            store.put("deployments", "shop", group, deployment);
        });
    }

    /// Whether each answer tells of another backlog.
    pub(crate) fn busy(&self, busy: bool) {
        self.0.lock().unwrap().busy = busy;
    }

    /// Changes what all of them say.
    pub(crate) fn all(&self, change: impl Fn(&mut Value)) {
        self.0.lock().unwrap().says.values_mut().for_each(change);
    }

    /// How often one was asked.
    pub(crate) fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }
}

impl Fetch for Sidecars {
    fn fetch(&self, sidecar: SocketAddr) -> BoxFuture<'_, Result<Vec<u8>, String>> {
        let inner = &mut *self.0.lock().unwrap();
        inner.asked += 1;
        let mut says = inner.says.get(&sidecar.ip()).cloned().ok_or_else(|| "no connection".to_owned());
        if let (Ok(says), true) = (&mut says, inner.busy) {
            // Two digits: more are rounded off.
            says["totals"]["backlog"] = json!(10 + inner.asked % 89);
        }
        async move { Ok(says?.to_string().into_bytes()) }.boxed()
    }
}

fn status(hot: &Value) -> Value {
    json!({
        "format": 1, "phase": "Running", "ready": true,
        "config": {"hotHash": hot},
        "application": {"health": "Healthy", "reason": "Healthy"},
        "source": {"connected": true},
        "totals": {"known": 8, "owned": 4, "backlog": 10},
    })
}
