//! The suite that every adapter runs, on real servers.

use futures_util::{StreamExt, stream};
use lockstep_broker::conformance::{Report, names, run};

use crate::{harness::Servers, plan::Plan, site::Site};

/// So many checks run at a time: most of them wait for a lease or for nothing to happen.
const AT_A_TIME: usize = 6;

/// What the suite can't ask of a source that can't go back, knows no end of a queue, and gives each queue to who comes first.
const NOT_APPLICABLE: [&str; 3] =
    ["a_position_can_be_read_again", "the_end_of_the_queue_is_told", "members_share_without_overlap"];

/// What can't be asked of Artemis beside: it takes no message that can't be decoded.
const NOT_OF_ARTEMIS: &str = "what_can_not_be_decoded_keeps_its_place";

/// All checks, each on queues of its own.
pub fn suite(site: &Site, _: &Plan) -> String {
    let servers = Servers::new(site);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(async {
        let servers = &servers;
        let checks = stream::iter(names()).map(|name| async move { (name, run(servers, name).await) });
        Report(checks.buffered(AT_A_TIME).collect().await)
    });
    drop(runtime);
    assert!(report.passed(), "{report}");
    let wanted =
        |name: &&str| NOT_APPLICABLE.contains(name) || site.node.is_artemis() && *name == NOT_OF_ARTEMIS;
    let wanted: Vec<&str> = names().into_iter().filter(wanted).collect();
    assert_eq!(report.not_applicable(), wanted);
    site.await_connections(0);
    format!("{} checks, {} of them not applicable", report.0.len(), wanted.len())
}
