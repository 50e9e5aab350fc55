//! Every list whose members Kubernetes tells apart by a key.

use super::{refused, taken};

/// A pod that holds a key twice, the second place, the key, and the first place.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str, &str)] = &[
    ("containers: [{name: app}, {name: app}]", "containers[1].name", "app", "containers[0].name"),
    ("containers: [{name: app}], initContainers: [{name: app}]", "containers[0].name", "app", "initContainers[0].name"),
    ("containers: [{name: app, env: [{name: A, value: x}, {name: B}, {name: A, value: y}]}]", "containers[0].env[2].name", "A", "containers[0].env[0].name"),
    ("containers: [{name: app, ports: [{containerPort: 80}, {name: web, containerPort: 80, protocol: TCP}]}]", "containers[0].ports[1].containerPort", "80/TCP", "containers[0].ports[0].containerPort"),
    ("containers: [{name: app, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]}]", "containers[0].volumeMounts[1].mountPath", "/a", "containers[0].volumeMounts[0].mountPath"),
    ("containers: [{name: app, volumeDevices: [{name: a, devicePath: /a}, {name: b, devicePath: /a}]}]", "containers[0].volumeDevices[1].devicePath", "/a", "containers[0].volumeDevices[0].devicePath"),
    ("containers: [{name: app, resources: {claims: [{name: gpu}, {name: gpu}]}}]", "containers[0].resources.claims[1].name", "gpu", "containers[0].resources.claims[0].name"),
    ("volumes: [{name: a}, {name: a}]", "volumes[1].name", "a", "volumes[0].name"),
    ("hostAliases: [{ip: 1.1.1.1}, {ip: 1.1.1.1}]", "hostAliases[1].ip", "1.1.1.1", "hostAliases[0].ip"),
    ("imagePullSecrets: [{name: a}, {name: a}]", "imagePullSecrets[1].name", "a", "imagePullSecrets[0].name"),
    ("resourceClaims: [{name: a}, {name: a}]", "resourceClaims[1].name", "a", "resourceClaims[0].name"),
    ("resources: {claims: [{name: gpu}, {name: gpu}]}", "resources.claims[1].name", "gpu", "resources.claims[0].name"),
    ("schedulingGates: [{name: a}, {name: a}]", "schedulingGates[1].name", "a", "schedulingGates[0].name"),
    ("topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: Never}]", "topologySpreadConstraints[1].topologyKey", "zone Never", "topologySpreadConstraints[0].topologyKey"),
];

#[test]
fn a_key_is_given_once() {
    for (snippet, second, key, first) in CASES {
        refused(
            &format!("spec: {{template: {{spec: {{{snippet}}}}}}}"),
            &[&format!(
                "InvalidTemplate: spec.template.spec.{second}: is \"{key}\", as spec.template.spec.{first} is; \
                 remove one of the two, or give it another value"
            )],
        );
    }
}

#[test]
fn the_same_key_may_stand_in_another_list_or_be_a_part_of_it() {
    taken(
        "spec: {template: {spec: {containers: [
            {name: app, env: [{name: A}], ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]},
            {name: log, env: [{name: A}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b}]}],
          volumes: [{name: a, emptyDir: {}}],
          tolerations: [{key: a, operator: Exists}, {key: a, operator: Exists}],
          topologySpreadConstraints: [
            {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule},
            {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}",
    );
}
