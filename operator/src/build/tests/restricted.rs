//! The restricted Pod Security level, as the Kubernetes documentation lists it, for what Lockstep adds to a pod.

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::{children, full, observed, pod};

/// Whether a volume has one of the kinds that the level allows.
fn is_allowed(volume: &Volume) -> bool {
    let kinds = serde_json::to_value(volume).unwrap();
    let kinds = kinds.as_object().unwrap().keys().filter(|key| *key != "name");
    let allowed = ["configMap", "downwardAPI", "emptyDir", "projected", "secret"];
    kinds.into_iter().all(|kind| allowed.contains(&kind.as_str()))
}

fn is_restricted(container: &Container) {
    let context = container.security_context.as_ref().unwrap();
    assert_eq!(context.allow_privilege_escalation, Some(false));
    let capabilities = context.capabilities.as_ref().unwrap();
    assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(capabilities.add, None);
    assert_eq!(context.run_as_non_root, Some(true));
    assert!(context.run_as_user.unwrap() > 0);
    assert_eq!(context.seccomp_profile.as_ref().unwrap().type_, "RuntimeDefault");
    assert_eq!(context.privileged, None);
    assert_eq!(context.proc_mount, None);
    let ports = container.ports.iter().flatten();
    assert!(ports.into_iter().all(|port| port.host_port.is_none()));
}

/// Since Kubernetes 1.34 the baseline level allows no host in probes and hooks.
fn hosts(pod: &PodSpec) -> usize {
    serde_json::to_string(pod).unwrap().matches("\"host\":").count()
}

#[test]
fn what_is_added_passes_the_restricted_level() {
    for observed in [observed(""), full()] {
        let made = children(&observed);
        let pod = pod(&made);
        let sidecar = pod.init_containers.as_ref().unwrap().last().unwrap();
        is_restricted(sidecar);
        // Whatever the user chose for the pod, these are the container's own.
        let context = sidecar.security_context.as_ref().unwrap();
        assert_eq!((context.run_as_user, context.run_as_group), (Some(65_532), Some(65_532)));
        assert_eq!(context.read_only_root_filesystem, Some(true));
        let added = pod.volumes.iter().flatten().filter(|volume| volume.name.starts_with("lockstep-"));
        for volume in added {
            assert!(is_allowed(volume), "{volume:?}");
        }
        assert_eq!(hosts(pod), 0);
        let given = observed.group.spec.template.spec.as_ref().unwrap();
        assert_eq!(pod.security_context, given.security_context, "the pod's own is the user's");
    }
}
