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

/// The second operator takes over when the first is killed, and goes on when the API server was restarted.
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
    let second = site.operator("second");
    let deployment = format!("{}/orders", paths::deployments(&namespace));
    let scale = |replicas: u32| {
        site.api.merge(&path, &json!({"spec": {"replicas": replicas}}));
        let since = Instant::now();
        site.api.await_object(
            &deployment,
            "the change is carried out",
            Duration::from_secs(60),
            |deployment| deployment["spec"]["replicas"] == replicas,
        );
        since.elapsed()
    };
    scale(2);
    drop(first);
    let took = scale(3);
    assert!(took < TAKEOVER_WITHIN, "the second operator took over after {took:?}");
    site.cluster.restart("kube-apiserver");
    let again = scale(1);
    ready("the group is ready again");
    assert_eq!(second.get("/live").0, 200);
    format!(
        "taken over after {:.1} s, {:.1} s after a restart of the API server",
        took.as_secs_f32(),
        again.as_secs_f32()
    )
}
