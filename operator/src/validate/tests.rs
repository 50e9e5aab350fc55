//! Every rule with a case that breaks it and one that does not.

mod cases;
mod duplicates;

use std::sync::Arc;

use lockstep_contract::Reason;

use super::validate;
use crate::{
    facts::Observed,
    test_support::{children, group, object, observed},
};

/// The faults as text.
fn faults(observed: &Observed) -> Vec<String> {
    validate(observed).faults.iter().map(|fault| format!("{}: {}", fault.reason(), fault.message)).collect()
}

#[track_caller]
fn refused(snippet: &str, expected: &[&str]) {
    assert_eq!(faults(&observed(snippet)), expected, "{snippet}");
}

#[track_caller]
fn taken(snippet: &str) {
    let observed = observed(snippet);
    assert_eq!(faults(&observed), [""; 0], "{snippet}");
    // What passes can be built.
    children(&observed);
}

#[test]
fn the_smallest_group_passes() {
    taken("");
    assert_eq!(validate(&observed("")).notices, []);
}

#[test]
fn a_template_needs_containers() {
    refused(
        "spec: {template: {spec: {containers: []}}}",
        &[
            "InvalidTemplate: spec.template.spec.containers: is empty; give the application's container: {name: app, image: …}",
        ],
    );
    let mut observed = observed("");
    let mut without = group("");
    without.spec.template.spec = None;
    observed.group = Arc::new(without);
    assert_eq!(faults(&observed).len(), 1);
}

#[test]
fn the_sidecars_name_is_taken() {
    let remedy = "is \"lockstep\", the name of Lockstep's own container; give the container another name";
    refused(
        "spec: {template: {spec: {containers: [{name: app}, {name: lockstep}]}}}",
        &[&format!("InvalidTemplate: spec.template.spec.containers[1].name: {remedy}")],
    );
    refused(
        "spec: {template: {spec: {initContainers: [{name: lockstep}]}}}",
        &[&format!("InvalidTemplate: spec.template.spec.initContainers[0].name: {remedy}")],
    );
    taken("spec: {template: {spec: {initContainers: [{name: lockstep-init}]}}}");
}

#[test]
fn volumes_that_begin_with_our_prefix_are_taken() {
    refused(
        "spec: {template: {spec: {volumes: [{name: data}, {name: lockstep-hot, emptyDir: {}}]}}}",
        &["InvalidTemplate: spec.template.spec.volumes[1].name: is \"lockstep-hot\"; names that begin with \
             `lockstep-` are Lockstep's own; give the volume another name"],
    );
    taken("spec: {template: {spec: {volumes: [{name: lockstep, emptyDir: {}}]}}}");
}

#[test]
fn the_nodes_network_is_refused() {
    let found = faults(&observed("spec: {template: {spec: {hostNetwork: true}}}"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("InvalidTemplate: spec.template.spec.hostNetwork: is true,"), "{found:?}");
    taken("spec: {template: {spec: {hostNetwork: false, hostPID: true, shareProcessNamespace: true}}}");
}

#[test]
fn a_port_belongs_to_one_container() {
    let remedy =
        "is 15464, the sidecar's own port; use another port here, or another one in spec.sidecar.adminPort";
    let clash = "{template: {spec: {containers: [{name: app, ports: [{containerPort: 80}, {containerPort: 15464}]}]}}}";
    refused(
        &format!("spec: {clash}"),
        &[&format!("InvalidTemplate: spec.template.spec.containers[0].ports[1].containerPort: {remedy}")],
    );
    taken(&format!("spec: {}", clash.replacen('{', "{sidecar: {adminPort: 15465}, ", 1)));
    refused(
        "spec: {template: {spec: {containers: [{name: app, ports: [{containerPort: 80, hostPort: 15464}]}]}}}",
        &[&format!("InvalidTemplate: spec.template.spec.containers[0].ports[0].hostPort: {remedy}")],
    );
    let init = "spec: {template: {spec: {initContainers: [{name: i, restartPolicy: POLICY, ports: [{containerPort: 15464}]}]}}}";
    refused(
        &init.replace("POLICY", "Always"),
        &[&format!("InvalidTemplate: spec.template.spec.initContainers[0].ports[0].containerPort: {remedy}")],
    );
    // It has ended before.
    taken(&init.replace("restartPolicy: POLICY, ", ""));
    taken(
        "spec: {template: {spec: {containers: [{name: app, ports: [{containerPort: 15464, protocol: UDP}]}]}}}",
    );
    refused(
        "spec: {delivery: {port: 15464}}",
        &[
            "InvalidSpec: spec.sidecar.adminPort: is 15464, the application's port; give the sidecar a port of its \
             own",
        ],
    );
}

#[test]
fn the_receiving_container_is_one_of_the_template() {
    let two = "template: {spec: {containers: [{name: app}, {name: log}], initContainers: [{name: first}]}}";
    refused(
        &format!("spec: {{delivery: {{containerName: web}}, {two}}}"),
        &[
            "InvalidTemplate: spec.delivery.containerName: is \"web\", which the template does not have; give one of \
             spec.template.spec.containers: app, log",
        ],
    );
    refused(
        &format!("spec: {{delivery: {{containerName: first}}, {two}}}"),
        &["InvalidTemplate: spec.delivery.containerName: is \"first\", an init container; give one of \
             spec.template.spec.containers: app, log"],
    );
    taken(&format!("spec: {{delivery: {{containerName: log}}, {two}}}"));
}

#[test]
fn a_ports_name_is_one_of_the_receiving_container() {
    let ports = "[{name: http, containerPort: 80}, {name: quic, containerPort: 443, protocol: UDP}]";
    let two = format!("template: {{spec: {{containers: [{{name: app, ports: {ports}}}, {{name: log}}]}}}}");
    taken(&format!("spec: {{delivery: {{port: http}}, {two}}}"));
    refused(
        &format!("spec: {{delivery: {{port: quic}}, {two}}}"),
        &[
            "InvalidTemplate: spec.delivery.port: is \"quic\", which no TCP port of the container \"app\" is called; \
             give one of http, or the port's number",
        ],
    );
    refused(
        &format!("spec: {{delivery: {{port: http, containerName: log}}, {two}}}"),
        &[
            "InvalidTemplate: spec.delivery.port: is \"http\", which no TCP port of the container \"log\" is called; \
             name one of its ports so, or give the port's number",
        ],
    );
}

#[test]
fn pods_must_be_made_to_stay_on_linux() {
    let found = [
        ("restartPolicy: OnFailure", "restartPolicy: is OnFailure; write Always, or remove it"),
        (
            "activeDeadlineSeconds: 60",
            "activeDeadlineSeconds: is given, so that pods would end while they deliver; remove it",
        ),
        (
            "os: {name: windows}",
            "os.name: is windows; the sidecar runs on Linux alone; write linux, or remove it",
        ),
        (
            "ephemeralContainers: [{name: debug}]",
            "ephemeralContainers: is given, which no template may hold; remove it; add them to running pods with \
             `kubectl debug`",
        ),
        (
            "terminationGracePeriodSeconds: -1",
            "terminationGracePeriodSeconds: is -1; give what the application itself needs to end, in seconds; the \
             drain's time is added",
        ),
    ];
    for (snippet, expected) in found {
        refused(
            &format!("spec: {{template: {{spec: {{{snippet}}}}}}}"),
            &[&format!("InvalidTemplate: spec.template.spec.{expected}")],
        );
    }
    taken(
        "spec: {template: {spec: {restartPolicy: Always, os: {name: linux}, terminationGracePeriodSeconds: 0}}}",
    );
}

#[test]
fn keys_below_our_prefix_are_ours() {
    refused(
        "spec: {template: {metadata: {annotations: {lockstep.dev/assignment: '[]'}, labels: {lockstep.dev/consumergroup: other}}}}",
        &[
            "InvalidTemplate: spec.template.metadata.labels[lockstep.dev/consumergroup]: is one of Lockstep's own; \
             remove it",
            "InvalidTemplate: spec.template.metadata.annotations[lockstep.dev/assignment]: is one of Lockstep's own; \
             remove it",
        ],
    );
    // Charts write the second into everything that they make.
    taken(
        "spec: {template: {metadata: {labels: {lockstep.dev/consumergroup: orders, app.kubernetes.io/managed-by: Helm}}}}",
    );
}

#[test]
fn the_contracts_rules_hold_here_too() {
    refused(
        "spec: {replicas: -1, sidecar: {image: ' '}, source: {rocketmq: {consumerGroup: 'a b'}}, drain: {timeoutSeconds: 5}}",
        &[
            "InvalidSpec: spec.drain.timeoutSeconds: is 5, shorter than one attempt (`delivery.timeoutSeconds`: 30); give \
             at least 30, or leave it out",
            "InvalidSpec: spec.source.rocketmq.consumerGroup: is \"a b\"; use at most 120 letters, digits, `%`, `|`, \
             `_` and `-`",
            "InvalidSpec: spec.replicas: is -1; give 0 or more",
            "InvalidSpec: spec.sidecar.image: is empty; name an image, or leave the field out",
        ],
    );
}

#[test]
fn every_kind_of_source_starts_pods() {
    let faults_of = |source: &str| {
        let mut observed = observed("");
        let mut group = group("");
        group.spec.source = object(source);
        observed.group = Arc::new(group);
        faults(&observed)
    };
    let none: [&str; 0] = [];
    assert_eq!(faults_of("{activemq: {urls: ['tcp://activemq.mq:61616'], queues: [a]}}"), none);
    assert_eq!(faults_of("{rabbitmq: {urls: ['amqp://rabbit.mq:5672'], queues: [a]}}"), none);
}

#[test]
fn names_of_52_characters_fit_and_longer_ones_do_not() {
    let longest = "n".repeat(52);
    taken(&format!("metadata: {{name: {longest}}}"));
    let found = faults(&observed(&format!("metadata: {{name: {longest}n}}")));
    assert!(found.len() == 1 && found[0].starts_with("InvalidSpec: metadata.name: is "), "{found:?}");
}

#[test]
fn the_older_of_two_groups_with_one_consumer_group_goes_on() {
    let sibling = |snippet: &str| Arc::new(group(snippet));
    let older = "metadata: {name: former, creationTimestamp: 2026-11-30T07:00:00Z}";
    let mut observed = observed("");
    observed.siblings = vec![sibling(older)];
    let found = validate(&observed).faults;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason(), Reason::DuplicateConsumerGroup);
    assert!(found[0].message.starts_with(
        "spec.source.rocketmq.consumerGroup: is \"shop-orders\", as which the ConsumerGroup former consumes, which is \
         older; "
    ));

    let harmless = [
        // The younger one is refused itself.
        "metadata: {name: later, creationTimestamp: 2026-11-30T09:00:00Z}",
        // Of the same second: the name decides.
        "metadata: {name: orders-2}",
        "{metadata: {name: former, creationTimestamp: 2026-11-30T07:00:00Z}, spec: {source: {rocketmq: {consumerGroup: other}}}}",
    ];
    observed.siblings = harmless.map(sibling).to_vec();
    assert_eq!(faults(&observed), [""; 0]);
    observed.siblings = vec![sibling("metadata: {name: a-orders}")];
    assert_eq!(faults(&observed).len(), 1);
}

#[test]
fn the_group_that_runs_goes_on_whichever_is_older() {
    let uid = |observed: &Observed| observed.group.metadata.uid.clone().unwrap();
    let sibling = "metadata: {name: former, uid: former-uid, creationTimestamp: 2026-11-30T07:00:00Z}";
    let mut observed = observed("");
    observed.siblings = vec![Arc::new(group(sibling))];
    observed.running = [uid(&observed)].into();
    assert_eq!(faults(&observed), [""; 0], "the older one has no pods");
    observed.running.insert("former-uid".to_owned());
    let found = faults(&observed);
    assert!(found.len() == 1 && found[0].contains("consumes, which is older"), "{found:?}");
    observed.siblings = vec![Arc::new(group(&sibling.replace("T07", "T09")))];
    assert_eq!(faults(&observed), [""; 0]);
    observed.running = ["former-uid".to_owned()].into();
    let found = faults(&observed);
    assert!(found.len() == 1 && found[0].contains("consumes, which already runs"), "{found:?}");
}

#[test]
fn one_name_in_two_clusters_is_told_and_no_fault() {
    let mut observed = observed("");
    let older = "{metadata: {name: former, creationTimestamp: 2026-11-30T07:00:00Z}, spec: {source: {rocketmq: {nameServers: ['SERVER', 'b:1']}}}}";
    observed.siblings = vec![Arc::new(group(&older.replace("SERVER", "namesrv.test:9876")))];
    let verdict = validate(&observed);
    assert_eq!(verdict.faults, []);
    assert_eq!(verdict.notices.len(), 1);
    assert_eq!(verdict.notices[0].reason, Reason::DuplicateConsumerGroup);
    assert!(
        verdict.notices[0].message.starts_with("the ConsumerGroup former consumes as \"shop-orders\" too")
    );
    observed.siblings = vec![Arc::new(group(&older.replace("SERVER", "namesrv.mq.svc.cluster.local:9876")))];
    assert_eq!(faults(&observed).len(), 1);
    assert_eq!(validate(&observed).notices, []);
}

#[test]
fn a_child_of_somebody_else_is_left_alone() {
    let mut observed = observed("");
    let made = children(&observed);
    observed.deployment = Some(Arc::new(made.deployment.clone()));
    observed.config_maps = vec![Arc::new(made.hot.clone()), Arc::new(made.cold)];
    observed.disruption_budgets = made.disruption_budget.clone().map(Arc::new).into_iter().collect();
    assert_eq!(faults(&observed), [""; 0]);

    let mut foreign = made.deployment.clone();
    foreign.metadata.owner_references = None;
    observed.deployment = Some(Arc::new(foreign));
    let mut budget = made.disruption_budget.unwrap();
    budget.metadata.owner_references = None;
    budget.spec.as_mut().unwrap().selector = None;
    observed.disruption_budgets = vec![Arc::new(budget)];
    let mut hot = made.hot;
    let owner = &mut hot.metadata.owner_references.as_mut().unwrap()[0];
    (owner.uid, owner.kind, owner.name) = ("other".to_owned(), "Tool".to_owned(), "x".to_owned());
    observed.config_maps = vec![Arc::new(hot)];
    assert_eq!(
        faults(&observed),
        [
            "ChildNotOwned: metadata.name: the Deployment orders exists and belongs to somebody else; delete that \
             Deployment, or rename the ConsumerGroup",
            "ChildNotOwned: metadata.name: the ConfigMap orders-hot exists and belongs to the Tool x; rename the \
             ConsumerGroup or that owner's ConfigMap",
            "ChildNotOwned: metadata.name: the PodDisruptionBudget orders exists and belongs to somebody \
             else; delete that PodDisruptionBudget, or rename the ConsumerGroup",
        ]
    );
    let mut former = made.deployment;
    former.metadata.owner_references.as_mut().unwrap()[0].uid = "former".to_owned();
    observed.deployment = Some(Arc::new(former));
    observed.config_maps.clear();
    observed.group = Arc::new(group("spec: {podDisruptionBudget: None}"));
    assert_eq!(faults(&observed), [""; 0], "one that goes and one that is not wanted");
}

#[test]
fn hooks_and_budgets_of_the_user_are_told() {
    let mut observed = observed(
        "spec: {template: {spec: {containers: [{name: app, lifecycle: {preStop: {sleep: {seconds: 5}}}}, {name: log, lifecycle: {stopSignal: SIGQUIT}}]}}}",
    );
    observed.disruption_budgets = vec![Arc::new(object(
        "{metadata: {name: mine}, spec: {minAvailable: 1, selector: {matchLabels: {lockstep.dev/consumergroup: orders}}}}",
    ))];
    let verdict = validate(&observed);
    assert_eq!(verdict.faults, []);
    let notices: Vec<_> =
        verdict.notices.iter().map(|notice| (notice.reason, notice.message.as_str())).collect();
    assert_eq!(notices.len(), 2);
    assert_eq!(notices[0].0, Reason::OwnPreStopHook);
    assert!(notices[0].1.starts_with("the container app has a preStop hook of its own"), "{notices:?}");
    assert_eq!(notices[1].0, Reason::OwnDisruptionBudget);
    assert!(notices[1].1.starts_with("the PodDisruptionBudget mine selects the group's pods"), "{notices:?}");
    observed.group = Arc::new(group("spec: {podDisruptionBudget: None}"));
    assert_eq!(validate(&observed).notices, [], "none was wanted");
}
