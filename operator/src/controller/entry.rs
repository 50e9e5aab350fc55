//! A group as the watch delivers it.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{DeserializeGuard, error_boundary::InvalidObject},
};
use lockstep_crds::ConsumerGroup;
use serde::{Deserialize, Deserializer};

/// A group, or what is left of one that can't be decoded, so that it holds up none of the others. Cheap to clone: every
/// reconciliation sees all groups of its namespace.
#[derive(Debug, Clone)]
pub struct Entry(pub Result<Arc<ConsumerGroup>, InvalidObject>);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DeserializeGuard::<ConsumerGroup>::deserialize(deserializer).map(|read| Self(read.0.map(Arc::new)))
    }
}

impl Resource for Entry {
    type DynamicType = ();
    type Scope = <ConsumerGroup as Resource>::Scope;

    fn kind(dt: &()) -> Cow<'_, str> {
        ConsumerGroup::kind(dt)
    }

    fn group(dt: &()) -> Cow<'_, str> {
        ConsumerGroup::group(dt)
    }

    fn version(dt: &()) -> Cow<'_, str> {
        ConsumerGroup::version(dt)
    }

    fn plural(dt: &()) -> Cow<'_, str> {
        ConsumerGroup::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(group) => group.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(group) => Arc::make_mut(group).meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}
