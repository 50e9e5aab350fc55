//! What the operator may do, and what its pods and the groups' are.

use crate::{
    group::{PATIENCE, Setting},
    plan::Plan,
    site::{SYSTEM, Site},
    world::World,
};

/// The operator reads no Secret and changes no pod; its pods and the groups' run where `restricted` is enforced.
pub(super) fn operator_and_pods(site: &Site, _: &Plan) -> String {
    let world = World::new(site, "rights");
    world.apply(&Setting { replicas: 1, ..Setting::default() });
    world.await_settled(PATIENCE);
    let accounts = world.site.api.list(&format!("/apis/apps/v1/namespaces/{SYSTEM}/deployments"));
    let account = accounts[0]["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap().to_owned();
    let operator = format!("--as=system:serviceaccount:{SYSTEM}:{account}");
    let may = |verb: &str, resource: &str| {
        let answer = site.cluster.try_kubectl(&["auth", "can-i", verb, resource, "-A", &operator]);
        answer.is_ok_and(|answer| answer.trim() == "yes")
    };
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
        assert!(!may(verb, "secrets"), "the operator may {verb} secrets");
    }
    assert!(may("patch", "pods"), "the operator must be able to touch its pods");
    let pods = world.pods();
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let patch = |patch: &str| {
        let arguments = [
            "--namespace",
            &world.namespace,
            "patch",
            "pod",
            name,
            "--type=merge",
            &operator,
            "--patch",
            patch,
        ];
        site.cluster.try_kubectl(&arguments)
    };
    let image = r#"{"spec":{"containers":[{"name":"app","image":"localhost/other:1"}]}}"#;
    let refused = patch(image).expect_err("the operator changed a pod's image");
    let label = patch(r#"{"metadata":{"labels":{"stranger":"yes"}}}"#);
    label.expect_err("the operator changed a pod's labels");
    let foreign = patch(r#"{"metadata":{"annotations":{"stranger":"yes"}}}"#);
    foreign.expect_err("the operator changed a stranger's annotation");
    patch(r#"{"metadata":{"annotations":{"lockstep.dev/hot-hash":"x"}}}"#)
        .unwrap_or_else(|error| panic!("the operator may not touch its own annotation: {error}"));
    for namespace in [SYSTEM, &world.namespace] {
        let labelled = site.cluster.try_kubectl(&[
            "label",
            "--dry-run=server",
            "--overwrite",
            "namespace",
            namespace,
            "pod-security.kubernetes.io/enforce=restricted",
        ]);
        let said = labelled.unwrap_or_else(|error| panic!("{error}"));
        assert!(!said.contains("violate"), "{namespace}: {said}");
    }
    format!("refused with: {}", refused.lines().next().unwrap_or_default())
}
