//! The sidecar against real RocketMQ servers: scenarios, each judged by the history checker.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a scenario that can't go on must say so and fail"
)]

pub mod applications;
pub mod changes;
pub mod conformance;
pub mod faults;
pub mod handover;
pub mod harness;
pub mod members;
pub mod messages;
pub mod plan;
pub mod secured;
pub mod world;

use lockstep_tests_support::runner;
use plan::Plan;
use world::{Servers, Site};

/// A scenario of these servers.
pub type Scenario = runner::Scenario<Servers, Site, Plan>;

/// All scenarios, in the order in which they share servers best.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "members_beside_java", servers: Servers::JAVA, run: members::beside_java },
    Scenario { name: "conformance", servers: Servers::QUICK, run: conformance::suite },
    Scenario { name: "members_per_key", servers: Servers::QUICK, run: members::per_key },
    Scenario { name: "sigterm", servers: Servers::QUICK, run: handover::sigterm },
    Scenario { name: "frozen_owner", servers: Servers::QUICK, run: handover::frozen_owner },
    Scenario { name: "killed_sidecar", servers: Servers::QUICK, run: faults::killed_sidecar },
    Scenario { name: "killed_broker", servers: Servers::QUICK, run: faults::killed_broker },
    Scenario { name: "killed_application", servers: Servers::QUICK, run: applications::killed },
    Scenario { name: "crashing_message", servers: Servers::QUICK, run: applications::crashing_message },
    Scenario { name: "strange_answers", servers: Servers::QUICK, run: applications::strange_answers },
    Scenario { name: "bad_deploys", servers: Servers::QUICK, run: applications::bad_deploys },
    Scenario { name: "dead_letters", servers: Servers::QUICK, run: applications::dead_letters },
    Scenario { name: "strange_messages", servers: Servers::QUICK, run: messages::strange },
    Scenario { name: "late_topic", servers: Servers::QUICK, run: changes::late_topic },
    Scenario { name: "missing_group", servers: Servers::QUICK, run: changes::missing_group },
    Scenario { name: "named_cures", servers: Servers::QUICK, run: changes::named_cures },
    Scenario { name: "more_members_than_queues", servers: Servers::QUICK, run: changes::crowd },
    Scenario { name: "one_client_id_twice", servers: Servers::QUICK, run: changes::twins },
    Scenario { name: "silent_servers", servers: Servers::QUICK, run: changes::silence },
    Scenario { name: "reset_positions", servers: Servers::QUICK, run: changes::reset },
    Scenario { name: "old_conformance", servers: Servers::OLD, run: conformance::suite },
    Scenario { name: "old_members", servers: Servers::OLD, run: members::alone },
    Scenario { name: "old_members_per_key", servers: Servers::OLD, run: members::per_key },
    Scenario { name: "old_sigterm", servers: Servers::OLD, run: handover::sigterm },
    Scenario { name: "old_killed_sidecar", servers: Servers::OLD, run: faults::killed_sidecar },
    Scenario { name: "old_killed_broker", servers: Servers::OLD, run: faults::killed_broker },
    Scenario { name: "old_killed_application", servers: Servers::OLD, run: applications::killed },
    Scenario { name: "signed_requests", servers: Servers::SIGNED, run: secured::signed },
    Scenario { name: "wrong_keys", servers: Servers::SIGNED, run: secured::wrong_keys },
    Scenario { name: "tls", servers: Servers::TLS, run: secured::tls },
    Scenario { name: "wrong_authority", servers: Servers::TLS, run: secured::wrong_authority },
];
