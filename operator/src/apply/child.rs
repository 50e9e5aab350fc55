//! Writes one child.

use std::fmt::Debug;

use k8s_openapi::{NamespaceResourceScope, api::apps::v1::Deployment};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::Status,
};
use lockstep_contract::{
    config_hash,
    names::{FIELD_MANAGER, KEY_PREFIX, annotations},
};
use lockstep_crds::ConsumerGroup;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::Instant;
use tracing::info;

use super::is_subset;
use crate::{
    context::{Key, Scope, WRITE_SETTLES, Written},
    metrics::{ChildKind, Verb},
};

/// The code for a request that can't be understood whenever it is sent.
const BAD_REQUEST: u16 = 400;

/// A child could not be brought to what is wanted.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// An object of that name is somebody else's.
    #[error(
        "metadata.name: the {kind} {name} exists and is not this group's; delete it, or remove its other owner, or give the \
         group another name"
    )]
    NotOwned {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// It is left from a deleted group of the same name, or from one with the same consumer group.
    #[error("{kind} {name} is left from a group that was deleted or can't be read; it is waited for")]
    Leftover {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The API will never take it.
    #[error("the Kubernetes API refuses {kind} {name}: {message}")]
    Refused {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
        /// What the API says.
        message: String,
    },
    /// The namespace goes, and the group with it.
    #[error("the namespace is being deleted")]
    NamespaceEnds,
    /// The group is gone or goes, which its own watch has still to tell.
    #[error("the group is deleted")]
    GroupEnds,
    /// This process leads no more.
    #[error("another replica of the operator leads")]
    NotLeading,
    /// It may work later.
    #[error("failed to write {kind} {name}: {source}")]
    Failed {
        /// The object's kind.
        kind: String,
        /// Its name.
        name: String,
        /// What went wrong.
        source: kube::Error,
    },
}

/// Writes children of one group.
pub(super) struct Writer<'a> {
    scope: &'a Scope,
    key: Key,
    uid: String,
}

/// What a child must be so that it can be written.
pub(super) trait Child:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
{
    const KIND: ChildKind;
}

impl Child for Deployment {
    const KIND: ChildKind = ChildKind::Deployment;
}

impl Child for k8s_openapi::api::core::v1::ConfigMap {
    const KIND: ChildKind = ChildKind::ConfigMap;
}

impl Child for k8s_openapi::api::policy::v1::PodDisruptionBudget {
    const KIND: ChildKind = ChildKind::PodDisruptionBudget;
}

impl<'a> Writer<'a> {
    pub(super) fn new(scope: &'a Scope, group: &ConsumerGroup) -> Self {
        Self { scope, key: Key::of(group), uid: group.uid().unwrap_or_default() }
    }

    /// Whether the group is the object's owner.
    pub(super) fn owns(&self, object: &impl Resource) -> bool {
        object.meta().owner_references.iter().flatten().any(|owner| owner.uid == self.uid)
    }

    /// Writes the child if the cluster holds another.
    pub(super) async fn ensure<K: Child>(&self, wanted: &K, live: Option<&K>) -> Result<(), ApplyError> {
        let hash = wanted.annotations().get(annotations::APPLIED_HASH).cloned().unwrap_or_default();
        let memory_key = format!("{}/{}", K::kind(&()), wanted.name_any());
        let asked;
        let live = match live {
            Some(live) => Some(live),
            None => {
                // It may be there without the label that the watch asks for, or the watch has still to show it.
                let name = wanted.name_any();
                asked = self.api::<K>().get_opt(&name).await.map_err(|error| self.failed(wanted, error))?;
                asked.as_ref()
            }
        };
        let wanted_value = to_value(wanted).map_err(|error| self.failed(wanted, error))?;
        if let Some(live) = live {
            self.check_owner(live)?;
            let live_value = to_value(live).map_err(|error| self.failed(live, error))?;
            if is_subset(&wanted_value, &live_value)
                || self.accepted(&memory_key, &hash, live.resource_version(), &live_value)
            {
                return Ok(());
            }
        }
        // What was there and is gone may have gone with the group.
        if live.is_none()
            && self.written(&memory_key, &hash).is_some()
            && !self.group_is_there(wanted).await?
        {
            return Err(ApplyError::GroupEnds);
        }
        self.write(wanted, &wanted_value, &hash, memory_key, live).await
    }

    async fn group_is_there<K: Child>(&self, wanted: &K) -> Result<bool, ApplyError> {
        let groups: Api<ConsumerGroup> =
            Api::namespaced(self.scope.shared.client.clone(), &self.key.namespace);
        let found = groups.get_metadata_opt(&self.key.name).await;
        let found = found.map_err(|error| self.failed(wanted, error))?.map(|group| group.metadata);
        Ok(found.is_some_and(|group| {
            group.uid.as_deref() == Some(self.uid.as_str()) && group.deletion_timestamp.is_none()
        }))
    }

    async fn write<K: Child>(
        &self,
        wanted: &K,
        value: &Value,
        hash: &str,
        memory_key: String,
        live: Option<&K>,
    ) -> Result<(), ApplyError> {
        if !self.scope.shared.leads() {
            return Err(ApplyError::NotLeading);
        }
        let name = wanted.name_any();
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let written = match self.api::<K>().patch(&name, &params, &Patch::Apply(value)).await {
            Ok(written) => written,
            Err(error) => {
                if is_immutable(&error) && K::KIND == ChildKind::ConfigMap {
                    // Somebody made an immutable one of that name with another content: the next turn makes it anew.
                    self.delete(wanted).await?;
                }
                return Err(self.failed(wanted, error));
            }
        };
        self.scope.shared.metrics.wrote(K::KIND, Verb::Apply);
        let kind = K::kind(&());
        match live {
            None => info!(kind = %kind, child = name, "child created"),
            Some(live)
                if live.annotations().get(annotations::APPLIED_HASH).is_some_and(|old| old == hash) =>
            {
                info!(kind = %kind, child = name, "child corrected: something else had changed it");
            }
            Some(_) => info!(kind = %kind, child = name, "child changed"),
        }
        let accepted = to_value(&written).map(|value| essence(&value)).unwrap_or_default();
        let over = live.and_then(ResourceExt::resource_version);
        let record = Written { hash: hash.to_owned(), accepted, over, at: Instant::now() };
        self.scope.shared.memories.with(&self.key, |memory| memory.written.insert(memory_key, record));
        Ok(())
    }

    /// Changes nothing but the number of pods. A patch and no application, which would have to repeat all that the operator
    /// ever applied.
    pub(super) async fn scale(&self, live: &Deployment, replicas: i32) -> Result<(), ApplyError> {
        if live.spec.replicas == Some(replicas) || replicas < 0 {
            return Ok(());
        }
        if !self.scope.shared.leads() {
            return Err(ApplyError::NotLeading);
        }
        let patch = json!({"metadata": {"uid": live.uid()}, "spec": {"replicas": replicas}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.api::<Deployment>();
        let scaled = api.patch_metadata(&live.name_any(), &params, &Patch::Merge(&patch)).await;
        scaled.map_err(|error| self.failed(live, error))?;
        self.scope.shared.metrics.wrote(ChildKind::Deployment, Verb::Patch);
        info!(replicas, "scaled, though the group is stalled");
        Ok(())
    }

    /// Deletes a child; one that is gone is deleted.
    pub(super) async fn delete<K: Child>(&self, child: &K) -> Result<(), ApplyError> {
        if !self.scope.shared.leads() {
            return Err(ApplyError::NotLeading);
        }
        let uid = child.uid();
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::background()
        };
        let name = child.name_any();
        match self.api::<K>().delete(&name, &params).await {
            Ok(_) => {
                self.scope.shared.metrics.wrote(K::KIND, Verb::Delete);
                info!(kind = %K::kind(&()), child = name, "child deleted: it is not needed any more");
                Ok(())
            }
            // Gone, or replaced by another meanwhile.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(error) => Err(self.failed(child, error)),
        }
    }

    fn api<K: Child>(&self) -> Api<K> {
        Api::namespaced(self.scope.shared.client.clone(), &self.key.namespace)
    }

    fn check_owner<K: Child>(&self, live: &K) -> Result<(), ApplyError> {
        if self.owns(live) {
            return Ok(());
        }
        let (kind, name) = (K::kind(&()).into_owned(), live.name_any());
        Err(match is_leftover(live, &self.uid, &self.key.name) {
            true => ApplyError::Leftover { kind, name },
            false => ApplyError::NotOwned { kind, name },
        })
    }

    /// Whether the API server made of this very child what is there now, as admission webhooks do: writing it again would
    /// change nothing. Or the watch has still to show it.
    fn accepted(&self, memory_key: &str, hash: &str, version: Option<String>, live: &Value) -> bool {
        self.written(memory_key, hash).is_some_and(|written| {
            let unseen = written.over == version && written.at.elapsed() < WRITE_SETTLES;
            unseen || written.accepted == essence(live)
        })
    }

    fn written(&self, memory_key: &str, hash: &str) -> Option<Written> {
        self.scope.shared.memories.with(&self.key, |memory| {
            memory.written.get(memory_key).filter(|written| written.hash == hash).cloned()
        })
    }

    fn failed<K: Child>(&self, child: &K, error: kube::Error) -> ApplyError {
        let (kind, name) = (K::kind(&()).into_owned(), child.name_any());
        let kube::Error::Api(status) = &error else {
            return ApplyError::Failed { kind, name, source: error };
        };
        match () {
            () if namespace_ends(status) => ApplyError::NamespaceEnds,
            () if is_refusal(status) => ApplyError::Refused { kind, name, message: status.message.clone() },
            () => ApplyError::Failed { kind, name, source: error },
        }
    }
}

/// Whether the object's owner is another group of the same name: one that was deleted.
pub(super) fn is_leftover(object: &impl Resource, uid: &str, group: &str) -> bool {
    object.meta().owner_references.iter().flatten().any(|owner| {
        owner.kind == lockstep_contract::KIND
            && owner.api_version == lockstep_contract::API_VERSION
            && owner.name == group
            && owner.uid != uid
    })
}

/// Kubernetes says so when an object is created in a namespace that is being deleted (`NamespaceTerminating` in
/// `k8s.io/api/core/v1`) or that is gone.
fn namespace_ends(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let terminating =
        causes.map(|cause| cause.reason.as_str()).any(|reason| reason == "NamespaceTerminating");
    terminating
        || status.is_not_found()
            && status.details.as_ref().is_some_and(|details| details.kind.eq_ignore_ascii_case("namespaces"))
}

/// Whether the API will say the same each time. A list with a key twice, and a field that is none, are answered 500 when
/// they are applied (`k8s.io/apimachinery/pkg/util/managedfields`); admission webhooks answer with any code, and their
/// words and those of policies come from the API server (`k8s.io/apiserver/pkg/admission/plugin`).
fn is_refusal(status: &Status) -> bool {
    const WORDS: [&str; 4] = [
        "failed to create typed patch object",
        "field not declared in schema",
        "denied the request",
        "denied request",
    ];
    let says = |words: &&str| status.message.contains(*words);
    status.is_invalid() || status.code == BAD_REQUEST || WORDS.iter().any(says)
}

fn is_immutable(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid() && status.message.contains("immutable"))
}

/// The hash of what an object is about: not its status, and of its bookkeeping only what the operator writes.
fn essence(value: &Value) -> String {
    let of_metadata = |name: &str| value.get("metadata").and_then(|metadata| metadata.get(name));
    let annotations = of_metadata("annotations").and_then(Value::as_object).into_iter().flatten();
    let ours: Vec<_> = annotations.filter(|(name, _)| name.starts_with(KEY_PREFIX)).collect();
    let about: Vec<_> = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "metadata" && *name != "status")
        .collect();
    let all = json!([of_metadata("labels"), of_metadata("ownerReferences"), ours, about]);
    config_hash(&all.to_string())
}

fn to_value(object: &impl Serialize) -> Result<Value, kube::Error> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError)
}
