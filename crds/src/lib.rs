//! The `ConsumerGroup` resource of Kubernetes: the contract's fields, what only the operator needs (replicas, the pod
//! template), its status, and the generated definition in `crds/yaml`.

#[cfg(any(test, feature = "cases"))]
pub mod cases;
mod definition;
mod rules;
mod spec;
mod status;
mod template;

pub use definition::{FILE, OUTLINE, OUTLINE_FILE, crd, outline, yaml};
pub use rules::{CEL_RULES, CelRule};
pub use spec::{ConsumerGroup, ConsumerGroupSpec, DisruptionBudget, SidecarSpec};
pub use status::{Backlog, ConsumerGroupStatus, Queues};

#[cfg(test)]
mod tests;
