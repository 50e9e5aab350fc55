//! Each row: what is the case, what is done to a group where all is well, and the conditions that then differ from
//! [`WELL`].

use std::collections::BTreeMap;

use lockstep_contract::{ConditionStatus, ConditionType, Health, Phase, PodCondition, Reason, Status};

use crate::{
    Fault, Notice,
    rollout::{Strategy, TemplateSource},
    status::{
        ApplyFailure,
        scene::{Scene, block, cut, ill},
    },
    validate::Rule,
};

const WELL: [(&str, &str); 8] = [
    ("Ready", "True/Delivering"),
    ("Reconciling", "False/UpToDate"),
    ("Stalled", "False/NotStalled"),
    ("SourceConnected", "True/Connected"),
    ("ApplicationHealthy", "True/Healthy"),
    ("QueuesOwned", "True/Owned"),
    ("Blocked", "False/NotBlocked"),
    ("Paused", "False/NotPaused"),
];

/// What is the case, how to make it so, and what differs then.
type Row = (&'static str, fn(&mut Scene), &'static str);

/// The conditions of the row with that name, for the manual.
pub(super) fn row(name: &str) -> Option<Vec<String>> {
    let mut rows = [WANTED, ON_ITS_WAY, SAID].into_iter().flatten();
    let (_, change, _) = rows.find(|row| row.0 == name)?;
    let mut scene = Scene::new();
    change(&mut scene);
    Some(scene.status().conditions.iter().map(|one| format!("{} `{}`", one.status, one.reason)).collect())
}

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (name, change, differs) in rows {
        let mut scene = Scene::new();
        change(&mut scene);
        let mut expected = BTreeMap::from(WELL);
        for word in differs.split_whitespace() {
            let (kind, value) = word.split_once('=').expect(name);
            assert!(expected.insert(kind, value).is_some_and(|before| before != value), "{name}: {word}");
        }
        let conditions = scene.status().conditions;
        assert_eq!(conditions.len(), WELL.len(), "{name}");
        for condition in &conditions {
            let (kind, found) =
                (condition.type_.as_str(), format!("{}/{}", condition.status, condition.reason));
            assert_eq!(condition.observed_generation, Some(4), "{name}");
            if expected.get(kind).copied() != Some(found.as_str()) {
                wrong.push(format!(
                    "{name}: {kind} is {found}, not {:?}: {}",
                    expected.get(kind),
                    condition.message
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fault(scene: &mut Scene, rule: Rule) {
    scene.faults.push(Fault { rule, message: "spec.delivery.port: is taken".to_owned() });
}

fn fails(scene: &mut Scene, for_good: bool) {
    scene.failure = Some(ApplyFailure { message: "Deployment orders: 403".to_owned(), for_good });
}

fn refuses(scene: &mut Scene, message: &str) {
    scene.counts(0, 0, 0);
    scene.pods.clear();
    scene.deployment_condition("Progressing", "True", "ReplicaSetUpdated", "");
    scene.deployment_condition("ReplicaFailure", "True", "FailedCreate", message);
}

fn own(status: &mut Status, kind: ConditionType, holds: bool, reason: Reason) {
    let holds = if holds { ConditionStatus::True } else { ConditionStatus::False };
    status.conditions = vec![PodCondition { kind, status: holds, reason, message: "so it is".to_owned() }];
}

fn starts(status: &mut Status) {
    status.phase = Phase::Starting;
    cut(status, "");
    status.totals.owned = 0;
    status.queues.clear();
    ill(status, Health::Unknown, Reason::NeverHealthy);
}

fn hands_over(status: &mut Status) {
    starts(status);
    status.phase = Phase::HandedOver;
    ill(status, Health::Unhealthy, Reason::HealthCheckFailed);
}

#[rustfmt::skip]
const WANTED: &[Row] = &[
    ("all is well", |_| {}, ""),
    ("a notice", |s| s.notices.push(Notice { reason: Reason::OwnPreStopHook, message: "a hook".to_owned() }), ""),
    ("0 replicas", |s| s.scale(0), "Ready=True/ScaledToZero SourceConnected=Unknown/ScaledToZero ApplicationHealthy=Unknown/ScaledToZero QueuesOwned=Unknown/ScaledToZero Blocked=Unknown/ScaledToZero"),
    ("0 replicas, a pod still counts", |s| { s.scale(0); s.counts(1, 1, 1) }, "Ready=True/ScaledToZero Reconciling=True/Scaling SourceConnected=Unknown/ScaledToZero ApplicationHealthy=Unknown/ScaledToZero QueuesOwned=Unknown/ScaledToZero Blocked=Unknown/ScaledToZero"),
    ("paused", |s| { s.pause(); s.all_left() }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=True/PausedBySpec"),
    ("paused, 0 replicas", |s| { s.pause(); s.scale(0) }, "Ready=True/ScaledToZero SourceConnected=Unknown/ScaledToZero ApplicationHealthy=Unknown/ScaledToZero QueuesOwned=Unknown/ScaledToZero Blocked=Unknown/ScaledToZero Paused=True/PausedBySpec"),
    ("paused, not read yet", |s| s.pause(), "Ready=True/PausedBySpec Reconciling=True/Configuring SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=False/Configuring"),
    ("paused, one still owns", |s| { s.pause(); s.all_left(); s.says("b", |p| p.totals.owned = 1) }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=False/Configuring"),
    ("paused, one still ends", |s| { s.pause(); s.all_left(); s.ends("c") }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=False/Configuring"),
    ("paused, one drains by itself", |s| { s.pause(); s.all_left(); s.says("c", |p| p.phase = Phase::Draining) }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=False/Configuring"),
    ("paused, one ends and one can't be asked", |s| { s.pause(); s.all_left(); s.ends("c"); s.unreachable("b") }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Reconciling=True/Configuring Paused=False/Configuring"),
    ("paused, an evicted one is listed", |s| { s.pause(); s.all_left(); s.ends("c"); s.pods[2].status.as_mut().unwrap().phase = Some("Failed".to_owned()) }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=True/PausedBySpec"),
    ("paused, one was never started", |s| { s.pause(); s.all_left(); s.waits("c", "ImagePullBackOff") }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=True/PausedBySpec"),
    ("paused, one starts again", |s| { s.pause(); s.all_left(); s.restarts("c") }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=False/Configuring"),
    ("paused, 0 replicas, pods still end", |s| { s.pause(); s.scale_to_zero() }, "Ready=True/ScaledToZero Reconciling=True/Scaling SourceConnected=Unknown/ScaledToZero ApplicationHealthy=Unknown/ScaledToZero QueuesOwned=Unknown/ScaledToZero Blocked=Unknown/ScaledToZero Paused=False/Configuring"),
    ("0 replicas, pods still end", |s| s.scale_to_zero(), "Ready=True/ScaledToZero Reconciling=True/Scaling SourceConnected=Unknown/ScaledToZero ApplicationHealthy=Unknown/ScaledToZero QueuesOwned=Unknown/ScaledToZero Blocked=Unknown/ScaledToZero"),
    ("paused, application ill", |s| { s.pause(); s.all_left(); s.says("a", |p| ill(p, Health::Unhealthy, Reason::HealthCheckFailed)) }, "Ready=True/PausedBySpec SourceConnected=Unknown/NotConnecting ApplicationHealthy=False/HealthCheckFailed QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=True/PausedBySpec"),
    ("resumed, not read yet", |s| { s.pause(); s.all_left(); s.group.spec.state = lockstep_contract::RunState::Running }, "Reconciling=True/Configuring SourceConnected=Unknown/NotConnecting QueuesOwned=False/QueuesWithoutOwner Paused=True/Configuring"),
    ("faulty spec", |s| fault(s, Rule::Contract), "Ready=False/InvalidSpec Reconciling=False/InvalidSpec Stalled=True/InvalidSpec"),
    ("faulty template, nothing built", |s| { fault(s, Rule::PortThere); s.deployment = None; s.pods.clear(); s.reports.clear() }, "Ready=False/InvalidTemplate Reconciling=False/InvalidTemplate Stalled=True/InvalidTemplate SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("faulty spec, paused", |s| { fault(s, Rule::Contract); s.pause(); s.all_left() }, "Ready=False/InvalidSpec Reconciling=False/InvalidSpec Stalled=True/InvalidSpec SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=True/PausedBySpec"),
    ("a second group", |s| fault(s, Rule::OneGroup), "Ready=False/DuplicateConsumerGroup Reconciling=False/DuplicateConsumerGroup Stalled=True/DuplicateConsumerGroup"),
    ("somebody else's child", |s| { fault(s, Rule::ChildOwned); s.live().metadata.owner_references = None }, "Ready=False/ChildNotOwned Reconciling=False/ChildNotOwned Stalled=True/ChildNotOwned"),
    ("a child of another group", |s| s.live().metadata.owner_references.as_mut().unwrap()[0].uid = "other".to_owned(), "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("a child that another controls", |s| s.live().metadata.owner_references.as_mut().unwrap()[0].controller = None, "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("refused for good", |s| fails(s, true), "Ready=False/ChildRefused Reconciling=False/ChildRefused Stalled=True/ChildRefused"),
    ("the API failed", |s| fails(s, false), "Ready=False/ApplyFailed Reconciling=True/ApplyFailed"),
    ("pods refused by pod security", |s| refuses(s, "pods \"orders-x\" is forbidden: violates PodSecurity \"restricted:latest\""), "Ready=False/ChildRefused Reconciling=False/ChildRefused Stalled=True/ChildRefused SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("pods refused by a quota", |s| refuses(s, "pods \"orders-x\" is forbidden: exceeded quota: small"), "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("service account missing", |s| refuses(s, "pods \"orders-x\" is forbidden: error looking up service account shop/a: serviceaccount \"a\" not found"), "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("priority class missing", |s| refuses(s, "pods \"orders-x\" is forbidden: no PriorityClass with name high was found"), "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("the namespace ends", |s| refuses(s, "pods \"orders-x\" is forbidden: unable to create new content in namespace shop because it is being terminated"), "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("a webhook is down", |s| refuses(s, "Internal error occurred: failed calling webhook \"x\": denied the request"), "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("an image's name is none", |s| { s.rolls(3, 1, 2); s.waits("c", "InvalidImageName") }, "Ready=False/InvalidTemplate Reconciling=False/InvalidTemplate Stalled=True/InvalidTemplate QueuesOwned=False/Acquiring"),
    ("a former refusal, the new spec not seen yet", |s| { refuses(s, "forbidden"); s.live().metadata.generation = Some(3) }, "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
];

#[test]
fn what_is_wanted_and_what_stops_it() {
    check(WANTED);
}

#[rustfmt::skip]
const ON_ITS_WAY: &[Row] = &[
    ("nothing built yet", |s| { s.deployment = None; s.pods.clear(); s.reports.clear() }, "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("written, not seen by the watch", |s| { s.live().metadata.annotations = None }, "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("seen, not taken up by Kubernetes", |s| s.live().metadata.generation = Some(3), "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("an old pod is left", |s| s.rolls(3, 2, 3), "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("the last new pod is not ready", |s| s.rolls(3, 3, 2), "Ready=False/PodsNotReady Reconciling=True/RollingOut"),
    ("all are replaced", |s| { s.rolls(0, 0, 0); s.plan.strategy = Strategy::Recreate }, "Ready=False/PodsNotReady Reconciling=True/ReplacingAll"),
    ("all are replaced, not seen yet", |s| { s.live().metadata.generation = Some(3); s.plan.strategy = Strategy::Recreate }, "Ready=False/PodsNotReady Reconciling=True/ReplacingAll"),
    ("scaled up", |s| s.counts(2, 2, 2), "Ready=False/PodsNotReady Reconciling=True/Scaling"),
    ("scaled up, not seen yet", |s| { s.live().metadata.generation = Some(3); s.counts(2, 2, 2) }, "Ready=False/PodsNotReady Reconciling=True/Scaling"),
    ("scaled down", |s| s.counts(4, 4, 4), "Reconciling=True/Scaling"),
    ("a pod broke later", |s| s.counts(3, 3, 2), "Ready=False/PodsNotReady"),
    ("the deadline passed", |s| { s.rolls(3, 1, 2); s.deployment_condition("Progressing", "False", "ProgressDeadlineExceeded", "") }, "Ready=False/RolloutStuck Reconciling=True/RollingOut"),
    ("one has the former configuration", |s| s.says("c", |p| p.config.hot_hash = "old".to_owned()), "Reconciling=True/Configuring"),
    ("one can't apply it", |s| s.says("c", |p| { p.config.hot_hash = "old".to_owned(); p.config.error = Some("unknown field".to_owned()) }), "Reconciling=True/ConfigurationInvalid"),
    ("an ending one has the former", |s| { s.says("c", |p| p.config.hot_hash = "old".to_owned()); s.ends("c") }, "QueuesOwned=False/Acquiring"),
    ("an upgrade waits", |s| { s.plan.waits_for_upgrade = true; s.plan.template = TemplateSource::KeepLive }, "Reconciling=False/WaitingForUpgrade"),
    ("an upgrade waits, and a change", |s| { s.plan.waits_for_upgrade = true; s.says("c", |p| p.config.hot_hash = "old".to_owned()) }, "Reconciling=True/Configuring"),
];

#[test]
fn what_is_on_its_way() {
    check(ON_ITS_WAY);
}

#[rustfmt::skip]
const SAID: &[Row] = &[
    ("no pod can be asked", |s| s.all_unreachable(), "Ready=Unknown/PodsUnreachable Reconciling=True/Configuring SourceConnected=Unknown/PodsUnreachable ApplicationHealthy=Unknown/PodsUnreachable QueuesOwned=Unknown/PodsUnreachable Blocked=Unknown/PodsUnreachable Paused=Unknown/PodsUnreachable"),
    ("no pod can be asked, paused", |s| { s.pause(); s.all_unreachable() }, "Ready=Unknown/PodsUnreachable Reconciling=True/Configuring SourceConnected=Unknown/NotConnecting ApplicationHealthy=Unknown/PodsUnreachable QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=Unknown/PodsUnreachable"),
    ("one can't be asked", |s| s.unreachable("c"), "Reconciling=True/Configuring QueuesOwned=Unknown/PodsUnreachable"),
    ("one can't be asked, paused", |s| { s.pause(); s.all_left(); s.unreachable("c") }, "Ready=True/PausedBySpec Reconciling=True/Configuring SourceConnected=Unknown/NotConnecting QueuesOwned=Unknown/PausedBySpec Blocked=Unknown/PausedBySpec Paused=Unknown/PodsUnreachable"),
    ("no sidecar runs yet", |s| { s.rolls(3, 3, 0); s.waits("a", "ContainerCreating"); s.waits("b", "ContainerCreating"); s.waits("c", "ContainerCreating") }, "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Starting ApplicationHealthy=Unknown/Starting QueuesOwned=Unknown/Starting Blocked=Unknown/Starting"),
    ("no application was asked yet", |s| { s.rolls(3, 3, 0); s.all_say(starts) }, "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/NotConnecting ApplicationHealthy=Unknown/NeverHealthy QueuesOwned=False/Acquiring"),
    ("sessions are being made", |s| { s.rolls(3, 3, 0); s.all_say(|p| { starts(p); p.totals.known = None; ill(p, Health::Healthy, Reason::Healthy) }) }, "Ready=False/PodsNotReady Reconciling=True/RollingOut SourceConnected=Unknown/Connecting QueuesOwned=Unknown/Connecting"),
    ("one is cut off", |s| s.says("b", |p| cut(p, "BrokerUnreachable")), "Ready=False/BrokerUnreachable SourceConnected=False/BrokerUnreachable"),
    ("one is cut off without a word", |s| s.says("b", |p| cut(p, "")), "Ready=False/Disconnected SourceConnected=False/Disconnected"),
    ("a word that is none", |s| s.says("b", |p| cut(p, "broker is gone")), "Ready=False/Disconnected SourceConnected=False/Disconnected"),
    ("an ending one is cut off", |s| { s.says("b", |p| cut(p, "BrokerUnreachable")); s.ends("b") }, "QueuesOwned=False/Acquiring"),
    ("connected, with trouble, and consumes", |s| s.says("b", |p| { cut(p, "BrokerUnreachable"); p.source.connected = true }), "SourceConnected=True/BrokerUnreachable"),
    ("connected, with trouble, and has nothing", |s| s.all_say(|p| { cut(p, "TopicNotFound"); p.source.connected = true; p.totals.owned = 0; p.totals.known = None; p.queues.clear() }), "Ready=False/TopicNotFound SourceConnected=False/TopicNotFound QueuesOwned=Unknown/Connecting"),
    ("a source of another version", |s| s.all_say(|p| { cut(p, ""); own(p, ConditionType::SourceConnected, false, Reason::SourceUnsupported) }), "Ready=False/SourceUnsupported SourceConnected=False/SourceUnsupported"),
    ("one application is ill", |s| s.says("a", |p| ill(p, Health::Unhealthy, Reason::HealthCheckFailed)), "Ready=False/HealthCheckFailed ApplicationHealthy=False/HealthCheckFailed"),
    ("one never was healthy", |s| s.says("a", |p| ill(p, Health::Unhealthy, Reason::NeverHealthy)), "Ready=False/NeverHealthy ApplicationHealthy=False/NeverHealthy"),
    ("a secret is missing", |s| { s.says("a", |p| ill(p, Health::Unhealthy, Reason::HealthCheckFailed)); s.says("b", |p| ill(p, Health::Unhealthy, Reason::SecretMissing)) }, "Ready=False/SecretMissing ApplicationHealthy=False/SecretMissing"),
    ("a secret is no good", |s| s.says("b", |p| ill(p, Health::Unhealthy, Reason::SecretInvalid)), "Ready=False/SecretInvalid ApplicationHealthy=False/SecretInvalid"),
    ("the callback is wrong", |s| { s.says("a", |p| ill(p, Health::Unhealthy, Reason::HealthCheckFailed)); s.says("b", |p| ill(p, Health::Healthy, Reason::CallbackMisconfigured)) }, "Ready=False/CallbackMisconfigured ApplicationHealthy=False/CallbackMisconfigured"),
    ("a storm", |s| s.says("b", |p| ill(p, Health::Healthy, Reason::DeadLetterStorm)), "Ready=False/DeadLetterStorm ApplicationHealthy=False/DeadLetterStorm"),
    ("one handed over, others took", |s| { s.says("c", hands_over); s.says("a", |p| p.totals.owned = 5) }, "Ready=False/HealthCheckFailed ApplicationHealthy=False/HealthCheckFailed"),
    ("all handed over", |s| s.all_say(hands_over), "Ready=False/HealthCheckFailed SourceConnected=Unknown/NotConnecting ApplicationHealthy=False/HealthCheckFailed QueuesOwned=False/QueuesWithoutOwner"),
    ("a queue without owner", |s| s.says("c", |p| { p.queues.pop(); p.totals.owned = 1 }), "QueuesOwned=False/QueuesWithoutOwner"),
    ("a retry queue hides none", |s| s.says("c", |p| (p.queues[1].extra, p.totals.owned) = (true, p.totals.owned - 1)), "QueuesOwned=False/QueuesWithoutOwner"),
    ("a queue is handed over", |s| { s.says("c", |p| { p.queues.pop(); p.totals.owned = 1 }); s.says("b", |p| p.phase = Phase::Starting) }, "QueuesOwned=False/Acquiring"),
    ("a lease in doubt", |s| s.says("c", |p| own(p, ConditionType::QueuesOwned, false, Reason::LeaseDoubtful)), "QueuesOwned=False/LeaseDoubtful"),
    ("not verified", |s| s.says("c", |p| own(p, ConditionType::QueuesOwned, true, Reason::OwnershipUnverified)), "QueuesOwned=True/OwnershipUnverified"),
    ("more replicas than queues", |s| s.all_say(|p| p.totals.known = Some(2)), "QueuesOwned=True/MoreReplicasThanQueues"),
    ("one has nothing to do", |s| s.says("c", |p| own(p, ConditionType::QueuesOwned, true, Reason::MoreReplicasThanQueues)), "QueuesOwned=True/MoreReplicasThanQueues"),
    ("a blocked message", |s| s.says("b", |p| block(p, Reason::AttemptsExhausted, 60)), "Blocked=True/AttemptsExhausted"),
    ("the oldest of two", |s| { s.says("a", |p| block(p, Reason::AttemptsExhausted, 60)); s.says("b", |p| block(p, Reason::Undecodable, 61)) }, "Blocked=True/Undecodable"),
    ("the oldest comes first", |s| { s.says("a", |p| block(p, Reason::AttemptsExhausted, 61)); s.says("b", |p| block(p, Reason::Undecodable, 60)) }, "Blocked=True/AttemptsExhausted"),
    ("one drains by itself", |s| s.says("b", |p| { cut(p, "BrokerUnreachable"); p.phase = Phase::Draining }), "QueuesOwned=False/Acquiring"),
    ("blocked in an ending pod", |s| { s.says("b", |p| block(p, Reason::AttemptsExhausted, 60)); s.ends("b") }, "QueuesOwned=False/Acquiring"),
    ("data was lost", |s| s.says("b", |p| own(p, ConditionType::Blocked, true, Reason::DataLoss)), "Blocked=True/DataLoss"),
];

#[test]
fn what_pods_say() {
    check(SAID);
}

#[test]
fn a_young_operator_keeps_what_was_known_until_pods_were_asked() {
    let mut scene = Scene::new();
    scene.says("b", |status| block(status, Reason::AttemptsExhausted, 60));
    let before = scene.status();
    scene.group.status = Some(before.clone());
    scene.reports.clear();
    assert_eq!(scene.status(), before);
    // Without a former status, and for pods that have not started, nobody knows.
    scene.group.status = None;
    assert_eq!(scene.condition("Ready"), "Unknown/Starting");
    scene.group.status = Some(before);
    ["a", "b", "c"].iter().for_each(|name| scene.waits(name, "ContainerCreating"));
    assert_eq!(scene.condition("Blocked"), "Unknown/Starting");
}
