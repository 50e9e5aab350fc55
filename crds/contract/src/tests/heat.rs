//! Hot and cold fields.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{ROCKETMQ, parsing::FULL, patched, valid};
use crate::{ConsumerGroup, FIELDS, Heat, config_hash, parse_mounted, schema_of};

/// Paths of all fields that hold a value and no further known fields.
fn leaves(schema: &Value, path: &str, out: &mut BTreeSet<String>) {
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let properties =
        std::iter::once(schema).chain(alternatives).find_map(|schema| schema["properties"].as_object());
    match properties {
        Some(fields) => {
            for (name, field) in fields {
                leaves(field, &crate::yaml::join(path, name), out);
            }
        }
        None => {
            out.insert(path.to_owned());
        }
    }
}

#[test]
fn every_field_is_in_the_table_once() {
    let mut known = BTreeSet::new();
    leaves(&schema_of::<ConsumerGroup>(), "", &mut known);
    let listed: BTreeSet<String> = FIELDS.iter().map(|field| field.path.to_owned()).collect();
    assert_eq!(listed.len(), FIELDS.len(), "a field is listed twice");
    assert_eq!(listed, known);
}

#[test]
fn the_two_files_make_the_group_again() {
    for text in [ROCKETMQ, FULL] {
        let group = valid(text).group;
        let parsed = parse_mounted(&group.cold_file(), &group.hot_file()).unwrap_or_else(|m| panic!("{m}"));
        assert_eq!(parsed.group, group);
        assert_eq!(parsed.warnings, []);
    }
}

#[test]
fn a_change_moves_the_hash_of_its_own_file_only() {
    let changes = [
        ("spec: {state: Paused}", Heat::Hot),
        ("spec: {retry: {maxAttempts: 3}}", Heat::Hot),
        ("spec: {delivery: {statusCodes: {done: [409]}}}", Heat::Hot),
        ("spec: {sidecar: {logLevel: debug}}", Heat::Hot),
        ("spec: {delivery: {path: /other}}", Heat::Cold),
        ("spec: {source: {rocketmq: {subscriptions: [{topic: other}]}}}", Heat::Cold),
        ("spec: {drain: {timeoutSeconds: 60}}", Heat::Cold),
    ];
    let before = valid(ROCKETMQ).group;
    for (change, heat) in changes {
        let after = valid(&patched(ROCKETMQ, change)).group;
        assert_eq!(before.hot_file() != after.hot_file(), heat == Heat::Hot, "{change}");
        assert_eq!(before.cold_file() != after.cold_file(), heat == Heat::Cold, "{change}");
        let heats: Vec<Heat> = before.changes(&after).iter().map(|field| field.heat).collect();
        assert_eq!(heats, [heat], "{change}");
    }
    let same = valid(&patched(ROCKETMQ, "spec: {replicas: 5, retry: {maxAttempts: 16}}")).group;
    assert_eq!(before.hot_file(), same.hot_file(), "a default written out is no change");
    assert_eq!(before.cold_file(), same.cold_file());
    assert!(before.changes(&same).is_empty());
}

/// The drain's default follows the timeout, and still no pod is replaced.
#[test]
fn another_timeout_is_hot_and_the_default_drain_follows_it() {
    let before = valid(ROCKETMQ).group;
    for seconds in [5, 40, 3600] {
        let change = format!("spec: {{delivery: {{timeoutSeconds: {seconds}}}}}");
        let after = valid(&patched(ROCKETMQ, &change)).group;
        let paths: Vec<&str> = before.changes(&after).iter().map(|field| field.path).collect();
        assert_eq!(paths, ["spec.delivery.timeoutSeconds"]);
        assert_eq!(after.cold_file(), before.cold_file());
        assert!(!after.cold_file().contains("drain"), "{}", after.cold_file());
        let mounted = parse_mounted(&before.cold_file(), &after.hot_file()).unwrap_or_else(|m| panic!("{m}"));
        assert_eq!(mounted.group, after);
        assert_eq!(mounted.group.drain_timeout().as_secs(), seconds + 5);
    }
    let given = valid(&patched(ROCKETMQ, "spec: {drain: {timeoutSeconds: 50}}")).group;
    assert!(given.cold_file().contains("drain:\n    timeoutSeconds: 50"), "{}", given.cold_file());
    let shorter =
        valid(&patched(ROCKETMQ, "spec: {drain: {timeoutSeconds: 50}, delivery: {timeoutSeconds: 5}}"));
    assert_eq!(given.cold_file(), shorter.group.cold_file());
    let mounted =
        parse_mounted(&given.cold_file(), &shorter.group.hot_file()).unwrap_or_else(|m| panic!("{m}"));
    assert_eq!(mounted.group.drain_timeout().as_secs(), 50);
}

/// The hash names ConfigMaps and is compared over versions, so it must not change.
#[test]
fn the_hash_is_fnv_1a() {
    assert_eq!(config_hash(""), "cbf29ce484222325");
    assert_eq!(config_hash("a"), "af63dc4c8601ec8c");
    assert_eq!(config_hash("foobar"), "85944171f73967e8");
}
