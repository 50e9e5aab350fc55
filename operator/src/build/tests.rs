//! What is made of a group, property by property; whole examples are in `tests/golden`.

mod restricted;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSpec, PodTemplateSpec},
};
use lockstep_contract::{
    Port, config_hash,
    names::{annotations, env, files, labels},
    parse_mounted,
};

use super::{BuildError, Children, build, cold_name, hot_name};
use crate::{
    facts::{Observed, Settings},
    rollout::{self, Hashes, Plan, Strategy, TemplateSource, Wave, WaveView},
    test_support::{children, group, object, observed, settings},
};

const FULL: &str = include_str!("../../tests/golden/full.in.yaml");

fn full() -> Observed {
    Observed { group: Arc::new(object(FULL)), ..observed("") }
}

fn template(children: &Children) -> &PodTemplateSpec {
    &children.deployment.spec.template
}

fn pod(children: &Children) -> &PodSpec {
    template(children).spec.as_ref().unwrap()
}

fn sidecar(children: &Children) -> &Container {
    pod(children).init_containers.as_ref().unwrap().last().unwrap()
}

fn plan(template: TemplateSource, strategy: Strategy) -> Plan {
    Plan {
        template,
        sidecar_image: "sidecar:new".to_owned(),
        drain_seconds: 35,
        strategy,
        marks: BTreeMap::new(),
        waits_for_upgrade: false,
    }
}

fn file(data: Option<&BTreeMap<String, String>>) -> &str {
    data.unwrap().get(files::CONFIG_KEY).unwrap()
}

#[test]
fn the_sidecar_reads_the_same_group() {
    for observed in [observed(""), full()] {
        let made = children(&observed);
        let (cold, hot) = (file(made.cold.data.as_ref()), file(made.hot.data.as_ref()));
        let parsed = parse_mounted(cold, hot).unwrap();
        assert_eq!(parsed.warnings, []);
        let mut wanted = observed.group.contract();
        if wanted.spec.delivery.port == Port::Name("http".to_owned()) {
            wanted.spec.delivery.port = Port::Number(8081.try_into().unwrap());
        }
        // Written out: the sidecar shows resolved defaults.
        wanted.spec.retry.when_exhausted = Some(wanted.when_exhausted());
        assert_eq!(parsed.group, wanted);
        assert!(parsed.group.metadata.creation_timestamp.is_some(), "`Latest` is this moment");

        // The names by which everyone finds them.
        let hash = config_hash(cold);
        assert_eq!(made.cold.metadata.name, Some(cold_name("orders", &hash)));
        assert_eq!(made.cold.immutable, Some(true));
        let template = template(&made).metadata.as_ref().unwrap().annotations.as_ref().unwrap();
        assert_eq!(template[annotations::COLD_HASH], hash);
        assert_eq!(made.hot.metadata.name, Some(hot_name("orders")));
    }
}

#[test]
fn what_another_writer_or_a_former_spec_set_is_written_over() {
    let made = children(&observed(""));
    assert_eq!(made.deployment.spec.paused, Some(false), "kubectl rollout pause is drift");
    let account = |snippet: &str| {
        let made = children(&observed(&format!("spec: {{template: {{spec: {{{snippet}}}}}}}")));
        (pod(&made).service_account_name.clone().unwrap(), pod(&made).service_account.clone().unwrap())
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(account(""), both("default"));
    assert_eq!(account("serviceAccountName: orders"), both("orders"));
    assert_eq!(account("serviceAccount: old"), both("old"));
    assert_eq!(account("serviceAccountName: orders, serviceAccount: old"), both("orders"));
}

#[test]
fn files_are_where_the_sidecar_looks() {
    let made = children(&full());
    let mounts = sidecar(&made).volume_mounts.as_ref().unwrap();
    let volumes = pod(&made).volumes.as_ref().unwrap();
    let at = |path: &str| {
        let mount =
            mounts.iter().find(|mount| mount.mount_path == path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(mount.read_only, (path != files::STATE).then_some(true), "{path}");
        volumes.iter().find(|volume| volume.name == mount.name).unwrap()
    };
    let folder = |file: &str| file.strip_suffix(&format!("/{}", files::CONFIG_KEY)).unwrap().to_owned();
    let map = |path: &str| at(path).config_map.as_ref().unwrap().name.clone();
    assert_eq!(Some(map(&folder(files::COLD))), made.cold.metadata.name);
    assert_eq!(Some(map(&folder(files::HOT))), made.hot.metadata.name);
    assert!(at(files::STATE).empty_dir.is_some());
    assert!(at("/var/run/secrets/kubernetes.io/serviceaccount").empty_dir.is_some());
    let info = &at(files::POD_INFO).downward_api.as_ref().unwrap().items.as_ref().unwrap()[0];
    assert_eq!(info.path, files::ASSIGNMENT);
    assert_eq!(
        info.field_ref.as_ref().unwrap().field_path,
        "metadata.annotations['lockstep.dev/assignment']"
    );

    let secrets = [
        (files::CREDENTIALS, "orders-broker", vec![]),
        (files::TLS_CA, "mq-ca", vec![("authority.pem", files::CA_FILE)]),
        (files::TLS_CLIENT, "orders-client", vec![]),
        (files::HEADERS, "orders-headers", vec![]),
    ];
    for (below, name, items) in secrets {
        let secret = at(&format!("{}/{below}", files::ROOT)).secret.as_ref().unwrap();
        assert_eq!(secret.secret_name.as_deref(), Some(name));
        assert_eq!((secret.optional, secret.default_mode), (Some(true), Some(0o444)), "{name}");
        let found = secret.items.iter().flatten().map(|item| (item.key.as_str(), item.path.as_str()));
        assert_eq!(found.collect::<Vec<_>>(), items);
    }
    let signing = at(&format!("{}/{}", files::ROOT, files::SIGNING)).projected.as_ref().unwrap();
    let keys = signing.sources.iter().flatten().map(|source| {
        let secret = source.secret.as_ref().unwrap();
        assert_eq!(secret.optional, Some(true));
        let item = &secret.items.as_ref().unwrap()[0];
        (secret.name.as_str(), item.key.as_str(), item.path.as_str())
    });
    assert_eq!(keys.collect::<Vec<_>>(), [("hook-keys", "current", "0"), ("hook-keys", "former", "1")]);
}

/// What remains when everything of ours is taken out again is what the user wrote.
#[test]
fn everything_else_in_the_template_stays() {
    for observed in [observed(""), full()] {
        let made = children(&observed);
        let mut left = template(&made).clone();
        let given = &observed.group.spec.template;
        let spec = left.spec.as_mut().unwrap();
        let init = spec.init_containers.as_mut().unwrap();
        assert_eq!(init.pop().unwrap().name, "lockstep", "the sidecar is the last one");
        if init.is_empty() {
            spec.init_containers = None;
        }
        spec.volumes.as_mut().unwrap().retain(|volume| !volume.name.starts_with("lockstep-"));
        if spec.volumes.as_ref().unwrap().is_empty() {
            spec.volumes = None;
        }
        for container in &mut spec.containers {
            let hook = container.lifecycle.as_mut().unwrap();
            if hook.pre_stop.as_ref().unwrap().http_get.is_some() {
                hook.pre_stop = None;
            }
            if hook.post_start.is_none() && hook.pre_stop.is_none() {
                container.lifecycle = None;
            }
        }
        let written = given.spec.as_ref().unwrap();
        spec.termination_grace_period_seconds = written.termination_grace_period_seconds;
        // Another test looks at them.
        spec.service_account = None;
        spec.service_account_name.clone_from(&written.service_account_name);
        assert_eq!(left.spec, given.spec);

        let (metadata, given) = (left.metadata.unwrap(), given.metadata.clone().unwrap_or_default());
        let mut labels = given.labels.unwrap_or_default();
        labels.insert(labels::GROUP.to_owned(), "orders".to_owned());
        labels.insert(labels::MANAGED_BY.to_owned(), "lockstep-operator".to_owned());
        assert_eq!(metadata.labels, Some(labels));
        let mut annotations = metadata.annotations.unwrap();
        for ours in [annotations::COLD_HASH, annotations::GROUP_UID, annotations::MEMBER_OF] {
            assert!(annotations.remove(ours).is_some(), "{ours}");
        }
        assert_eq!(annotations, given.annotations.unwrap_or_default());
    }
}

#[test]
fn every_ordinary_container_without_a_hook_waits_for_the_drain() {
    let made = children(&full());
    let hooks = pod(&made).containers.iter().map(|container| {
        let hook = container.lifecycle.as_ref().unwrap().pre_stop.as_ref().unwrap();
        let get =
            hook.http_get.as_ref().map(|get| (get.path.clone().unwrap(), get.port.clone(), get.host.clone()));
        (container.name.as_str(), get)
    });
    let path = "/wait-for-drain/11111111-2222-3333-4444-555555555555".to_owned();
    let ours = Some((path, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(15500), None));
    assert_eq!(hooks.collect::<Vec<_>>(), [("log", None), ("app", ours.clone()), ("cache", ours)]);
    let init = pod(&made).init_containers.as_ref().unwrap();
    assert!(init[0].lifecycle.is_none() && init[1].lifecycle.is_none(), "theirs are not touched");
}

#[test]
fn a_pod_has_the_time_of_its_drain_and_of_its_application() {
    let grace = |snippet: &str| {
        let made = children(&observed(snippet));
        let variables = sidecar(&made).env.clone().unwrap();
        let variable = variables.into_iter().find(|variable| variable.name == env::APPLICATION_GRACE_SECONDS);
        (pod(&made).termination_grace_period_seconds.unwrap(), variable.unwrap().value.unwrap())
    };
    assert_eq!(grace(""), (35 + 30 + 5, "30".to_owned()));
    assert_eq!(grace("spec: {delivery: {timeoutSeconds: 60}}"), (65 + 30 + 5, "30".to_owned()));
    let both = "spec: {drain: {timeoutSeconds: 100}, template: {spec: {terminationGracePeriodSeconds: 7}}}";
    assert_eq!(grace(both), (100 + 7 + 5, "7".to_owned()));
    assert_eq!(grace("spec: {template: {spec: {terminationGracePeriodSeconds: 0}}}"), (40, "0".to_owned()));
    let most = format!("spec: {{template: {{spec: {{terminationGracePeriodSeconds: {}}}}}}}", i64::MAX);
    assert_eq!(grace(&most).0, i64::MAX);
}

/// The default drain follows a hot field; the pods that live keep what they were built with.
#[test]
fn another_timeout_changes_no_pod_until_something_else_does() {
    let after = |live: &Children, snippet: &str| {
        let deployment = Some(Arc::new(live.deployment.clone()));
        children(&Observed { deployment, ..observed(snippet) })
    };
    let drain = |children: &Children| {
        let variables = sidecar(children).env.clone().unwrap();
        let told = variables.into_iter().find(|variable| variable.name == env::DRAIN_SECONDS).unwrap();
        let mark =
            children.deployment.metadata.annotations.as_ref().unwrap()[annotations::DRAIN_SECONDS].clone();
        assert_eq!(told.value, Some(mark.clone()));
        assert_eq!(
            pod(children).termination_grace_period_seconds.unwrap().to_string(),
            (mark.parse::<i64>().unwrap() + 35).to_string()
        );
        mark
    };
    let first = children(&observed(""));
    assert_eq!(drain(&first), "35");
    for seconds in [5, 600] {
        let changed = after(&first, &format!("spec: {{delivery: {{timeoutSeconds: {seconds}}}}}"));
        assert_eq!(changed.deployment, first.deployment, "{seconds}");
        assert_eq!(changed.cold, first.cold, "{seconds}");
        assert_ne!(changed.hot, first.hot, "{seconds}");
        // A new template for another reason takes it.
        let other =
            after(&changed, &format!("spec: {{delivery: {{timeoutSeconds: {seconds}, path: /other}}}}"));
        assert_eq!(drain(&other), (seconds + 5).to_string());
        let back = after(&other, "spec: {delivery: {path: /other}}");
        assert_eq!(back.deployment, other.deployment, "{seconds}");
    }
    let given = after(&first, "spec: {drain: {timeoutSeconds: 90}}");
    assert_eq!(drain(&given), "90");
    assert_eq!(drain(&after(&given, "")), "35");
    // What another writer made of the mark is no number: as if there were none.
    let mut spoilt = first.clone();
    spoilt
        .deployment
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(annotations::DRAIN_SECONDS.to_owned(), "x".to_owned());
    assert_eq!(after(&spoilt, "").deployment, first.deployment);
}

#[test]
fn an_upgrade_takes_the_drain_of_the_changed_timeout() {
    let mut live = children(&observed("")).deployment;
    live.metadata.uid = Some("live".to_owned());
    let changed =
        Observed { deployment: Some(Arc::new(live)), ..observed("spec: {delivery: {timeoutSeconds: 60}}") };
    let newer = Settings { version: "next".to_owned(), ..settings() };
    let wave = Wave::default();
    let view = WaveView { wave: &wave, candidates: &[] };
    let upgrade = rollout::plan(&changed, &newer, &view, &Hashes::of(&changed.group));
    assert_eq!(upgrade.drain_seconds, 65);
    assert_eq!(pod(&build(&changed, &upgrade).unwrap()).termination_grace_period_seconds, Some(65 + 30 + 5));
}

#[test]
fn a_hot_change_leaves_the_pods_alone() {
    let before = children(&observed(""));
    for change in [
        "state: Paused",
        "retry: {maxAttempts: 3}",
        "delivery: {maxInFlight: 5}",
        "sidecar: {logLevel: debug}",
    ] {
        let after = children(&observed(&format!("spec: {{{change}}}")));
        assert_eq!(after.deployment, before.deployment, "{change}");
        assert_eq!(after.cold, before.cold, "{change}");
        assert_ne!(after.hot.data, before.hot.data, "{change}");
        let applied = |children: &Children| {
            children.hot.metadata.annotations.clone().unwrap()[annotations::APPLIED_HASH].clone()
        };
        assert_ne!(applied(&after), applied(&before), "{change}");
    }
    let after = children(&observed("spec: {delivery: {path: /other}}"));
    assert_ne!(template(&after), template(&before));
    assert_ne!(after.cold.metadata.name, before.cold.metadata.name);
    assert_eq!(after.hot, before.hot);
}

#[test]
fn the_same_group_makes_the_same_children() {
    assert_eq!(children(&full()), children(&full()));
}

#[test]
fn pods_are_replaced_as_order_and_subscriptions_ask() {
    let strategy = |snippet: &str, strategy| {
        let made = build(&observed(snippet), &plan(TemplateSource::Build, strategy)).unwrap();
        serde_json::to_string(&made.deployment.spec.strategy).unwrap()
    };
    let ordered = r#"{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}"#;
    assert_eq!(strategy("", Strategy::Rolling), ordered);
    assert_eq!(strategy("spec: {ordering: {mode: PerKey}}", Strategy::Rolling), ordered);
    let unordered = r#"{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0},"type":"RollingUpdate"}"#;
    assert_eq!(strategy("spec: {ordering: {mode: Unordered}}", Strategy::Rolling), unordered);
    assert_eq!(strategy("", Strategy::Recreate), r#"{"type":"Recreate"}"#);
}

#[test]
fn while_an_upgrade_waits_the_live_template_stays() {
    let mut observed = observed("");
    let former = children(&observed);
    let mut live: Deployment = former.deployment.clone();
    let containers = &mut live.spec.template.spec.as_mut().unwrap().init_containers;
    containers.as_mut().unwrap()[0].image = Some("sidecar:former".to_owned());
    // As a sidecar of another version would write it.
    let text = "apiVersion: lockstep.dev/v1alpha1\nformer: true\n".to_owned();
    let hash = config_hash(&text);
    let mut cold = former.cold.clone();
    cold.metadata.name = Some(cold_name("orders", &hash));
    cold.data = Some([(files::CONFIG_KEY.to_owned(), text)].into());
    let template = live.spec.template.metadata.as_mut().unwrap().annotations.as_mut().unwrap();
    template.insert(annotations::COLD_HASH.to_owned(), hash);
    let marks = live.metadata.annotations.as_mut().unwrap();
    marks.insert(annotations::BUILT_BY.to_owned(), "former sidecar:former".to_owned());
    observed.deployment = Some(Arc::new(live.clone()));
    observed.config_maps = vec![Arc::new(former.cold), Arc::new(cold.clone())];

    let mut plan = plan(TemplateSource::KeepLive, Strategy::Rolling);
    plan.marks = [(annotations::BUILT_BY, "former".to_owned())].into();
    observed.group = Arc::new(group("spec: {replicas: 7, state: Paused}"));
    let made = build(&observed, &plan).unwrap();
    assert_eq!(made.deployment.spec.template, live.spec.template);
    assert_eq!(made.deployment.spec.replicas, Some(7));
    assert_eq!(made.deployment.metadata.annotations.as_ref().unwrap()[annotations::BUILT_BY], "former");
    assert_eq!((made.cold.metadata.name, made.cold.data), (cold.metadata.name, cold.data));
    assert!(file(made.hot.data.as_ref()).contains("state: Paused"));

    // Its pods could not start any more.
    observed.config_maps.clear();
    let made = build(&observed, &plan).unwrap();
    assert_eq!(sidecar(&made).image.as_deref(), Some("sidecar:new"));
}

#[test]
fn while_an_upgrade_waits_what_its_user_wrote_is_put_back() {
    let spec = "containers: [{name: app, image: 'app:1', env: [{name: A, value: x}],
        ports: [{containerPort: 53, name: dns}, {containerPort: 53, protocol: UDP}],
        lifecycle: {stopSignal: SIGQUIT}, readinessProbe: {httpGet: {path: /ready, port: 80}}}],
        initContainers: [{name: first, image: 'first:1'}], volumes: [{name: data, emptyDir: {}}],
        nodeSelector: {zone: a}";
    let mut observed =
        observed(&format!("spec: {{template: {{metadata: {{labels: {{app: orders}}}}, spec: {{{spec}}}}}}}"));
    let former = children(&observed);
    observed.config_maps = vec![Arc::new(former.cold)];
    let build_from = |observed: &mut Observed, live: &Deployment| {
        observed.deployment = Some(Arc::new(live.clone()));
        build(observed, &plan(TemplateSource::KeepLive, Strategy::Rolling)).unwrap()
    };
    let same = build_from(&mut observed, &former.deployment);
    assert_eq!(same.deployment.spec.template, former.deployment.spec.template);

    let mut live = former.deployment.clone();
    let metadata = live.spec.template.metadata.as_mut().unwrap();
    metadata.labels.as_mut().unwrap().insert("app".to_owned(), "other".to_owned());
    metadata.annotations.as_mut().unwrap().insert("restartedAt".to_owned(), "today".to_owned());
    let pod = live.spec.template.spec.as_mut().unwrap();
    pod.node_selector = None;
    pod.volumes.as_mut().unwrap()[0] = object("{name: data, hostPath: {path: /}}");
    let init = pod.init_containers.as_mut().unwrap();
    init.remove(0);
    init[0].image = Some("sidecar:other".to_owned());
    let app = &mut pod.containers[0];
    app.image = Some("app:2".to_owned());
    app.env = Some(object("[{name: A, value: y}, {name: B, value: z}]"));
    app.ports.as_mut().unwrap()[0].name = None;
    app.readiness_probe = Some(object("{exec: {command: ['true']}}"));
    let put_back = build_from(&mut observed, &live).deployment.spec.template;
    let mut wanted = former.deployment.spec.template;
    // What the user did not write is left to whoever did.
    let metadata = wanted.metadata.as_mut().unwrap();
    metadata.annotations.as_mut().unwrap().insert("restartedAt".to_owned(), "today".to_owned());
    let app = &mut wanted.spec.as_mut().unwrap().containers[0];
    app.env = Some(object("[{name: A, value: x}, {name: B, value: z}]"));
    assert_eq!(put_back, wanted);

    // Without the sidecar it is worth nothing.
    live.spec.template.spec.as_mut().unwrap().init_containers = None;
    assert_eq!(sidecar(&build_from(&mut observed, &live)).image.as_deref(), Some("sidecar:new"));
}

#[test]
fn a_budget_is_kept_unless_the_user_has_one() {
    let with = |spec: &str| {
        let mut observed = observed("spec: {template: {metadata: {labels: {app: orders, tier: back}}}}");
        observed.disruption_budgets = vec![Arc::new(object(&format!(
            "{{metadata: {{name: mine}}, spec: {{minAvailable: 1, {spec}}}}}"
        )))];
        children(&observed).disruption_budget
    };
    let budget = with("selector: {matchLabels: {app: other}}").unwrap();
    let spec = budget.spec.unwrap();
    assert_eq!(spec.unhealthy_pod_eviction_policy.as_deref(), Some("AlwaysAllow"));
    assert_eq!(
        spec.selector.unwrap().match_labels.unwrap(),
        [(labels::GROUP.to_owned(), "orders".to_owned())].into()
    );

    let overlapping = [
        "matchLabels: {app: orders}",
        "matchLabels: {lockstep.dev/consumergroup: orders}",
        "matchExpressions: [{key: app, operator: In, values: [x, orders]}, {key: gone, operator: DoesNotExist}]",
        "matchExpressions: [{key: app, operator: NotIn, values: [x]}, {key: tier, operator: Exists}]",
    ];
    for selector in overlapping {
        assert_eq!(with(&format!("selector: {{{selector}}}")), None, "{selector}");
    }
    assert_eq!(with("selector: {}"), None, "it selects every pod");
    let others = [
        "matchLabels: {app: orders, tier: front}",
        "matchLabels: {app: orders}, matchExpressions: [{key: tier, operator: DoesNotExist}]",
        "matchExpressions: [{key: app, operator: NotIn, values: [orders]}]",
        "matchExpressions: [{key: app, operator: In, values: [x]}]",
        "matchExpressions: [{key: gone, operator: Exists}]",
    ];
    for selector in others {
        assert!(with(&format!("selector: {{{selector}}}")).is_some(), "{selector}");
    }
    assert!(with("maxUnavailable: 2").is_some(), "without a selector it selects none");
    assert_eq!(children(&observed("spec: {podDisruptionBudget: None}")).disruption_budget, None);

    // Our own one is no reason to remove it.
    let mut observed = observed("");
    observed.disruption_budgets = vec![Arc::new(children(&observed).disruption_budget.unwrap())];
    assert!(children(&observed).disruption_budget.is_some());
}

#[test]
fn children_belong_to_the_group() {
    let made = children(&observed(&format!("metadata: {{name: {}}}", "n".repeat(52))));
    let all = [
        &made.deployment.metadata,
        &made.cold.metadata,
        &made.hot.metadata,
        &made.disruption_budget.unwrap().metadata,
    ];
    for metadata in all {
        let owner = &metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(owner.uid, "11111111-2222-3333-4444-555555555555");
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        assert_eq!(metadata.labels.as_ref().unwrap()[labels::MANAGED_BY], "lockstep-operator");
        assert_eq!(metadata.labels.as_ref().unwrap()[labels::GROUP].len(), 52);
        assert!(metadata.annotations.as_ref().unwrap().contains_key(annotations::APPLIED_HASH));
        assert!(metadata.name.as_ref().unwrap().len() <= 253);
        assert_eq!(metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(metadata.finalizers, None);
    }
}

#[test]
fn a_pod_that_requests_as_a_whole_requests_for_the_sidecar_too() {
    let whole = "template: {spec: {resources: {requests: {cpu: 1}}}}";
    assert_eq!(sidecar(&children(&observed(&format!("spec: {{{whole}}}")))).resources, None);
    let own =
        children(&observed(&format!("spec: {{{whole}, sidecar: {{resources: {{limits: {{cpu: 1}}}}}}}}")));
    assert!(sidecar(&own).resources.as_ref().unwrap().limits.is_some());
    let alone = children(&observed(""));
    assert!(sidecar(&alone).resources.as_ref().unwrap().limits.is_none());
}

#[test]
fn what_can_not_be_built_is_told() {
    let build =
        |observed: &Observed| build(observed, &plan(TemplateSource::Build, Strategy::Rolling)).unwrap_err();
    let mut unstored = observed("");
    unstored.group = Arc::new(group("metadata: {uid: ''}"));
    let mut bare = group("");
    bare.metadata.uid = None;
    unstored.group = Arc::new(bare);
    assert_eq!(build(&unstored), BuildError::NotStored);
    assert_eq!(build(&observed("spec: {template: {spec: {containers: []}}}")), BuildError::NoContainer);
    let port = build(&observed("spec: {delivery: {port: http}}"));
    assert_eq!(port, BuildError::NoSuchPort { container: "app".to_owned(), port: "http".to_owned() });
}
