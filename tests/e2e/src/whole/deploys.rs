//! A broken application is rolled out.

use std::time::Duration;

use lockstep_tests_support::time::{now_micros, pause, wait_until};
use serde_json::Value;

use crate::{
    group::{LOOK_EVERY, PATIENCE, Setting},
    plan::Plan,
    site::{BROKER, Site},
    world::World,
};

/// For how long the rollout must stand still.
const STILL: Duration = Duration::from_secs(15);

/// An application that answers 404 to everything stops its rollout at the first pod, and nothing is dead-lettered;
/// repaired, everything is delivered.
pub(super) fn not_found(site: &Site, _: &Plan) -> String {
    let mut world = World::new(site, "bad-deploy");
    let mut setting = Setting::default();
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.publish_on();
    world.await_more_done(200);
    setting.version = 2;
    setting.rules = "answer 404".to_owned();
    // Each message that the broken pod was sent comes again, to another pod or after the repair.
    world.apply(&setting);
    let of_version = |pods: &[Value], version: &str| {
        pods.iter().filter(|pod| pod["metadata"]["annotations"]["version"] == version).count()
    };
    wait_until("the first new pod runs", PATIENCE, || {
        pause(LOOK_EVERY);
        of_version(&world.pods(), "2") == 1
    });
    let since = now_micros();
    wait_until("the rollout stands still", STILL * 2, || {
        pause(LOOK_EVERY);
        let pods = world.pods();
        assert!(of_version(&pods, "2") <= 1, "a second pod was replaced:\n{}", world.summary());
        now_micros() - since > u64::try_from(STILL.as_micros()).unwrap()
    });
    assert_eq!(of_version(&world.pods(), "1"), 2, "old pods went");
    world.await_more_done(200);
    assert_eq!(site.mq.try_end_of(&format!("%DLQ%{}", world.broker_group), BROKER, 0).unwrap_or(0), 0);
    setting.version = 3;
    setting.rules = Setting::default().rules;
    world.apply(&setting);
    world.await_settled(PATIENCE);
    world.await_more_done(200);
    format!("{}", world.judge())
}
