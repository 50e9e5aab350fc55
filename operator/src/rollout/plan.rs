//! What a reconciliation does now.

use std::collections::BTreeMap;

/// What a reconciliation does now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where the pod template comes from.
    pub template: TemplateSource,
    /// The sidecar's image in a template that is built.
    pub sidecar_image: String,
    /// The drain's time in a template that is built, in seconds.
    pub drain_seconds: u64,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// The Deployment's annotations by which the next plan knows what was done. They are written as they are, and none of
    /// [`super::MARKS`] that is not among them.
    pub marks: BTreeMap<&'static str, String>,
    /// Whether the operator's own new template waits for its turn.
    pub waits_for_upgrade: bool,
}

/// Where the pod template comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateSource {
    /// Built from the group.
    Build,
    /// The live Deployment's, as it is: an upgrade waits for its turn.
    KeepLive,
}

/// How pods are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// One by one.
    Rolling,
    /// All end before new ones start.
    Recreate,
}
