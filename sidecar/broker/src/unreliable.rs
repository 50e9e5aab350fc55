//! Makes any broker unreliable, by seed: operations that fail before or after they happened, late answers, short and
//! repeated deliveries, doubted and lost leases. What it says of a failure is true, so it keeps the traits' promises.

mod keeper;
mod random;
mod reader;
mod settler;

use std::time::Duration;

use lockstep_model::Capabilities;

pub use keeper::UnreliableKeeper;
pub use reader::UnreliableReader;
pub use settler::UnreliableSettler;

use self::random::{Random, SharedRandom};
use crate::{Broker, BrokerError, Certainty, Class, Clock, Problem};

/// A probability in thousandths; 1,000 and more is always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PerMille(pub u16);

/// How one kind of operation fails. Both questions are asked apart, so that all four outcomes occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unreliability {
    /// How often it does not happen.
    pub not_done: PerMille,
    /// How often its answer is lost, whether it happened or not.
    pub answer_lost: PerMille,
    /// How long it takes at most before it happens, and again before it is answered. Up to 2 s, since a settling call
    /// ends within 5 s.
    pub delay: Duration,
}

/// What goes wrong, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Fetches.
    pub fetch: Unreliability,
    /// Commits.
    pub commit: Unreliability,
    /// Settlements, each of a batch by itself.
    pub settle: Unreliability,
    /// How often a fetch brings only a part of what it could.
    pub short_fetch: PerMille,
    /// How often a fetch brings its last delivery twice. It is a surprise that the traits do not allow, and that a
    /// consumer has to bear all the same.
    pub duplicate: PerMille,
    /// The time between two doubted leases, on average; `None` = none.
    pub doubt_every: Option<Duration>,
    /// How long a doubt lasts at most. It always ends before the lease does.
    pub doubt_for: Duration,
    /// The time between two lost leases, on average; `None` = none. The inner broker's lease is really given up.
    pub loss_every: Option<Duration>,
}

impl Faults {
    /// Many failures of everything, for tests that want to see each of them soon. No lease is lost or doubted.
    pub const fn many() -> Self {
        let often = Unreliability {
            not_done: PerMille(150),
            answer_lost: PerMille(150),
            delay: Duration::from_millis(50),
        };
        Self {
            fetch: often,
            commit: often,
            settle: often,
            short_fetch: PerMille(300),
            duplicate: PerMille(0),
            doubt_every: None,
            doubt_for: Duration::from_secs(2),
            loss_every: None,
        }
    }
}

/// A broker that fails as told.
#[derive(Debug)]
pub struct Unreliable<B> {
    inner: B,
    faults: Faults,
    seed: u64,
    clock: Clock,
}

impl<B: Broker> Unreliable<B> {
    /// Wraps a broker. The same seed and the same calls bring the same failures. The clock is the broker's.
    pub const fn new(inner: B, faults: Faults, seed: u64, clock: Clock) -> Self {
        Self { inner, faults, seed, clock }
    }
}

impl<B: Broker> Broker for Unreliable<B> {
    type Reader = UnreliableReader<B::Reader>;
    type Settler = UnreliableSettler<B::Settler>;
    type Keeper = UnreliableKeeper<B::Keeper>;

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn split(self) -> (Self::Reader, Self::Settler, Self::Keeper) {
        let Self { inner, faults, seed, clock } = self;
        let reread = inner.capabilities().reread;
        let (reader, settler, keeper) = inner.split();
        // Each half has a sequence of its own: how the halves interleave does not change what each of them meets.
        let random = |half: u64| Random::new(seed.wrapping_mul(3).wrapping_add(half));
        (
            UnreliableReader::new(reader, faults, reread, SharedRandom::new(random(0))),
            UnreliableSettler::new(settler, faults, SharedRandom::new(random(1))),
            UnreliableKeeper::new(keeper, faults, clock, random(2)),
        )
    }
}

/// Whether an operation happens, whether its answer arrives, and how late both are.
#[derive(Debug, Clone, Copy)]
struct Fate {
    happens: bool,
    answered: bool,
    before: Duration,
    after: Duration,
}

impl Fate {
    fn failure(self, operation: &'static str) -> BrokerError {
        let (certainty, message) = if self.answered {
            (Certainty::NotDone, "the unreliable broker refused it")
        } else {
            (Certainty::Unknown, "the unreliable broker's answer was lost")
        };
        let problem = Problem { reason: "Unreliable", message: message.into(), remedy: String::new() };
        BrokerError { operation, certainty, class: Class::Transient, problem, source: None }
    }
}
