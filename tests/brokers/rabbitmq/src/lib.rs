//! The sidecar against real RabbitMQ servers: scenarios, each judged by the history checker.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that can't go on must say so and fail"
)]

pub mod access;
pub mod assignments;
pub mod bounds;
pub mod changes;
pub mod conformance;
pub mod dead_letters;
pub mod faults;
pub mod handover;
pub mod harness;
pub mod members;
pub mod messages;
pub mod plan;
pub mod refusals;
pub mod secured;
pub mod site;
pub mod timeouts;
pub mod world;

use lockstep_tests_support::runner;
use plan::Plan;
use world::{Servers, Site};

/// A scenario of these servers.
pub type Scenario = runner::Scenario<Servers, Site, Plan>;

/// All scenarios, in the order in which they share servers best.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "conformance", servers: Servers::OLD, run: conformance::suite },
    Scenario { name: "members", servers: Servers::OLD, run: members::relay },
    Scenario { name: "members_per_key", servers: Servers::OLD, run: members::per_key },
    Scenario { name: "members_unordered", servers: Servers::OLD, run: members::unordered },
    Scenario { name: "sigterm", servers: Servers::OLD, run: handover::sigterm },
    Scenario { name: "full_buffer", servers: Servers::OLD, run: handover::full_buffer },
    Scenario { name: "frozen_owner", servers: Servers::OLD, run: handover::frozen_owner },
    Scenario { name: "silent_network", servers: Servers::OLD, run: handover::silent_network },
    Scenario { name: "killed_sidecar", servers: Servers::OLD, run: faults::killed_sidecar },
    Scenario { name: "closed_connections", servers: Servers::OLD, run: faults::closed_connections },
    Scenario { name: "killed_broker", servers: Servers::OLD, run: faults::killed_broker },
    Scenario { name: "storm", servers: Servers::OLD, run: faults::storm },
    Scenario { name: "memory_alarm", servers: Servers::OLD, run: changes::memory_alarm },
    Scenario { name: "deleted_queue", servers: Servers::OLD, run: changes::deleted_queue },
    Scenario { name: "late_queue", servers: Servers::OLD, run: changes::late_queue },
    Scenario { name: "rewound_head", servers: Servers::OLD, run: timeouts::rewound_head },
    Scenario { name: "short_timeout", servers: Servers::OLD, run: timeouts::short_timeout },
    Scenario { name: "slow_application", servers: Servers::OLD, run: timeouts::slow_application },
    Scenario { name: "shared_queues", servers: Servers::OLD, run: assignments::shared },
    Scenario { name: "orphaned_queue", servers: Servers::OLD, run: assignments::orphan },
    Scenario { name: "wrong_queues", servers: Servers::OLD, run: refusals::wrong_queues },
    Scenario { name: "wrong_access", servers: Servers::OLD, run: access::wrong },
    Scenario { name: "other_vhost", servers: Servers::OLD, run: access::other_vhost },
    Scenario { name: "dead_letters", servers: Servers::OLD, run: dead_letters::to_a_queue },
    Scenario { name: "dead_letters_by_broker", servers: Servers::OLD, run: dead_letters::by_the_broker },
    Scenario { name: "dead_letters_by_limit", servers: Servers::OLD, run: dead_letters::by_the_limit },
    Scenario { name: "unroutable_dead_letter", servers: Servers::OLD, run: dead_letters::unroutable },
    Scenario { name: "strange_messages", servers: Servers::OLD, run: messages::strange },
    Scenario { name: "undecodable_messages", servers: Servers::OLD, run: messages::undecodable },
    Scenario { name: "big_messages", servers: Servers::OLD, run: messages::big },
    Scenario { name: "largest_message", servers: Servers::OLD, run: messages::largest },
    Scenario { name: "interrupted_body", servers: Servers::OLD, run: messages::interrupted },
    Scenario { name: "tls", servers: Servers::TLS, run: secured::tls },
    Scenario { name: "lost_node", servers: Servers::CLUSTER, run: faults::lost_node },
    Scenario { name: "new_conformance", servers: Servers::NEW, run: conformance::suite },
    Scenario { name: "new_members", servers: Servers::NEW, run: members::relay },
    Scenario { name: "new_members_per_key", servers: Servers::NEW, run: members::per_key },
    Scenario { name: "new_members_unordered", servers: Servers::NEW, run: members::unordered },
    Scenario { name: "new_sigterm", servers: Servers::NEW, run: handover::sigterm },
    Scenario { name: "new_killed_sidecar", servers: Servers::NEW, run: faults::killed_sidecar },
    Scenario { name: "new_closed_connections", servers: Servers::NEW, run: faults::closed_connections },
    Scenario { name: "new_wrong_queues", servers: Servers::NEW, run: refusals::wrong_queues },
    Scenario { name: "new_short_timeout", servers: Servers::NEW, run: timeouts::short_timeout },
];
