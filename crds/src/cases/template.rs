//! Cases of what only the operator can judge: the pod template as a whole, and other objects.

use lockstep_contract::Reason;

use super::{
    Base, BesideRule, Case,
    Held::{Beside, Once, Spec, Template, Told},
    Keyed, Refused, SpecRule, TemplateRule, ToldRule, case, told,
};

const fn template(rule: TemplateRule, keeps: &'static str, breaks: &'static str) -> Case {
    case(Template(rule), Base::Rocket, keeps, breaks, Refused::ByOperator(Reason::InvalidTemplate))
}

const fn beside(rule: BesideRule, reason: Reason, keeps: &'static str, object: &'static str) -> Case {
    let mut case = case(Beside(rule), Base::Rocket, keeps, "{}", Refused::ByOperator(reason));
    case.beside = object;
    case
}

const fn once(list: Keyed, keeps: &'static str, breaks: &'static str) -> Case {
    case(Once(list), Base::Rocket, keeps, breaks, Refused::ByOperator(Reason::InvalidTemplate))
}

const fn spec(rule: SpecRule, base: Base, reason: Reason, keeps: &'static str, breaks: &'static str) -> Case {
    case(Spec(rule), base, keeps, breaks, Refused::ByOperator(reason))
}

const fn of_kubernetes(rule: ToldRule, reason: Reason, keeps: &'static str, breaks: &'static str) -> Case {
    case(Told(rule), Base::Rocket, keeps, breaks, Refused::ByOperator(reason))
}

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    told(template(TemplateRule::ContainerName, "spec: {template: {spec: {containers: [{name: app, image: app}, {name: lockstep-app, image: app}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app}, {name: lockstep, image: app}]}}}"), "spec.template.spec.containers[1].name", "lockstep"),
    told(template(TemplateRule::InitContainerName, "spec: {template: {spec: {initContainers: [{name: migrate, image: app}, {name: proxy, image: app, restartPolicy: Always}]}}}", "spec: {template: {spec: {initContainers: [{name: lockstep, image: app}]}}}"), "spec.template.spec.initContainers[0].name", "lockstep"),
    told(template(TemplateRule::VolumeName, "spec: {template: {spec: {volumes: [{name: cold, emptyDir: {sizeLimit: 1000000}}]}}}", "spec: {template: {spec: {volumes: [{name: lockstep-cold, emptyDir: {}}]}}}"), "spec.template.spec.volumes[0].name", "lockstep-"),
    told(template(TemplateRule::ContainerThere, "spec: {delivery: {containerName: app}}", "spec: {delivery: {containerName: web}}"), "spec.delivery.containerName", "web"),
    told(template(TemplateRule::PortThere, "spec: {delivery: {port: http}}", "spec: {delivery: {port: grpc}}"), "spec.delivery.port", "grpc"),
    told(template(TemplateRule::PortThere, "spec: {delivery: {containerName: web, port: web}, template: {spec: {containers: [{name: app, image: app}, {name: web, image: app, ports: [{name: web, containerPort: 1}]}]}}}", "spec: {delivery: {containerName: web, port: http}, template: {spec: {containers: [{name: app, image: app, ports: [{name: http, containerPort: 8080}]}, {name: web, image: app}]}}}"), "spec.delivery.port", "http"),
    told(template(TemplateRule::PortClash, "spec: {delivery: {port: http}, sidecar: {adminPort: 9000}}", "spec: {delivery: {port: http}, sidecar: {adminPort: 8080}}"), "spec.template.spec.containers[0].ports[0].containerPort", "adminPort"),
    told(template(TemplateRule::ContainerPort, "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 15465}]}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 15464}]}]}}}"), "spec.template.spec.containers[0].ports[0].containerPort", "adminPort"),
    told(template(TemplateRule::ContainerPort, "spec: {template: {spec: {initContainers: [{name: migrate, image: app, ports: [{containerPort: 15464}]}]}}}", "spec: {template: {spec: {initContainers: [{name: proxy, image: app, restartPolicy: Always, ports: [{containerPort: 15464}]}]}}}"), "spec.template.spec.initContainers[0].ports[0].containerPort", "adminPort"),
    told(template(TemplateRule::HostPort, "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 80, hostPort: 15465}]}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 80, hostPort: 15464}]}]}}}"), "spec.template.spec.containers[0].ports[0].hostPort", "adminPort"),
    told(template(TemplateRule::Labels, "spec: {template: {metadata: {labels: {lockstep.dev/consumergroup: orders}}}}", "spec: {template: {metadata: {labels: {lockstep.dev/consumergroup: others}}}}"), "spec.template.metadata.labels", "lockstep.dev/consumergroup"),
    told(template(TemplateRule::Annotations, "spec: {template: {metadata: {annotations: {example.dev/hot-hash: a}}}}", "spec: {template: {metadata: {annotations: {lockstep.dev/hot-hash: a}}}}"), "spec.template.metadata.annotations", "lockstep.dev/hot-hash"),
    told(beside(BesideRule::OneGroup, Reason::DuplicateConsumerGroup, "spec: {source: {rocketmq: {consumerGroup: others}}}", "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: first}
spec:
  source: {rocketmq: {nameServers: ['rocketmq-namesrv.mq:9876'], consumerGroup: shop-orders, subscriptions: [{topic: orders}]}}
  template: {spec: {containers: [{name: app, image: 'registry.example/orders:1'}]}}
"), "spec.source.rocketmq.consumerGroup", "first"),
    told(beside(BesideRule::DeploymentOwned, Reason::ChildNotOwned, "metadata: {name: others}", "
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec: {containers: [{name: app, image: 'registry.example/orders:1'}]}
"), "metadata.name", "Deployment orders"),
    told(once(Keyed::Container, "spec: {template: {spec: {containers: [{name: app, image: app}, {name: log, image: app}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app}, {name: app, image: app}]}}}"), "spec.template.spec.containers[1].name", "containers[0].name"),
    told(once(Keyed::Container, "spec: {template: {spec: {containers: [{name: app, image: app}], initContainers: [{name: log, image: app}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app}], initContainers: [{name: app, image: app}]}}}"), "spec.template.spec.containers[0].name", "initContainers[0].name"),
    told(once(Keyed::Variable, "spec: {template: {spec: {containers: [{name: app, image: app, env: [{name: A, value: x}, {name: B, value: x}]}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, env: [{name: A, value: x}, {name: A, value: y}]}]}}}"), "spec.template.spec.containers[0].env[1].name", "remove one"),
    told(once(Keyed::Port, "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}]}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, ports: [{containerPort: 53}, {containerPort: 53, protocol: TCP}]}]}}}"), "spec.template.spec.containers[0].ports[1].containerPort", "53/TCP"),
    told(once(Keyed::Mount, "spec: {template: {spec: {containers: [{name: app, image: app, volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b}]}], volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]}], volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]}}}"), "spec.template.spec.containers[0].volumeMounts[1].mountPath", "remove one"),
    told(once(Keyed::Device, "spec: {template: {spec: {containers: [{name: app, image: app, volumeDevices: [{name: a, devicePath: /a}, {name: b, devicePath: /b}]}], volumes: [{name: a, persistentVolumeClaim: {claimName: a}}, {name: b, persistentVolumeClaim: {claimName: b}}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, volumeDevices: [{name: a, devicePath: /a}, {name: b, devicePath: /a}]}], volumes: [{name: a, persistentVolumeClaim: {claimName: a}}, {name: b, persistentVolumeClaim: {claimName: b}}]}}}"), "spec.template.spec.containers[0].volumeDevices[1].devicePath", "remove one"),
    told(once(Keyed::ContainerClaim, "spec: {template: {spec: {containers: [{name: app, image: app, resources: {claims: [{name: a}, {name: b}]}}], resourceClaims: [{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, resources: {claims: [{name: a}, {name: a}]}}], resourceClaims: [{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}]}}}"), "spec.template.spec.containers[0].resources.claims[1].name", "remove one"),
    told(once(Keyed::PodClaim, "spec: {template: {spec: {resources: {limits: {cpu: 1, memory: 64Mi}}}}}", "spec: {template: {spec: {resources: {claims: [{name: a}, {name: a}]}, resourceClaims: [{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}]}}}"), "spec.template.spec.resources.claims[1].name", "remove one"),
    told(once(Keyed::Volume, "spec: {template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]}}}", "spec: {template: {spec: {volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}}}"), "spec.template.spec.volumes[1].name", "remove one"),
    told(once(Keyed::HostAlias, "spec: {template: {spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.2, hostnames: [a]}]}}}", "spec: {template: {spec: {hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.1, hostnames: [b]}]}}}"), "spec.template.spec.hostAliases[1].ip", "remove one"),
    told(once(Keyed::PullSecret, "spec: {template: {spec: {imagePullSecrets: [{name: a}, {name: b}]}}}", "spec: {template: {spec: {imagePullSecrets: [{name: a}, {name: a}]}}}"), "spec.template.spec.imagePullSecrets[1].name", "remove one"),
    told(once(Keyed::ResourceClaim, "spec: {template: {spec: {containers: [{name: app, image: app, resources: {claims: [{name: a}, {name: b}]}}], resourceClaims: [{name: a, resourceClaimName: a}, {name: b, resourceClaimName: b}]}}}", "spec: {template: {spec: {resourceClaims: [{name: a, resourceClaimName: a}, {name: a, resourceClaimName: b}]}}}"), "spec.template.spec.resourceClaims[1].name", "remove one"),
    told(once(Keyed::Gate, "spec: {template: {spec: {schedulingGates: [{name: example.dev/a}, {name: example.dev/b}]}}}", "spec: {template: {spec: {schedulingGates: [{name: example.dev/a}, {name: example.dev/a}]}}}"), "spec.template.spec.schedulingGates[1].name", "remove one"),
    told(once(Keyed::Spread, "spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}}", "spec: {template: {spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}}"), "spec.template.spec.topologySpreadConstraints[1].topologyKey", "remove one"),
    told(spec(SpecRule::SidecarImage, Base::Rocket, Reason::InvalidSpec, "spec: {sidecar: {image: 'registry.example/sidecar:1'}}", "spec: {sidecar: {image: ' '}}"), "spec.sidecar.image", "leave the field out"),
    told(beside(BesideRule::ConfigMapOwned, Reason::ChildNotOwned, "metadata: {name: others}", "
apiVersion: v1
kind: ConfigMap
metadata: {name: orders-hot}
"), "metadata.name", "ConfigMap orders-hot"),
    told(beside(BesideRule::DisruptionBudgetOwned, Reason::ChildNotOwned, "spec: {podDisruptionBudget: None}", "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: orders}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: others}}}
"), "metadata.name", "PodDisruptionBudget orders"),
    told(of_kubernetes(ToldRule::ChildTaken, Reason::ChildRefused, "spec: {template: {spec: {containers: [{name: app, image: app, volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]}}}", "spec: {template: {spec: {containers: [{name: app, image: app, volumeMounts: [{name: data, mountPath: /data}]}]}}}"), "spec.template.spec.containers[0].volumeMounts[0].name", "Not found"),
    told(of_kubernetes(ToldRule::ImageName, Reason::InvalidTemplate, "{}", "spec: {template: {spec: {containers: [{name: app, image: 'registry.example/Orders:1'}]}}}"), "spec.template", "InvalidImageName"),
];
