//! Large objects as the stores keep them: as text. Decoded, the many fields of Kubernetes' types that are absent take ten times
//! the room of those that are there, and with hundreds of groups that would be most of the operator's memory.

use std::{borrow::Cow, fmt::Debug, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

/// What can be kept.
pub trait Keep:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Serialize + DeserializeOwned + 'static
{
    /// What must be known of every object at every look.
    type Glance: Clone + Debug + Send + Sync;

    /// That of this object.
    fn glance(&self) -> Self::Glance;

    /// Takes away what nobody reads.
    fn strip(&mut self);
}

/// One object.
#[derive(Debug)]
pub struct Compact<K: Keep> {
    /// What it is found by; its annotations are in the text alone.
    meta: ObjectMeta,
    glance: K::Glance,
    text: Box<str>,
}

impl<K: Keep> Compact<K> {
    /// The object.
    ///
    /// # Errors
    ///
    /// What was encoded can't be decoded: a fault of the type.
    pub fn read(&self) -> Result<Arc<K>, serde_json::Error> {
        serde_json::from_str(&self.text).map(Arc::new)
    }

    /// What is known without reading it.
    pub fn glance(&self) -> &K::Glance {
        &self.glance
    }
}

impl<K: Keep> Clone for Compact<K> {
    fn clone(&self) -> Self {
        Self { meta: self.meta.clone(), glance: self.glance.clone(), text: self.text.clone() }
    }
}

impl<'de, K: Keep> Deserialize<'de> for Compact<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = K::deserialize(deserializer)?;
        object.strip();
        let text = serde_json::to_string(&object).map_err(serde::de::Error::custom)?.into_boxed_str();
        let glance = object.glance();
        let meta = ObjectMeta { annotations: None, ..std::mem::take(object.meta_mut()) };
        Ok(Self { meta, glance, text })
    }
}

impl<K: Keep> Resource for Compact<K> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(dt: &()) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &()) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &()) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &()) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests;
