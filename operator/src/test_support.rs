//! What tests of several modules need: groups from snippets of YAML, and a cluster that holds them.

use std::{env, fs, path::Path};

use lockstep_crds::ConsumerGroup;
use serde_json::{Value, json};

use crate::{
    build::{Children, build},
    facts::{Observed, Settings},
    rollout::{Hashes, Wave, WaveView, plan},
};

/// What a stored group has at least.
const SMALLEST: &str = "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata:
  name: orders
  namespace: shop
  uid: 11111111-2222-3333-4444-555555555555
  creationTimestamp: 2026-11-30T08:00:00Z
  generation: 1
spec:
  source:
    rocketmq:
      nameServers: [namesrv.mq:9876]
      consumerGroup: shop-orders
      subscriptions: [{topic: orders}]
  template:
    spec:
      containers: [{name: app, image: app:1}]
";

/// The text of the smallest group with a snippet of YAML laid over it. Mappings are merged, all else is replaced.
pub(crate) fn manifest(snippet: &str) -> String {
    let mut value: Value = serde_yaml::from_str(SMALLEST).unwrap();
    merge(&mut value, serde_yaml::from_str(snippet).unwrap());
    serde_yaml::to_string(&value).unwrap()
}

/// The smallest stored group with a snippet of YAML laid over it.
pub(crate) fn group(snippet: &str) -> ConsumerGroup {
    serde_yaml::from_str(&manifest(snippet)).unwrap()
}

/// A cluster that holds that group alone.
pub(crate) fn observed(snippet: &str) -> Observed {
    Observed::alone(group(snippet))
}

/// Those of an operator under test.
pub(crate) fn settings() -> Settings {
    Settings { sidecar_image: "sidecar:test".to_owned(), version: "test".to_owned(), upgrade_groups_max: 5 }
}

/// What a first reconciliation makes of that cluster.
pub(crate) fn children(observed: &Observed) -> Children {
    let wave = Wave::default();
    let view = WaveView { wave: &wave, candidates: &[] };
    let plan = plan(observed, &settings(), &view, &Hashes::of(&observed.group));
    build(observed, &plan).unwrap()
}

/// An object from a snippet of YAML.
pub(crate) fn object<T: serde::de::DeserializeOwned>(yaml: &str) -> T {
    serde_yaml::from_str(yaml).unwrap()
}

/// Holds a text against the file of that name in `tests/golden`; with `LOCKSTEP_UPDATE_GOLDEN` set writes it.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if env::var_os("LOCKSTEP_UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let first = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = first.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    assert!(
        expected == actual,
        "{name} differs from line {} on: expected {:?}, found {:?}; if that is meant, run the tests once with \
         LOCKSTEP_UPDATE_GOLDEN=1 and look at the difference",
        line + 1,
        expected.lines().nth(line).unwrap_or_default(),
        actual.lines().nth(line).unwrap_or_default(),
    );
}

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert_with(|| json!(null)), value);
            }
        }
        // Nothing laid over anything changes nothing.
        (_, Value::Null) => {}
        (base, over) => *base = over,
    }
}
