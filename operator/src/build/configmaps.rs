//! The two files that the sidecar reads.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use lockstep_contract::{ConsumerGroup, config_hash, names};

use super::Owned;

/// The name of the ConfigMap with a group's cold configuration of that hash.
pub fn cold_name(group: &str, hash: &str) -> String {
    format!("{group}-cold-{hash}")
}

/// The name of the ConfigMap with a group's hot configuration.
pub fn hot_name(group: &str) -> String {
    format!("{group}-hot")
}

/// What needs new pods. Immutable, so that the kubelet does not watch it and nobody changes it below running pods.
pub(super) fn cold(contract: &ConsumerGroup, owned: &Owned) -> ConfigMap {
    let text = contract.cold_file();
    let hash = config_hash(&text);
    let name = cold_name(&owned.group, &hash);
    let metadata = ObjectMeta {
        annotations: Some([(names::annotations::COLD_HASH.to_owned(), hash)].into()),
        ..owned.named(name)
    };
    ConfigMap { immutable: Some(true), metadata, data: data(text), ..ConfigMap::default() }
}

/// What applies while pods live.
pub(super) fn hot(contract: &ConsumerGroup, owned: &Owned) -> ConfigMap {
    let text = contract.hot_file();
    let metadata = ObjectMeta {
        annotations: Some([(names::annotations::HOT_HASH.to_owned(), config_hash(&text))].into()),
        ..owned.named(hot_name(&owned.group))
    };
    ConfigMap { metadata, data: data(text), ..ConfigMap::default() }
}

fn data(text: String) -> Option<BTreeMap<String, String>> {
    Some([(names::files::CONFIG_KEY.to_owned(), text)].into())
}
