//! Scenarios of the whole cluster.

mod changes;
mod crashes;
mod deploys;
mod install;
mod outages;
mod rights;
mod rollouts;

use crate::{runner::Scenario, site::Site};

/// All scenarios, in their order: the first ones are what a user sees first.
pub const SCENARIOS: &[Scenario<Site>] = &[
    Scenario { name: "first_day", run: install::first_day },
    Scenario { name: "rollouts", run: rollouts::under_load },
    Scenario { name: "termination_order", run: rollouts::termination_order },
    Scenario { name: "crashes", run: crashes::pods_and_containers },
    Scenario { name: "hot_changes", run: changes::hot },
    Scenario { name: "pause", run: changes::pause_and_resume },
    Scenario { name: "bad_deploy", run: deploys::not_found },
    Scenario { name: "operator_killed", run: outages::operator_killed },
    Scenario { name: "broker_away", run: outages::broker_away },
    Scenario { name: "unhealthy_application", run: outages::unhealthy_application },
    Scenario { name: "rights", run: rights::operator_and_pods },
    Scenario { name: "chart_life", run: install::chart_life },
];
