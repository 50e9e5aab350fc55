//! Scenarios of the whole cluster.

mod applications;
mod changes;
mod crashes;
mod deploys;
mod ends;
mod hot;
mod install;
mod outages;
mod rabbitmq;
mod rights;
mod rollouts;
mod secrets;
mod termination;
mod upgrade;

use crate::{runner::Scenario, site::Site};

/// Scenarios that bear others beside them; the longest first.
pub const BESIDE: &[Scenario<Site>] = &[
    Scenario { name: "rollouts", run: rollouts::under_load },
    Scenario { name: "rabbitmq", run: rabbitmq::shares },
    Scenario { name: "crashes", run: crashes::pods_and_containers },
    Scenario { name: "termination_order", run: termination::termination_order },
    Scenario { name: "own_containers", run: termination::own_containers },
    Scenario { name: "bad_deploy", run: deploys::not_found },
    Scenario { name: "unhealthy_application", run: outages::unhealthy_application },
    Scenario { name: "secrets", run: secrets::rotation },
    Scenario { name: "subscription_change", run: changes::subscription },
    Scenario { name: "crash_loop", run: applications::crash_loop },
    Scenario { name: "out_of_memory", run: applications::out_of_memory },
    Scenario { name: "group_deleted", run: ends::group_deleted },
    Scenario { name: "rights", run: rights::operator_and_pods },
];

/// Scenarios that break what all share, or that a busy machine could spoil: they measure a time, or look whether an
/// operator was restarted.
pub const ALONE: &[Scenario<Site>] = &[
    Scenario { name: "first_day", run: install::first_day },
    Scenario { name: "namespace_terminating", run: ends::namespace_terminating },
    Scenario { name: "hot_changes", run: hot::changes },
    Scenario { name: "pause", run: changes::pause_and_resume },
    Scenario { name: "broker_away", run: outages::broker_away },
    Scenario { name: "operator_killed", run: outages::operator_killed },
    Scenario { name: "upgrade_wave", run: upgrade::wave },
    Scenario { name: "chart_life", run: install::chart_life },
];
