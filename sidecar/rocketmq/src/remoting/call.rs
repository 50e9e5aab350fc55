use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use lockstep_broker::Certainty;
use tokio::{sync::oneshot, time::Instant};

use super::{CallError, certainty};
use crate::codec::Command;

/// What an address's task is told.
#[derive(Debug)]
pub(super) enum Submission {
    /// Send a request.
    Call(Outgoing),
    /// Answer a broker's request, if the connection it came on is still there.
    Answer { connection: u64, command: Command },
    /// Close the connection.
    Close,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) command: Command,
    pub(super) deadline: Instant,
    pub(super) not_after: Option<Instant>,
    pub(super) claim: Claim,
    pub(super) reply: oneshot::Sender<Result<Option<Command>, CallError>>,
}

impl Outgoing {
    /// Ends it without having written it.
    pub(super) fn fail(self, error: CallError) {
        // Without a receiver the caller has given up, which is all right.
        drop(self.reply.send(Err(error)));
    }
}

/// Who decides over a request: its caller may withdraw it until the connection takes it to write it. Exactly one of
/// them gets it.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim(Arc<AtomicU8>);

const OPEN: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Claim {
    /// Takes it for writing; false when it was withdrawn.
    pub(super) fn take(&self) -> bool {
        self.settle(TAKEN)
    }

    /// The caller's end.
    pub(super) fn withdrawal(&self) -> Withdrawal {
        Withdrawal(self.clone())
    }

    fn settle(&self, to: u8) -> bool {
        self.0.compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Withdraws a request when dropped, if it is not taken yet.
#[derive(Debug)]
pub(super) struct Withdrawal(Claim);

impl Withdrawal {
    /// Withdraws it now and says whether it may have been written.
    pub(super) fn withdraw(&self) -> Certainty {
        certainty(!self.0.settle(WITHDRAWN))
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.0.settle(WITHDRAWN);
    }
}

#[cfg(test)]
mod tests {
    use lockstep_broker::Certainty;

    use super::Claim;

    #[test]
    fn a_withdrawn_request_is_never_taken() {
        let claim = Claim::default();
        drop(claim.withdrawal());
        assert!(!claim.take());
    }

    #[test]
    fn a_taken_request_is_uncertain() {
        let claim = Claim::default();
        assert!(claim.take());
        assert_eq!(claim.withdrawal().withdraw(), Certainty::Unknown);
    }

    #[test]
    fn a_request_that_was_withdrawn_in_time_is_surely_not_done() {
        let claim = Claim::default();
        assert_eq!(claim.withdrawal().withdraw(), Certainty::NotDone);
        assert!(!claim.take());
    }
}
