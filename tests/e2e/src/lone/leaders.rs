//! Two operators, one Lease; and an API server that goes away.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{LoneSite, crowd};
use crate::{
    api::{holds, paths},
    plan::Plan,
};

/// Within what time another operator must have taken over.
const TAKEOVER_WITHIN: Duration = Duration::from_secs(20);
const CARRIED_OUT_WITHIN: Duration = Duration::from_secs(60);

/// The second operator takes over when the first is killed; after a restart of the API server groups are served again.
pub(super) fn takeover(site: &LoneSite, _: &Plan) -> String {
    let namespace = site.namespace("leaders");
    let first = site.operator("first");
    let group = crowd::group("orders", "leaders-group", site.fakes.port());
    site.api.create(&paths::groups(&namespace), &group);
    let path = format!("{}/orders", paths::groups(&namespace));
    let ready = |what: &str| {
        site.api.await_object(&path, what, Duration::from_secs(60), |group| {
            holds(group, "Ready", "True")
                && group["status"]["observedGeneration"] == group["metadata"]["generation"]
        })
    };
    ready("the group is ready");
    let mut second = site.operator("second");
    let deployment = format!("{}/orders", paths::deployments(&namespace));
    let scale = |replicas: u32| {
        site.api.merge(&path, &json!({"spec": {"replicas": replicas}}));
        site.api.await_object(&deployment, "the change is carried out", CARRIED_OUT_WITHIN, |deployment| {
            deployment["spec"]["replicas"] == replicas
        });
    };
    scale(2);
    drop(first);
    let since = Instant::now();
    scale(3);
    let took = since.elapsed();
    assert!(took < TAKEOVER_WITHIN, "the second operator took over after {took:?}");
    site.cluster.restart("kube-apiserver");
    let since = Instant::now();
    site.api.merge(&path, &json!({"spec": {"replicas": 1}}));
    let mut ended = "";
    site.api.await_value("the change is carried out", CARRIED_OUT_WITHIN, |api| {
        // An operator that could not renew its Lease for too long ends, and its kubelet starts another.
        if !second.process.is_running() {
            second = site.alone("third");
            ended = " by an operator that was started anew";
        }
        (api.get(&deployment)?["spec"]["replicas"] == 1).then_some(())
    });
    let again = since.elapsed();
    ready("the group is ready again");
    assert_eq!(second.get("/live").0, 200);
    format!(
        "taken over after {:.1} s, {:.1} s after a restart of the API server{ended}",
        took.as_secs_f32(),
        again.as_secs_f32()
    )
}
