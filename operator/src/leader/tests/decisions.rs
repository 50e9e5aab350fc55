use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

use super::super::decide::{Decision, LEASE_DURATION, Sight, decide};

fn held(holder: &str, renewals: i32) -> Option<LeaseSpec> {
    let holder_identity = Some(holder.to_owned());
    Some(LeaseSpec { holder_identity, lease_transitions: Some(renewals), ..LeaseSpec::default() })
}

fn lasting(seconds: i32) -> Option<LeaseSpec> {
    held("other", 1).map(|spec| LeaseSpec { lease_duration_seconds: Some(seconds), ..spec })
}

/// Moments in seconds, and what is seen there.
type Looks = Vec<(u64, Option<LeaseSpec>)>;

/// Looks at these moments, in seconds; the decision of a follower and of a leader after the last.
fn after(looks: &[(u64, Option<LeaseSpec>)]) -> (Decision, Decision) {
    let start = Instant::now();
    let mut sight: Option<Sight> = None;
    let mut now = start;
    for (second, spec) in looks {
        now = start + Duration::from_secs(*second);
        sight = Some(match sight {
            None => Sight::first(spec.clone(), now),
            Some(sight) => sight.again(spec.clone(), now),
        });
    }
    let sight = sight.unwrap();
    (decide(&sight, "me", false, now), decide(&sight, "me", true, now))
}

fn wait(seconds: u64) -> Decision {
    Decision::Wait(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn what_a_follower_does() {
    let full = LEASE_DURATION.as_secs();
    let other = || held("other", 1);
    let table: Vec<(&str, Looks, Decision)> = vec![
        ("no lease", vec![(0, None)], Decision::Take),
        ("an empty lease", vec![(0, Some(LeaseSpec::default()))], Decision::Take),
        ("a released lease", vec![(0, held("", 1))], Decision::Take),
        ("released while watched", vec![(0, other()), (1, held("", 1))], Decision::Take),
        ("ours by a write without an answer", vec![(0, held("me", 1))], Decision::Take),
        ("another's, seen first", vec![(0, other())], wait(full)),
        ("another's, unchanged for a while", vec![(0, other()), (6, other())], wait(full - 6)),
        ("another's, a moment before its end", vec![(0, other()), (full - 1, other())], wait(1)),
        ("another's, unchanged for its duration", vec![(0, other()), (full, other())], Decision::Take),
        ("another's, renewed", vec![(0, other()), (14, held("other", 2))], wait(full)),
        ("another's, renewed after its end", vec![(0, other()), (16, held("other", 2))], wait(full)),
        ("a third one's by now", vec![(0, other()), (16, held("third", 2))], wait(full)),
        ("deleted while held", vec![(0, other()), (6, None)], wait(full)),
        ("deleted while held, long ago", vec![(0, other()), (6, None), (6 + full, None)], Decision::Take),
        ("deleted after the release", vec![(0, held("", 1)), (6, None)], Decision::Take),
        ("a longer duration counts", vec![(0, lasting(40)), (16, lasting(40))], wait(24)),
        ("a shorter one does not", vec![(0, lasting(1)), (2, lasting(1))], wait(full - 2)),
        ("an absurd one is cut", vec![(0, lasting(i32::MAX))], wait(60)),
        ("a negative one is none", vec![(0, lasting(-5))], wait(full)),
    ];
    for (name, looks, wanted) in table {
        assert_eq!(after(&looks).0, wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_does() {
    let table = [
        ("its own", vec![(0, held("me", 1))], Decision::Take),
        ("deleted", vec![(0, held("me", 1)), (1, None)], Decision::Take),
        ("emptied", vec![(0, held("me", 1)), (1, held("", 1))], Decision::Take),
        ("stolen", vec![(0, held("me", 1)), (1, held("other", 2))], Decision::Stolen),
        ("stolen long ago", vec![(0, held("other", 1)), (99, held("other", 1))], Decision::Stolen),
    ];
    for (name, looks, wanted) in table {
        assert_eq!(after(&looks).1, wanted, "{name}");
    }
}
