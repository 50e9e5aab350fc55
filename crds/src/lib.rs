//! The `ConsumerGroup` resource of Kubernetes: the contract's fields, what only the operator needs (replicas, the pod
//! template), its status, and the generated definition in `crds/yaml`.

mod spec;
mod status;

pub use spec::{ConsumerGroup, ConsumerGroupSpec, DisruptionBudget, SidecarSpec};
pub use status::{Backlog, ConsumerGroupStatus, Queues};
