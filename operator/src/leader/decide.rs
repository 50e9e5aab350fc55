//! Whose the Lease is, judged without trust in anybody's clock: a Lease has ended when it was seen unchanged for its
//! whole duration by our own monotonic clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// How long a holder may go without a renewal before others take the Lease. Written into it in whole seconds.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(15);
/// The longest duration of somebody else's Lease that is respected: a mistyped one must not lock everybody out.
const RESPECTED_MAX: Duration = Duration::from_secs(60);

/// What was last seen of the Lease, and since when it is so.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sight {
    spec: Option<LeaseSpec>,
    holder: Option<String>,
    since: Instant,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write it as ours: nobody else has a claim.
    Take,
    /// Somebody else holds it, for so long at least.
    Wait(Duration),
    /// We lead and somebody else holds it.
    Stolen,
}

impl Sight {
    /// The first look. `None` = there is no Lease.
    pub(super) fn first(spec: Option<LeaseSpec>, now: Instant) -> Self {
        let holder = spec.as_ref().and_then(holder_of);
        Self { spec, holder, since: now }
    }

    /// A later look; `now` is a moment after the answer came.
    pub(super) fn again(self, spec: Option<LeaseSpec>, now: Instant) -> Self {
        if self.spec == spec {
            return self;
        }
        let holder = match &spec {
            Some(spec) => holder_of(spec),
            // Somebody deleted it, and its holder does not know yet: the claim lasts as long as if it were renewed now.
            None => self.holder,
        };
        Self { spec, holder, since: now }
    }

    /// Whoever holds it.
    pub(super) fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }
}

/// What the candidate `me`, which leads or does not, does about what it sees.
pub(super) fn decide(sight: &Sight, me: &str, leads: bool, now: Instant) -> Decision {
    match sight.holder() {
        None => Decision::Take,
        Some(holder) if holder == me => Decision::Take,
        Some(_) if leads => Decision::Stolen,
        Some(_) => {
            let left = (sight.since + respected(sight.spec.as_ref())).saturating_duration_since(now);
            if left.is_zero() { Decision::Take } else { Decision::Wait(left) }
        }
    }
}

fn holder_of(spec: &LeaseSpec) -> Option<String> {
    spec.holder_identity.clone().filter(|holder| !holder.is_empty())
}

fn respected(spec: Option<&LeaseSpec>) -> Duration {
    let seconds =
        spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(LEASE_DURATION, Duration::from_secs).clamp(LEASE_DURATION, RESPECTED_MAX)
}
