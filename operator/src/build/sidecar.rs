//! The sidecar's container.

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, HTTPGetAction, Lifecycle,
        LifecycleHandler, ObjectFieldSelector, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
        VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use lockstep_contract::names::{self, admin, env};
use lockstep_crds::SidecarSpec;

use super::Owned;
use crate::rollout::Plan;

/// A native sidecar: started before the application's containers, told last, restarted by itself.
pub(super) fn container(
    spec: &SidecarSpec,
    owned: &Owned,
    plan: &Plan,
    application_grace_seconds: i64,
    mounts: Vec<VolumeMount>,
) -> Container {
    Container {
        name: names::SIDECAR_CONTAINER.to_owned(),
        image: Some(plan.sidecar_image.clone()),
        args: Some(vec!["run".to_owned()]),
        restart_policy: Some("Always".to_owned()),
        env: Some(environment(owned, plan.drain_seconds, application_grace_seconds)),
        ports: Some(vec![ContainerPort {
            name: Some(names::ADMIN_PORT_NAME.to_owned()),
            container_port: spec.admin_port.into(),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        // A minute for a slow node; the process listens as soon as it runs.
        startup_probe: Some(Probe {
            period_seconds: Some(1),
            failure_threshold: Some(60),
            ..probe(spec.admin_port, admin::LIVE)
        }),
        // A minute of silence, so that a starved node makes no restarts.
        liveness_probe: Some(Probe {
            period_seconds: Some(10),
            failure_threshold: Some(6),
            ..probe(spec.admin_port, admin::LIVE)
        }),
        // Often enough that a bad rollout is seen within `minReadySeconds`.
        readiness_probe: Some(Probe {
            period_seconds: Some(2),
            failure_threshold: Some(2),
            ..probe(spec.admin_port, admin::READY)
        }),
        lifecycle: Some(Lifecycle { pre_stop: Some(pre_stop()), ..Lifecycle::default() }),
        resources: Some(spec.resources.clone().unwrap_or_else(default_resources)),
        security_context: Some(restricted()),
        // The reason of an early end stands in the pod's status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn environment(owned: &Owned, drain_seconds: u64, application_grace_seconds: i64) -> Vec<EnvVar> {
    let field = |name: &str, path: &str| EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path: path.to_owned(), api_version: None }),
            ..EnvVarSource::default()
        }),
    };
    let text =
        |name: &str, value: String| EnvVar { name: name.to_owned(), value: Some(value), value_from: None };
    vec![
        field(env::POD_UID, "metadata.uid"),
        field(env::POD_NAME, "metadata.name"),
        field(env::POD_NAMESPACE, "metadata.namespace"),
        field(env::POD_IP, "status.podIP"),
        field(env::NODE_NAME, "spec.nodeName"),
        text(env::GROUP_UID, owned.uid.clone()),
        text(env::APPLICATION_GRACE_SECONDS, application_grace_seconds.to_string()),
        text(env::DRAIN_SECONDS, drain_seconds.to_string()),
    ]
}

/// On the pod's own address: a probe with a host is refused by the baseline Pod Security level.
fn probe(port: u16, path: &str) -> Probe {
    let get = HTTPGetAction {
        path: Some(path.to_owned()),
        port: IntOrString::Int(port.into()),
        ..HTTPGetAction::default()
    };
    Probe { http_get: Some(get), timeout_seconds: Some(5), ..Probe::default() }
}

/// Begins the drain; knows the port from the mounted manifest.
fn pre_stop() -> LifecycleHandler {
    let command = [names::SIDECAR_BINARY, "pre-stop"].map(str::to_owned).to_vec();
    LifecycleHandler { exec: Some(ExecAction { command: Some(command) }), ..LifecycleHandler::default() }
}

/// What a quiet sidecar needs. No limit: a throttled or killed sidecar would stop its queues.
fn default_resources() -> ResourceRequirements {
    let requests = [("cpu", "20m"), ("memory", "32Mi")];
    let requests = requests.map(|(name, value)| (name.to_owned(), Quantity(value.to_owned())));
    ResourceRequirements { requests: Some(requests.into()), ..ResourceRequirements::default() }
}

/// What the restricted Pod Security level asks of a container, and a read-only root.
fn restricted() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        read_only_root_filesystem: Some(true),
        run_as_group: Some(names::SIDECAR_USER),
        run_as_non_root: Some(true),
        run_as_user: Some(names::SIDECAR_USER),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..SecurityContext::default()
    }
}
