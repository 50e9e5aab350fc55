//! The sidecar against real ActiveMQ brokers: scenarios, each judged by the history checker.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that can't go on must say so and fail"
)]

pub mod aborts;
pub mod access;
pub mod assignments;
pub mod bounds;
pub mod conformance;
pub mod dead_letters;
pub mod faults;
pub mod handover;
pub mod harness;
pub mod members;
pub mod messages;
pub mod plan;
pub mod site;
pub mod world;

use lockstep_tests_support::runner;
use plan::Plan;
use site::{Servers, Site};

/// A scenario of these servers.
pub type Scenario = runner::Scenario<Servers, Site, Plan>;

/// All scenarios, in the order in which they share servers best.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "conformance", servers: Servers::NEW, run: conformance::suite },
    Scenario { name: "members", servers: Servers::NEW, run: members::relay },
    Scenario { name: "members_per_key", servers: Servers::NEW, run: members::per_key },
    Scenario { name: "sigterm", servers: Servers::NEW, run: handover::sigterm },
    Scenario { name: "untouched", servers: Servers::NEW, run: handover::untouched },
    Scenario { name: "frozen_owner", servers: Servers::NEW, run: handover::frozen_owner },
    Scenario { name: "killed_sidecar", servers: Servers::NEW, run: faults::killed_sidecar },
    Scenario { name: "cut_connections", servers: Servers::NEW, run: faults::cut_connections },
    Scenario { name: "killed_broker", servers: Servers::NEW, run: faults::killed_broker },
    Scenario { name: "dead_letters", servers: Servers::NEW, run: dead_letters::by_the_broker },
    Scenario { name: "dead_letters_kept", servers: Servers::NEW, run: dead_letters::kept },
    Scenario { name: "abort_slow", servers: Servers::NEW, run: aborts::slow },
    Scenario { name: "shared_queues", servers: Servers::NEW, run: assignments::shared },
    Scenario { name: "orphaned_queue", servers: Servers::NEW, run: assignments::orphan },
    Scenario { name: "wrong_access", servers: Servers::NEW, run: access::wrong },
    Scenario { name: "strange_messages", servers: Servers::NEW, run: messages::strange },
    Scenario { name: "old_conformance", servers: Servers::OLD, run: conformance::suite },
    Scenario { name: "old_members", servers: Servers::OLD, run: members::relay },
    Scenario { name: "old_sigterm", servers: Servers::OLD, run: handover::sigterm },
    Scenario { name: "old_untouched", servers: Servers::OLD, run: handover::untouched },
    Scenario { name: "old_killed_sidecar", servers: Servers::OLD, run: faults::killed_sidecar },
    Scenario { name: "old_cut_connections", servers: Servers::OLD, run: faults::cut_connections },
    Scenario { name: "old_killed_broker", servers: Servers::OLD, run: faults::killed_broker },
    Scenario { name: "artemis_conformance", servers: Servers::ARTEMIS, run: conformance::suite },
    Scenario { name: "artemis_members", servers: Servers::ARTEMIS, run: members::relay },
    Scenario { name: "artemis_sigterm", servers: Servers::ARTEMIS, run: handover::sigterm },
    Scenario { name: "artemis_untouched", servers: Servers::ARTEMIS, run: handover::untouched },
    Scenario { name: "artemis_killed_sidecar", servers: Servers::ARTEMIS, run: faults::killed_sidecar },
    Scenario { name: "artemis_cut_connections", servers: Servers::ARTEMIS, run: faults::cut_connections },
    Scenario { name: "artemis_killed_broker", servers: Servers::ARTEMIS, run: faults::killed_broker },
];
