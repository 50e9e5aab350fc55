//! Writes a group's status, and only when that says something new.

use std::sync::Arc;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use lockstep_contract::{API_VERSION, KIND};
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    context::{Key, Scope, StatusWritten, WRITE_SETTLES},
    status::needs_write,
};

/// Who applies statuses: another than who applies children, since each must always send all that it owns.
const STATUS_MANAGER: &str = "lockstep-operator-status";

/// A group whose status is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Its namespace and name.
    pub key: &'a Key,
    /// Its UID, so that the status of a deleted group is not written to one of the same name.
    pub uid: Option<&'a str>,
    /// Its version as it was read.
    pub version: Option<&'a str>,
    /// Its status as it was read.
    pub previous: Option<&'a ConsumerGroupStatus>,
}

impl<'a> Target<'a> {
    /// The group itself.
    pub fn of(group: &'a Arc<ConsumerGroup>, key: &'a Key) -> Self {
        Self {
            key,
            uid: group.metadata.uid.as_deref(),
            version: group.metadata.resource_version.as_deref(),
            previous: group.status.as_ref(),
        }
    }
}

/// The group with the status that was written last, while the watch has still to show that.
pub fn newest(scope: &Scope, key: &Key, group: &Arc<ConsumerGroup>) -> Arc<ConsumerGroup> {
    let written = scope.shared.memories.with(key, |memory| {
        let last = memory.status.as_ref()?;
        let unseen = last.over == group.metadata.resource_version && last.at.elapsed() < WRITE_SETTLES;
        unseen.then(|| last.status.clone())
    });
    match written {
        Some(status) => Arc::new(ConsumerGroup { status: Some(status), ..group.as_ref().clone() }),
        None => Arc::clone(group),
    }
}

/// Writes the status if the one that was read says something else; answers whether it did.
///
/// # Errors
///
/// What the API says. A group that is gone is none.
pub async fn update(
    scope: &Scope,
    target: Target<'_>,
    next: &ConsumerGroupStatus,
) -> Result<bool, kube::Error> {
    let Target { key, uid, version, previous } = target;
    let shared = &scope.shared;
    let age = shared.memories.with(key, |memory| memory.status.as_ref().map(|last| last.at.elapsed()));
    if !needs_write(previous, next, age) || !shared.leads() {
        return Ok(false);
    }
    let body = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": { "name": key.name, "namespace": key.namespace, "uid": uid },
        "status": next,
    });
    // The answer is read as no type: an undecodable group has a status too.
    let resource = ApiResource::erase::<ConsumerGroup>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &key.namespace, &resource);
    let params = PatchParams::apply(STATUS_MANAGER).force();
    match api.patch_status(&key.name, &params, &Patch::Apply(&body)).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
        Err(error) => return Err(error),
    }
    shared.metrics.status_writes.inc();
    let written =
        StatusWritten { status: next.clone(), over: version.map(str::to_owned), at: Instant::now() };
    shared.memories.with(key, |memory| memory.status = Some(written));
    Ok(true)
}
