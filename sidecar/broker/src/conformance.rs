//! What every adapter has to keep of its traits' promises: one suite, run on each of them.
//!
//! An adapter's tests implement [`Harness`] and [`Source`] and call [`run_all`], or [`run`] with each of [`names`].
//! A check that a source's capabilities, or what its harness can do, rule out answers [`Outcome::NotApplicable`] with the reason; nothing is left
//! out silently. Failures that a broker may show are repeated as the traits allow: `NotDone` is tried again, and so is
//! `Unknown`, since both settling calls are safe to repeat.

mod leases;
mod member;
mod reading;
mod settling;

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use lockstep_model::{Message, Moment};

use crate::{Broker, Clock};

/// Makes sources: each check gets one of its own.
pub trait Harness: Sync {
    /// What it makes.
    type Source: Source;

    /// A source with so many queues, empty, with a group that nobody joined yet.
    fn source(&self, queues: usize) -> impl Future<Output = Self::Source> + Send;
}

/// One source as the suite needs it. Queues are named by their index, 0 and up.
pub trait Source: Send + Sync {
    /// The adapter.
    type Broker: Broker;

    /// The clock that its members share.
    fn clock(&self) -> Clock;

    /// A new member of the group, not joined.
    fn member(&self, client_id: &str) -> impl Future<Output = Self::Broker> + Send;

    /// The name under which the adapter announces a queue.
    fn queue_name(&self, queue: usize) -> String;

    /// Stores a message in a queue: at least its body, key and properties.
    fn publish(&self, queue: usize, message: Message) -> impl Future<Output = ()> + Send;

    /// How many messages of a queue are not finished, as the broker's own tools see it. All that was published counts.
    fn unsettled(&self, queue: usize) -> impl Future<Output = u64> + Send;

    /// The bodies of the dead letters that the broker shows now; it may show one only some time after it has stored it.
    fn dead_letters(&self) -> impl Future<Output = Vec<Bytes>> + Send;

    /// Cuts the member off, so that dropping its halves right after this reaches the broker as a crash does. Nothing to
    /// do where dropping says no goodbye.
    fn kill(&self, client_id: &str) -> impl Future<Output = ()> + Send;

    /// Stores bytes that the adapter can't decode; `false` where the harness has no way to.
    fn publish_undecodable(&self, _queue: usize, _raw: Bytes) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Cuts the member's connections and refuses new ones; `false` where the harness has no way to.
    fn cut(&self, _client_id: &str) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Lets a member that was cut connect again.
    fn restore(&self, _client_id: &str) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// How long the broker keeps the lease of a dead member, where leases run out.
    fn lease_life(&self) -> Option<Duration>;

    /// Whether the members divide the queues evenly among themselves.
    fn divides(&self) -> bool {
        true
    }

    /// How long anything may take that has no bound of its own.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// How long a released queue may wait for its next owner.
    fn hand_over(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// The largest body that the check of bodies sends, in bytes.
    fn large_body(&self) -> usize {
        1 << 20
    }

    /// Properties that the broker can store, the strangest it takes.
    fn properties(&self) -> Vec<(&'static [u8], &'static [u8])> {
        vec![
            (b"plain", b"value"),
            (b"line", b"a\r\nb: c"),
            (b"nul", b"\0"),
            (b"latin", b"\xe9"),
            (b"empty", b""),
        ]
    }
}

/// How a check ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The promise is kept.
    Passed,
    /// The source's capabilities, or what its harness can do, rule it out.
    NotApplicable(&'static str),
}

/// What a check found broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

type Checked = Result<Outcome, Failure>;
type Running<'a> = Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// The outcome of every check, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report(pub Vec<(&'static str, Result<Outcome, Failure>)>);

impl Report {
    /// Whether no check failed.
    pub fn passed(&self) -> bool {
        self.0.iter().all(|(_, result)| result.is_ok())
    }

    /// The names of the checks that were ruled out.
    pub fn not_applicable(&self) -> Vec<&'static str> {
        let ruled_out = |result: &Checked| matches!(result, Ok(Outcome::NotApplicable(_)));
        self.0.iter().filter(|(_, result)| ruled_out(result)).map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, result) in &self.0 {
            match result {
                Ok(Outcome::Passed) => writeln!(f, "passed          {name}")?,
                Ok(Outcome::NotApplicable(why)) => writeln!(f, "not applicable  {name}: {why}")?,
                Err(Failure(what)) => writeln!(f, "FAILED          {name}: {what}")?,
            }
        }
        Ok(())
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(what: T) -> Self {
        Self(what.into())
    }
}

/// Fails the check with a sentence unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure(format!($($what)+)));
        }
    };
}
use ensure;

/// Lists the checks once, for their names and for running one of them.
macro_rules! checks {
    ($($room:ident::$check:ident),+ $(,)?) => {
        /// The names of all checks.
        pub fn names() -> Vec<&'static str> {
            vec![$(stringify!($check)),+]
        }

        /// Runs one check on a source of its own.
        pub async fn run<H: Harness>(harness: &H, name: &str) -> Result<Outcome, Failure> {
            let running: Running<'_> = match name {
                $(stringify!($check) => Box::pin($room::$check(harness)),)+
                _ => return Err(Failure(format!("there is no check '{name}'"))),
            };
            running.await
        }
    };
}

checks! {
    leases::nothing_happens_before_joining,
    leases::one_member_acquires_every_queue,
    reading::deliveries_come_in_order,
    reading::a_fetch_keeps_to_count_and_bytes,
    reading::a_fetch_wakes_for_a_new_message,
    reading::a_position_can_be_read_again,
    reading::a_cancelled_fetch_loses_nothing,
    reading::an_empty_queue_holds_up_no_other,
    reading::bodies_keys_and_properties_are_untouched,
    reading::the_end_of_the_queue_is_told,
    reading::what_can_not_be_decoded_keeps_its_place,
    settling::finished_messages_do_not_come_again,
    settling::unfinished_messages_come_again_after_a_crash,
    settling::unfinished_messages_come_again_after_a_release,
    settling::a_repeated_settlement_is_no_failure,
    settling::an_older_epoch_is_refused,
    settling::what_is_too_late_is_refused,
    settling::a_batch_is_answered_in_its_order,
    settling::a_dead_letter_is_kept_whole,
    settling::settling_does_not_wait_for_reading,
    leases::members_share_without_overlap,
    leases::a_release_hands_over_at_once,
    leases::leaving_gives_everything_back,
    leases::a_member_without_queues_waits_for_one,
    leases::a_dead_members_queues_are_taken_over,
    leases::a_lease_lives_while_the_other_halves_hang,
    leases::a_queue_keeps_its_number,
    leases::a_lost_connection_is_a_doubt_and_passes,
}

/// Runs all checks, one after the other.
pub async fn run_all<H: Harness>(harness: &H) -> Report {
    let mut results = Vec::new();
    for name in names() {
        results.push((name, run(harness, name).await));
    }
    Report(results)
}

/// How long to watch that nothing happens.
const QUIET: Duration = Duration::from_millis(200);

/// A message of a body and nothing else.
fn message(body: impl Into<Bytes>) -> Message {
    Message { body: body.into(), ..Message::default() }
}

/// Publishes bodies that are their numbers.
async fn publish_numbers<S: Source>(source: &S, queue: usize, numbers: std::ops::Range<u32>) {
    for number in numbers {
        source.publish(queue, message(number.to_string())).await;
    }
}

/// Whether an interval of ownership ended before another began.
fn apart(first: (Moment, Option<Moment>), second: (Moment, Option<Moment>)) -> bool {
    let ends_before = |end: Option<Moment>, start: Moment| end.is_some_and(|end| end <= start);
    ends_before(first.1, second.0) || ends_before(second.1, first.0)
}
