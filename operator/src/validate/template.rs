//! Whether the pod template can carry the sidecar.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::ResourceExt;
use lockstep_contract::{
    Port, Reason,
    names::{self, KEY_PREFIX, SIDECAR_CONTAINER, VOLUME_PREFIX},
};
use lockstep_crds::ConsumerGroup;

use super::{Rule, Verdict, duplicates};
use crate::build::{application, has_own_hook, is_tcp, port_number};

pub(super) fn check(group: &ConsumerGroup, verdict: &mut Verdict) {
    let mut found = Template { verdict };
    metadata(group, &mut found);
    let spec = group.spec.template.spec.clone().unwrap_or_default();
    containers(&spec, &mut found);
    volumes(&spec, &mut found);
    duplicates::check(&spec, &mut found);
    delivery(group, &spec, &mut found);
    admin_port(group, &spec, &mut found);
    pod(&spec, &mut found);
    hooks(&spec, found.verdict);
}

/// Collects what is wrong.
pub(super) struct Template<'a> {
    verdict: &'a mut Verdict,
}

impl Template<'_> {
    pub(super) fn add(&mut self, rule: Rule, path: &str, problem: impl AsRef<str>, remedy: impl AsRef<str>) {
        self.verdict.fault(rule, path, problem, remedy);
    }
}

/// Labels and annotations below our prefix are written by us alone.
fn metadata(group: &ConsumerGroup, found: &mut Template<'_>) {
    let metadata = group.spec.template.metadata.clone().unwrap_or_default();
    let name = group.name_any();
    let fields = [("labels", metadata.labels), ("annotations", metadata.annotations)];
    for (field, keys) in fields {
        let keys: BTreeMap<String, String> = keys.unwrap_or_default();
        for (key, value) in keys.iter().filter(|(key, _)| key.starts_with(KEY_PREFIX)) {
            let same = field == "labels" && key == names::labels::GROUP && *value == name;
            if !same {
                let path = format!("spec.template.metadata.{field}[{key}]");
                found.add(Rule::Metadata, &path, "is one of Lockstep's own", "remove it");
            }
        }
    }
}

fn containers(spec: &PodSpec, found: &mut Template<'_>) {
    if spec.containers.is_empty() {
        let remedy = "give the application's container: {name: app, image: …}";
        found.add(Rule::Containers, "spec.template.spec.containers", "is empty", remedy);
    }
    for (path, container) in all(spec) {
        if container.name == SIDECAR_CONTAINER {
            let problem = format!("is \"{SIDECAR_CONTAINER}\", the name of Lockstep's own container");
            found.add(Rule::SidecarName, &format!("{path}.name"), problem, "give the container another name");
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
        let remedy = "remove it; add them to running pods with `kubectl debug`";
        found.add(
            Rule::EphemeralContainers,
            "spec.template.spec.ephemeralContainers",
            "is given, which no template may hold",
            remedy,
        );
    }
}

fn volumes(spec: &PodSpec, found: &mut Template<'_>) {
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if volume.name.starts_with(VOLUME_PREFIX) {
            let path = format!("spec.template.spec.volumes[{index}].name");
            let problem =
                format!("is \"{}\"; names that begin with `{VOLUME_PREFIX}` are Lockstep's own", volume.name);
            found.add(Rule::VolumeName, &path, problem, "give the volume another name");
        }
    }
}

fn delivery(group: &ConsumerGroup, spec: &PodSpec, found: &mut Template<'_>) {
    if spec.containers.is_empty() {
        return;
    }
    let Some(container) = application(group) else {
        let name = group.spec.delivery.container_name.as_deref().unwrap_or_default();
        let names: Vec<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
        let problem = match spec.init_containers.iter().flatten().any(|init| init.name == name) {
            true => format!("is \"{name}\", an init container"),
            false => format!("is \"{name}\", which the template does not have"),
        };
        let remedy = format!("give one of spec.template.spec.containers: {}", names.join(", "));
        return found.add(Rule::ContainerThere, "spec.delivery.containerName", problem, remedy);
    };
    let Port::Name(name) = &group.spec.delivery.port else { return };
    if port_number(container, name).is_none() {
        let ports = container.ports.iter().flatten().filter(|port| is_tcp(port));
        let names: Vec<&str> = ports.filter_map(|port| port.name.as_deref()).collect();
        let problem =
            format!("is \"{name}\", which no TCP port of the container \"{}\" is called", container.name);
        let remedy = match names.as_slice() {
            [] => "name one of its ports so, or give the port's number".to_owned(),
            names => format!("give one of {}, or the port's number", names.join(", ")),
        };
        found.add(Rule::PortThere, "spec.delivery.port", problem, remedy);
    }
}

/// The containers of a pod share its ports. That `delivery.port` as a number is another one is a rule of the contract.
fn admin_port(group: &ConsumerGroup, spec: &PodSpec, found: &mut Template<'_>) {
    let admin = i32::from(group.spec.sidecar.admin_port);
    for (path, container) in all(spec) {
        // An ordinary init container has ended when the sidecar starts.
        if path.contains("initContainers") && !is_native_sidecar(container) {
            continue;
        }
        for (index, port) in container.ports.iter().flatten().enumerate().filter(|(_, port)| is_tcp(port)) {
            let field = if port.container_port == admin {
                "containerPort"
            } else if port.host_port == Some(admin) {
                "hostPort"
            } else {
                continue;
            };
            let path = format!("{path}.ports[{index}].{field}");
            let problem = format!("is {admin}, the sidecar's own port");
            found.add(
                Rule::AdminPort,
                &path,
                problem,
                "use another port here, or another one in spec.sidecar.adminPort",
            );
        }
    }
}

fn is_native_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn pod(spec: &PodSpec, found: &mut Template<'_>) {
    if spec.host_network == Some(true) {
        let problem = "is true, so that the sidecar's port would be the node's: open to its network, and taken by the \
                       first pod of a node";
        let remedy =
            "remove it; the application is reached on localhost, and the broker from the pod's network";
        found.add(Rule::HostNetwork, "spec.template.spec.hostNetwork", problem, remedy);
    }
    if let Some(policy) = spec.restart_policy.as_ref().filter(|policy| *policy != "Always") {
        let problem = format!("is {policy}");
        found.add(
            Rule::RestartPolicy,
            "spec.template.spec.restartPolicy",
            problem,
            "write Always, or remove it",
        );
    }
    if spec.active_deadline_seconds.is_some() {
        let problem = "is given, so that pods would end while they deliver";
        found.add(Rule::ActiveDeadline, "spec.template.spec.activeDeadlineSeconds", problem, "remove it");
    }
    if let Some(os) = spec.os.as_ref().filter(|os| os.name != "linux") {
        let problem = format!("is {}; the sidecar runs on Linux alone", os.name);
        found.add(Rule::Os, "spec.template.spec.os.name", problem, "write linux, or remove it");
    }
    if let Some(seconds) = spec.termination_grace_period_seconds.filter(|seconds| *seconds < 0) {
        let remedy = "give what the application itself needs to end, in seconds; the drain's time is added";
        found.add(
            Rule::GracePeriod,
            "spec.template.spec.terminationGracePeriodSeconds",
            format!("is {seconds}"),
            remedy,
        );
    }
}

fn hooks(spec: &PodSpec, verdict: &mut Verdict) {
    for container in spec.containers.iter().filter(|container| has_own_hook(container)) {
        verdict.notice(
            Reason::OwnPreStopHook,
            format!(
                "the container {} has a preStop hook of its own, which is kept: it may end while a message is being \
                 handled, unless the hook waits for GET {}/<UID of the group> on the sidecar's port",
                container.name,
                names::admin::WAIT_FOR_DRAIN
            ),
        );
    }
}

/// Every container with its path, init containers first.
pub(super) fn all(spec: &PodSpec) -> impl Iterator<Item = (String, &Container)> {
    let init = spec.init_containers.iter().flatten().enumerate();
    let init =
        init.map(|(index, container)| (format!("spec.template.spec.initContainers[{index}]"), container));
    let ordinary = spec.containers.iter().enumerate();
    init.chain(
        ordinary.map(|(index, container)| (format!("spec.template.spec.containers[{index}]"), container)),
    )
}
