use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lockstep_broker::{Problem, Settlement};
use lockstep_core::HttpAnswer;
use lockstep_model::{Identity, Message};
use tokio::time::advance;

use super::*;

/// Notes what it is asked and answers so many settlements, the second of them with an error.
#[derive(Debug, Clone, Default)]
struct Notes {
    positions: Arc<Mutex<Vec<u64>>>,
    answers: usize,
}

impl Settler for Notes {
    async fn commit(&self, commit: Commit) -> Result<(), BrokerError> {
        self.note(commit.position);
        Ok(())
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        batch.iter().for_each(|settle| self.note(settle.delivery.position));
        let error = error(Certainty::Unknown, Class::Transient);
        (0..self.answers).map(|index| if index == 1 { Err(error.clone()) } else { Ok(()) }).collect()
    }
}

impl Notes {
    fn note(&self, position: Position) {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).push(position.0);
    }

    fn noted(&self) -> Vec<u64> {
        self.positions.lock().unwrap().clone()
    }
}

impl Deliver for Notes {
    async fn attempt(&self, request: AttemptRequest) -> Attempted {
        self.note(request.delivery.position);
        Attempted { result: AttemptResult::Answered(HttpAnswer::default()), detail: None }
    }
}

fn error(certainty: Certainty, class: Class) -> BrokerError {
    let problem = Problem { reason: "Test", message: "test".to_owned(), remedy: String::new() };
    BrokerError { operation: "test", certainty, class, problem, source: None }
}

fn delivery(position: u64) -> Arc<Delivery> {
    Arc::new(Delivery {
        queue: QueueId(0),
        position: Position(position),
        identity: Identity::None,
        key: None,
        redeliveries: 0,
        message: Message::default(),
        undecodable: None,
    })
}

fn settle_of(position: u64, not_after: Option<Moment>) -> Settle {
    let settlement = Settlement::DeadLetter;
    Settle { epoch: Epoch(1), delivery: delivery(position), settlement, attempts: 1, not_after }
}

fn request(not_after: Option<Moment>) -> AttemptRequest {
    AttemptRequest {
        delivery: delivery(7),
        queue_name: "q".into(),
        epoch: Epoch(1),
        number: 1,
        max_attempts: 0,
        not_after,
        lease_deadline: None,
        timeout: Duration::from_secs(1),
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_after_its_last_moment() {
    let (notes, clock) = (Notes::default(), Clock::new());
    let last = Some(clock.now() + Duration::from_secs(1));
    let commit_of = |not_after| Commit {
        queue: QueueId(0),
        epoch: Epoch(1),
        position: Position(9),
        last: Identity::None,
        not_after,
    };
    let late_commit = commit(&notes, clock, commit_of(last));
    let late_attempt = attempt(&Arc::new(notes.clone()), clock, AttemptId(1), request(last)).1;
    let mixed = settle(&notes, clock, QueueId(0), (vec![settle_of(1, last), settle_of(2, None)], false));
    // The process stands still between the decision and the first poll.
    advance(Duration::from_secs(2)).await;
    let SettlingDone::Commit { result, .. } = late_commit.await else { panic!("a commit must be answered") };
    assert_eq!(failure(&result.unwrap_err()), Failure::NotDone);
    assert!(late_attempt.await.attempted.is_none());
    let SettlingDone::Settle { settled, .. } = mixed.await else { panic!("a batch must be answered") };
    assert_eq!(settled[0].result, Err(Failure::NotDone));
    assert_eq!(notes.noted(), [2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_time_is_written() {
    let (notes, clock) = (Notes::default(), Clock::new());
    let last = Some(clock.now() + Duration::from_secs(1));
    let done = attempt(&Arc::new(notes.clone()), clock, AttemptId(1), request(last)).1.await;
    assert!(done.attempted.is_some());
    assert_eq!(notes.noted(), [7]);
}

#[tokio::test(start_paused = true)]
async fn an_aborted_attempt_ends_without_an_answer() {
    let (notes, clock) = (Notes::default(), Clock::new());
    let (handle, call) = attempt(&Arc::new(notes.clone()), clock, AttemptId(1), request(None));
    handle.abort();
    assert!(call.await.attempted.is_none());
    assert!(notes.noted().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_answer_is_no_success() {
    let (notes, clock) = (Notes { answers: 2, ..Notes::default() }, Clock::new());
    let batch = (1..=3).map(|position| settle_of(position, None)).collect();
    let SettlingDone::Settle { settled, .. } = settle(&notes, clock, QueueId(0), (batch, false)).await else {
        panic!("a batch must be answered")
    };
    let results: Vec<_> = settled.iter().map(|settled| settled.result).collect();
    assert_eq!(results, [Ok(()), Err(Failure::Unknown), Err(Failure::Unknown)]);
    assert_eq!(notes.noted(), [1, 2, 3]);
}

#[test]
fn errors_keep_their_meaning() {
    let of = |certainty, class| failure(&error(certainty, class));
    assert_eq!(of(Certainty::NotDone, Class::Transient), Failure::NotDone);
    assert_eq!(of(Certainty::NotDone, Class::Permanent), Failure::Permanent);
    assert_eq!(of(Certainty::Unknown, Class::Transient), Failure::Unknown);
    assert_eq!(of(Certainty::Unknown, Class::Permanent), Failure::Unknown);
}
