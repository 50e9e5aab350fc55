//! A group that can't be decoded: its status says so, and nothing else is touched.

use jiff::Timestamp;
use kube::{
    Api, Resource,
    api::{ApiResource, DynamicObject},
    core::error_boundary::InvalidObject,
    runtime::reflector::ObjectRef,
};
use lockstep_crds::{ConsumerGroup, ConsumerGroupStatus};
use tracing::warn;

use crate::{
    context::{Key, Scope},
    status::unreadable,
    update_status::{Target, update},
};

/// Says in the group's status what is wrong with it.
///
/// # Errors
///
/// What the API says.
pub(super) async fn report(scope: &Scope, invalid: &InvalidObject) -> Result<(), kube::Error> {
    let InvalidObject { error, metadata } = invalid;
    let key = Key {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let deployment = scope.stores.deployments.get(&ObjectRef::new(&key.name).within(&key.namespace));
    scope.shared.wave.sit_out(
        &key.namespace,
        &key.name,
        deployment.as_ref().and_then(|live| live.meta().uid.as_deref()),
    );
    let version = metadata.resource_version.clone();
    if scope.shared.memories.with(&key, |memory| memory.undecodable == version) {
        return Ok(());
    }
    warn!(error, "the group can't be decoded");
    let previous = previous(scope, &key).await?;
    let now = Timestamp::now();
    let next = unreadable(error, metadata.generation, previous.as_ref(), now);
    let target = Target {
        key: &key,
        uid: metadata.uid.as_deref(),
        version: version.as_deref(),
        previous: previous.as_ref(),
    };
    update(scope, target, &next).await?;
    scope.shared.memories.with(&key, |memory| memory.undecodable = version);
    Ok(())
}

/// The group's status, where that can be read at least.
async fn previous(scope: &Scope, key: &Key) -> Result<Option<ConsumerGroupStatus>, kube::Error> {
    let resource = ApiResource::erase::<ConsumerGroup>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(scope.shared.client.clone(), &key.namespace, &resource);
    let object = api.get_opt(&key.name).await?;
    let status = object.and_then(|object| object.data.get("status").cloned());
    Ok(status.and_then(|status| serde_json::from_value(status).ok()))
}
