mod activemq;
mod assignment;
mod rabbitmq;

use std::{fs, os::unix::fs::symlink, time::Duration};

use lockstep_model::{Capabilities, DeadLetterBy, Ownership, Settlement};

use super::*;
use crate::deliver::SourceInfo;

const MANIFEST: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: orders}
spec:
  source:
    rocketmq: {nameServers: ['localhost:9876'], consumerGroup: shop, subscriptions: [{topic: orders}]}
";

fn group(more: &str) -> ConsumerGroup {
    parse(&format!("{MANIFEST}{more}"), Strictness::Strict).unwrap().group
}

fn capabilities() -> Capabilities {
    Capabilities {
        ownership: Ownership::Lock,
        settlement: Settlement::Cumulative,
        dead_letter: DeadLetterBy::Broker,
        reread: true,
        lookahead: None,
        release_keeps_order: true,
    }
}

fn source() -> SourceInfo {
    SourceInfo { scheme: "test", authority: "a".to_owned(), hidden_properties: &[] }
}

#[test]
fn defaults_reach_the_engine() {
    let config = engine_config(&group(""), capabilities(), 7, None);
    assert_eq!(config.mode, lockstep_core::OrderingMode::PerQueue);
    assert_eq!(config.when_exhausted, lockstep_core::WhenExhausted::Block);
    assert_eq!((config.max_in_flight, config.max_attempts), (32, 16));
    assert_eq!(config.timeout, Duration::from_secs(30));
}

#[test]
fn fields_reach_the_engine() {
    let group = group(
        "
  state: Paused
  ordering: {mode: Unordered}
  delivery: {timeoutSeconds: 3, maxInFlight: 5, statusCodes: {done: [409]}}
  retry: {maxAttempts: 2, backoff: {policy: Constant, initialMilliseconds: 10, maxSeconds: 1}}
",
    );
    let config = engine_config(&group, capabilities(), 7, None);
    assert_eq!(config.state, lockstep_core::RunState::Paused);
    assert_eq!(config.when_exhausted, lockstep_core::WhenExhausted::DeadLetter);
    assert_eq!(config.status_codes.done, [409]);
    let (initial, max) = (Duration::from_millis(10), Duration::from_secs(1));
    assert_eq!(config.backoff, lockstep_core::Backoff::Constant { initial, max });
}

#[test]
fn hot_changes_are_not_cold_ones() {
    let before = group("\n  drain: {timeoutSeconds: 35}\n");
    let hot = group(
        "
  state: Paused
  delivery: {timeoutSeconds: 3, maxInFlight: 5, statusCodes: {done: [409]}, healthCheck: {periodSeconds: 1}}
  retry: {maxAttempts: 2}
  sidecar: {logLevel: debug}
  drain: {timeoutSeconds: 35}
",
    );
    assert_eq!(cold_changes(&before, &hot), Vec::<&str>::new());
    let cold =
        group("\n  ordering: {mode: PerKey}\n  delivery: {path: /other}\n  drain: {timeoutSeconds: 35}\n");
    assert_eq!(cold_changes(&before, &cold), ["spec.ordering.mode", "spec.delivery.path"]);
    // The default of the drain follows the timeout and is no cold change.
    let (before, after) = (group(""), group("\n  delivery: {timeoutSeconds: 3}\n"));
    assert_eq!(cold_changes(&before, &after), Vec::<&str>::new());
}

#[test]
fn a_drain_follows_the_timeout_up_to_what_its_pod_was_built_with() {
    let seconds = Duration::from_secs;
    let longer = group("\n  delivery: {timeoutSeconds: 60}\n");
    assert_eq!(drain_timeout(&longer, None), seconds(65));
    assert_eq!(drain_timeout(&longer, Some(seconds(35))), seconds(35));
    assert_eq!(drain_timeout(&group("\n  delivery: {timeoutSeconds: 3}\n"), Some(seconds(35))), seconds(8));
    assert_eq!(drain_timeout(&group("\n  drain: {timeoutSeconds: 90}\n"), Some(seconds(90))), seconds(90));
}

#[test]
fn secrets_reach_the_delivery_and_missing_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let group = group(
        "
  delivery:
    headersSecretRef: {name: h}
    signing: {secretRefs: [{name: k, key: current}]}
",
    );
    for made in [false, true] {
        // Kubernetes mounts a missing Secret as an empty folder.
        if made {
            fs::create_dir_all(folder.path().join("headers")).unwrap();
        }
        let missing = delivery_settings(&group, None, source(), folder.path()).unwrap_err().to_string();
        assert!(missing.contains("headersSecretRef (Secret \"h\")"), "{missing}");
    }
    fs::write(folder.path().join("headers/Authorization"), "Bearer x\n").unwrap();
    fs::write(folder.path().join("headers/..data"), "no header").unwrap();
    let missing = delivery_settings(&group, None, source(), folder.path()).unwrap_err();
    let words = "spec.delivery.signing.secretRefs[0] (Secret \"k\", key \"current\")";
    assert!(missing.to_string().contains(words), "{missing}");
    fs::create_dir_all(folder.path().join("signing")).unwrap();
    fs::write(folder.path().join("signing/0"), "whsec_x").unwrap();
    let settings = delivery_settings(&group, None, source(), folder.path()).unwrap();
    assert_eq!(settings.headers, [("Authorization".to_owned(), "Bearer x".to_owned())]);
    assert_eq!(settings.signing_keys, ["whsec_x"]);
    assert!(!format!("{settings:?}").contains("Bearer"));
}

#[test]
fn a_named_port_needs_a_callback() {
    let group = group("\n  delivery: {port: http}\n");
    let error = delivery_settings(&group, None, source(), Path::new("/nowhere")).unwrap_err();
    assert!(error.to_string().contains("--callback"), "{error}");
    let callback = crate::deliver::Endpoint::from_url("http://127.0.0.1:9/x").unwrap();
    assert!(delivery_settings(&group, Some(&callback), source(), Path::new("/nowhere")).is_ok());
}

#[test]
fn swapped_links_and_rewritten_files_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for version in ["..1", "..2"] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("group.yaml"), "same length").unwrap();
    }
    symlink("..1", path("..data")).unwrap();
    symlink("..data/group.yaml", path("group.yaml")).unwrap();
    let mut watch = Watch::new(vec![path("group.yaml")]);
    assert!(!watch.changed());
    symlink("..2", path("..new")).unwrap();
    fs::rename(path("..new"), path("..data")).unwrap();
    assert!(watch.changed());
    assert!(!watch.changed());
    fs::write(path("..2/group.yaml"), "another length").unwrap();
    assert!(watch.changed());
    fs::remove_file(path("group.yaml")).unwrap();
    assert!(watch.changed());
}

#[test]
fn every_mistake_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("group.yaml");
    fs::write(&file, format!("{MANIFEST}  delivery: {{port: 0, timeoutSeconds: 0, unknown: 1}}\n")).unwrap();
    let error = Origin::File(file).load().unwrap_err().to_string();
    for field in ["delivery.port", "delivery.timeoutSeconds", "delivery.unknown"] {
        assert!(error.contains(field), "{error}");
    }
}

#[test]
fn mounted_files_make_one_group_and_only_the_hot_one_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let wanted = group("\n  delivery: {timeoutSeconds: 3, path: /orders}\n");
    fs::write(path("cold"), wanted.cold_file()).unwrap();
    fs::write(path("hot"), wanted.hot_file()).unwrap();
    let origin = Origin::Mounted { cold: path("cold"), hot: path("hot") };
    let loaded = origin.load().unwrap();
    assert_eq!(loaded.group.spec, wanted.spec);
    assert_eq!(loaded.cold_hash, config_hash(&wanted.cold_file()));
    assert_eq!(loaded.hot_hash, config_hash(&wanted.hot_file()));
    assert_eq!(origin.files(), [path("hot")]);
}

#[test]
fn files_of_a_newer_operator_are_read_and_what_is_unknown_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let wanted = group("\n  delivery: {path: /orders}\n  sidecar: {adminPort: 2000}\n");
    let (cold, hot) = (wanted.cold_file(), wanted.hot_file());
    let newer =
        |text: &str| text.replace("  delivery:\n", "  newer: [{a: 1}]\n  delivery:\n    newer: {b: 2}\n");
    fs::write(path("cold"), format!("top: 1\n{}", newer(&cold))).unwrap();
    fs::write(path("hot"), newer(&hot).replace("  retry:\n", "  retry:\n    other: 3\n")).unwrap();
    let origin = Origin::Mounted { cold: path("cold"), hot: path("hot") };
    let loaded = origin.load().unwrap();
    assert_eq!(loaded.group.spec, wanted.spec);
    for field in ["top", "spec.newer", "spec.delivery.newer", "spec.retry.other"] {
        assert!(loaded.warnings.iter().any(|warning| warning.starts_with(field)), "{:?}", loaded.warnings);
    }
    // A word that this version can't know changes what is meant, and so is no field to pass over.
    fs::write(path("hot"), hot.replace("whenExhausted: Block", "whenExhausted: Park")).unwrap();
    let error = origin.load().unwrap_err().to_string();
    assert!(error.contains("spec.retry.whenExhausted") && error.contains("Park"), "{error}");
    assert_eq!(origin.admin_port(), 2000, "the pod's hook still finds the sidecar");
}
