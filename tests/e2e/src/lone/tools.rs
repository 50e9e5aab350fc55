//! What people use: `kubectl explain`, `scale` and `wait`, and `helm --wait`.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{LoneSite, crowd};
use crate::{
    api::{holds, paths},
    plan::Plan,
};

/// How long helm may wait for a group that becomes ready, and for one that never does.
const HELM_GOOD: Duration = Duration::from_secs(90);
const HELM_BROKEN: Duration = Duration::from_secs(20);

/// kubectl explains and scales groups; kubectl and helm wait for them, rightly in success, in failure and when paused.
pub(super) fn kubectl_and_helm(site: &LoneSite, _: &Plan) -> String {
    let _operator = site.alone("tools");
    // The API server describes a new resource some moments after it serves it.
    let explained = site.api.await_value("retry is explained", Duration::from_secs(60), |_| {
        site.cluster.try_kubectl(&["explain", "cgrp.spec.retry"]).ok()
    });
    for field in ["maxAttempts", "whenExhausted", "backoff"] {
        assert!(explained.contains(field), "{field} is not explained:\n{explained}");
    }
    let namespace = site.namespace("tools");
    site.api.create(&paths::groups(&namespace), &crowd::group("orders", "tools-group", site.fakes.port()));
    let kubectl = |arguments: &[&str]| {
        site.cluster.try_kubectl(&[&["--namespace", &namespace][..], arguments].concat())
    };
    let must =
        |arguments: &[&str]| kubectl(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    must(&["wait", "--for=condition=Ready", "cgrp/orders", "--timeout=60s"]);
    must(&["scale", "cgrp/orders", "--replicas=2"]);
    let path = format!("{}/orders", paths::groups(&namespace));
    site.api.await_object(&format!("{path}/scale"), "the scale is 2", Duration::from_secs(30), |scale| {
        scale["status"]["replicas"] == 2
            && scale["status"]["selector"].as_str().is_some_and(|selector| selector.contains("orders"))
    });
    site.api.merge(&path, &json!({"spec": {"state": "Paused"}}));
    must(&["wait", "--for=condition=Paused", "cgrp/orders", "--timeout=60s"]);
    must(&["wait", "--for=condition=Ready", "cgrp/orders", "--timeout=60s"]);

    let mut stalled = crowd::group("stalled", "tools-group-2", site.fakes.port());
    stalled["spec"]["delivery"] = json!({"containerName": "nobody"});
    site.api.create(&paths::groups(&namespace), &stalled);
    must(&["wait", "--for=condition=Stalled", "cgrp/stalled", "--timeout=60s"]);
    kubectl(&["wait", "--for=condition=Ready", "cgrp/stalled", "--timeout=1s"])
        .expect_err("a stalled group is Ready");

    let mut paused = crowd::group("released", "tools-group-3", site.fakes.port());
    release(site, &paused, HELM_GOOD).unwrap_or_else(|error| panic!("helm, a good group: {error}"));
    paused["spec"]["state"] = json!("Paused");
    release(site, &paused, HELM_GOOD).unwrap_or_else(|error| panic!("helm, a paused group: {error}"));
    let mut broken = crowd::group("released", "tools-group-3", site.fakes.port());
    broken["spec"]["delivery"] = json!({"containerName": "nobody"});
    let since = Instant::now();
    let refused = release(site, &broken, HELM_BROKEN).expect_err("helm took a stalled group for good");
    let took = since.elapsed();
    let gave_up = refused.contains("deadline exceeded") || refused.contains("timed out");
    assert!(
        took < HELM_BROKEN / 2 || !gave_up,
        "helm did not see that the group failed: {took:?}, {refused}"
    );
    let released = site.api.get(&format!("{}/released", paths::groups("released"))).unwrap_or_default();
    assert!(holds(&released, "Stalled", "True"), "{released:#}");
    format!("helm said of a stalled group: {}", refused.lines().last().unwrap_or_default())
}

/// `helm upgrade --install --wait` of a chart that holds one group.
fn release(site: &LoneSite, group: &Value, limit: Duration) -> Result<String, String> {
    let chart = site.cluster.state().join("released");
    write(&chart.join("Chart.yaml"), &json!({"apiVersion": "v2", "name": "released", "version": "0.1.0"}));
    write(&chart.join("templates").join("group.yaml"), group);
    let chart = chart.display().to_string();
    let limit = format!("--timeout={}s", limit.as_secs());
    let wait = ["--namespace", "released", "--create-namespace", "--wait", &limit];
    site.cluster.helm(&[&["upgrade", "--install", "released", &chart][..], &wait].concat())
}

fn write(file: &Path, value: &Value) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, value.to_string()).unwrap();
}
