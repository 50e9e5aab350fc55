//! Members that Kubernetes tells apart by a key, given twice. Server-side apply can't write such a list, and says so with
//! an internal error that nobody could act on.
//!
//! The keys are those of `x-kubernetes-list-map-keys` in Kubernetes' OpenAPI description of a pod template. Its other
//! lists, such as tolerations, are written as a whole and may repeat themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use super::{
    Rule,
    template::{Template, all},
};

const POD: &str = "spec.template.spec";

pub(super) fn check(spec: &PodSpec, found: &mut Template<'_>) {
    // One name space for all kinds of containers.
    let names = all(spec).map(|(path, container)| (format!("{path}.name"), container.name.clone()));
    once(Rule::ContainerOnce, names, found);
    for (path, container) in all(spec) {
        of_container(&path, container, found);
    }
    list(
        Rule::VolumeOnce,
        POD,
        "volumes[].name",
        spec.volumes.iter().flatten().map(|volume| volume.name.clone()),
        found,
    );
    list(
        Rule::HostAliasOnce,
        POD,
        "hostAliases[].ip",
        spec.host_aliases.iter().flatten().map(|alias| alias.ip.clone()),
        found,
    );
    let secrets = spec.image_pull_secrets.iter().flatten();
    list(
        Rule::PullSecretOnce,
        POD,
        "imagePullSecrets[].name",
        secrets.map(|secret| secret.name.clone()),
        found,
    );
    let claims = spec.resource_claims.iter().flatten();
    list(Rule::ClaimOnce, POD, "resourceClaims[].name", claims.map(|claim| claim.name.clone()), found);
    let gates = spec.scheduling_gates.iter().flatten();
    list(Rule::GateOnce, POD, "schedulingGates[].name", gates.map(|gate| gate.name.clone()), found);
    let spreads = spec.topology_spread_constraints.iter().flatten();
    let spreads = spreads.map(|spread| format!("{} {}", spread.topology_key, spread.when_unsatisfiable));
    list(Rule::SpreadOnce, POD, "topologySpreadConstraints[].topologyKey", spreads, found);
    of_resources(POD, spec.resources.as_ref(), found);
}

fn of_container(path: &str, container: &Container, found: &mut Template<'_>) {
    let variables = container.env.iter().flatten();
    list(Rule::VariableOnce, path, "env[].name", variables.map(|variable| variable.name.clone()), found);
    let ports = container.ports.iter().flatten();
    let ports =
        ports.map(|port| format!("{}/{}", port.container_port, port.protocol.as_deref().unwrap_or("TCP")));
    list(Rule::PortOnce, path, "ports[].containerPort", ports, found);
    let mounts = container.volume_mounts.iter().flatten();
    list(
        Rule::MountOnce,
        path,
        "volumeMounts[].mountPath",
        mounts.map(|mount| mount.mount_path.clone()),
        found,
    );
    let devices = container.volume_devices.iter().flatten();
    list(
        Rule::DeviceOnce,
        path,
        "volumeDevices[].devicePath",
        devices.map(|device| device.device_path.clone()),
        found,
    );
    of_resources(path, container.resources.as_ref(), found);
}

fn of_resources(path: &str, resources: Option<&ResourceRequirements>, found: &mut Template<'_>) {
    let claims = resources.into_iter().flat_map(|resources| resources.claims.iter().flatten());
    list(Rule::ClaimUseOnce, path, "resources.claims[].name", claims.map(|claim| claim.name.clone()), found);
}

/// The members of one list; `field` has empty brackets where their index belongs.
fn list(rule: Rule, path: &str, field: &str, keys: impl Iterator<Item = String>, found: &mut Template<'_>) {
    let at = |index| format!("{path}.{}", field.replace("[]", &format!("[{index}]")));
    once(rule, keys.enumerate().map(|(index, key)| (at(index), key)), found);
}

fn once(rule: Rule, keys: impl Iterator<Item = (String, String)>, found: &mut Template<'_>) {
    let mut first = BTreeMap::new();
    for (path, key) in keys {
        if let Some(before) = first.get(&key) {
            let problem = format!("is \"{key}\", as {before} is");
            found.add(rule, &path, problem, "remove one of the two, or give it another value");
        } else {
            first.insert(key, path);
        }
    }
}
