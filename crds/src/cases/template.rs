//! Cases of what only the operator can judge: the pod template as a whole, and other objects.

use lockstep_contract::Reason;

use super::{
    Base, BesideRule, Case,
    Held::{Beside, Template},
    Refused, TemplateRule, case, told,
};

const fn template(rule: TemplateRule, keeps: &'static str, breaks: &'static str) -> Case {
    case(Template(rule), Base::Rocket, keeps, breaks, Refused::ByOperator(Reason::InvalidTemplate))
}

const fn beside(rule: BesideRule, reason: Reason, keeps: &'static str, object: &'static str) -> Case {
    let mut case = case(Beside(rule), Base::Rocket, keeps, "{}", Refused::ByOperator(reason));
    case.beside = object;
    case
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
    told(beside(BesideRule::ChildOwned, Reason::ChildNotOwned, "metadata: {name: others}", "
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec: {containers: [{name: app, image: 'registry.example/orders:1'}]}
"), "metadata.name", "Deployment orders"),
];
