//! An operator that looks after some namespaces, and loses its rights in one of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{LoneSite, crowd, operator::Operator};
use crate::{
    api::{holds, paths},
    plan::Plan,
    site::chart,
};

const SYSTEM: &str = "narrow-system";
const NAMESPACES: [&str; 3] = ["narrow-a", "narrow-b", "narrow-c"];
const SERVED_WITHIN: Duration = Duration::from_secs(60);
/// A watch that is refused is begun again after half a minute at most, and a fifth more.
const AGAIN_WITHIN: Duration = Duration::from_secs(120);

/// One namespace without rights holds up no other, and is served when it has them again.
pub(super) fn forbidden(site: &LoneSite, _: &Plan) -> String {
    for namespace in NAMESPACES.iter().chain(&["narrow-d"]) {
        site.namespace(namespace);
    }
    let folder = chart().display().to_string();
    let watched = format!("watchNamespaces={{{}}}", NAMESPACES.join(","));
    let install = ["install", "narrow", &folder, "--namespace", SYSTEM, "--create-namespace"];
    let values = ["--set", "crds.enabled=false,rbac.aggregate=false", "--set", &watched];
    site.cluster
        .helm(&[&install[..], &values].concat())
        .unwrap_or_else(|error| panic!("helm install: {error}"));
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/narrow-b/rolebindings";
    let binding = site.api.list(bindings).remove(0);
    let path = format!("{bindings}/{}", binding["metadata"]["name"].as_str().unwrap());
    site.api.delete(&path, &json!({}));

    let kubeconfig = site.kubeconfig_of("narrow", SYSTEM);
    let names = NAMESPACES.join(",");
    let more = ["--namespace", SYSTEM, "--watch-namespaces", &names];
    let operator = Operator::start("narrow", &kubeconfig, site.cluster.state(), &more);
    for (number, namespace) in NAMESPACES.iter().chain(&["narrow-d"]).enumerate() {
        let group = crowd::group("orders", &format!("narrow-{number}"), site.fakes.port());
        site.api.create(&paths::groups(namespace), &group);
    }
    let path_of = |namespace: &str| format!("{}/orders", paths::groups(namespace));
    let ready = |namespace: &str, limit| {
        site.api.await_object(&path_of(namespace), "the group is ready", limit, |group: &Value| {
            holds(group, "Ready", "True")
        })
    };
    ready("narrow-a", SERVED_WITHIN);
    ready("narrow-c", SERVED_WITHIN);
    for namespace in ["narrow-b", "narrow-d"] {
        let group = site.api.get(&path_of(namespace)).unwrap();
        assert!(group["status"].is_null(), "{namespace} is served: {group:#}");
    }
    assert_eq!(operator.get("/live").0, 200);
    let mut again = binding;
    again["metadata"] = json!({"name": again["metadata"]["name"]});
    site.api.create(bindings, &again);
    ready("narrow-b", AGAIN_WITHIN);
    assert!(site.api.get(&path_of("narrow-d")).unwrap()["status"].is_null());
    "three namespaces served, one of them later".to_owned()
}
