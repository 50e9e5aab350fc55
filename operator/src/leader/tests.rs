mod decisions;
mod fake;
mod requests;

use fake::{Fault, Store};
use tokio::{task::JoinHandle, time::advance};

use super::*;

/// A replica in the election.
struct Replica {
    leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(store: &Store, client: usize, seed: u64) -> Self {
        let config = LeaderConfig {
            namespace: "lockstep".to_owned(),
            name: "lockstep-operator".to_owned(),
            identity: format!("replica-{client}"),
        };
        let (candidate, leadership) = Candidate::new(store.client(client), config, seed);
        let stop = CancellationToken::new();
        let task = tokio::spawn(candidate.run(stop.clone()));
        Self { leadership, stop, task }
    }

    fn state(&self) -> Leadership {
        *self.leadership.borrow()
    }

    fn leads(&self) -> bool {
        self.state().leads()
    }

    /// How long it took until it is so.
    async fn becomes(&self, wanted: fn(Leadership) -> bool) -> Duration {
        let since = Instant::now();
        while !wanted(self.state()) {
            assert!(since.elapsed() < Duration::from_secs(120), "still {:?}", self.state());
            // Paused time: the clock jumps, nothing is waited for.
            sleep(Duration::from_millis(10)).await;
        }
        since.elapsed()
    }

    async fn leads_after(&self) -> Duration {
        self.becomes(Leadership::leads).await
    }

    async fn lost_after(&self) -> Duration {
        self.becomes(|state| state == Leadership::Lost).await
    }
}

/// One that leads, one that follows.
async fn two(store: &Store) -> (Replica, Replica) {
    let first = Replica::start(store, 1, 11);
    first.leads_after().await;
    let second = Replica::start(store, 2, 22);
    store.reads(2, 2).await;
    assert!(!second.leads());
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_at_once_and_keeps_leading() {
    let store = Store::default();
    let (first, second) = two(&store).await;
    for _ in 0..600 {
        sleep(Duration::from_secs(1)).await;
        assert!(first.leads() && !second.leads());
    }
    let spec = store.spec().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("replica-1_000000000000000b"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(1));
    assert!(spec.renew_time > spec.acquire_time);
}

#[tokio::test(start_paused = true)]
async fn renewals_notify_nobody() {
    let store = Store::default();
    let mut first = Replica::start(&store, 1, 11);
    first.leads_after().await;
    first.leadership.mark_unchanged();
    let before = first.state();
    sleep(Duration::from_secs(60)).await;
    assert!(!first.leadership.has_changed().unwrap());
    assert_ne!(first.state(), before, "the moment moves");
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_within_twenty_seconds_after_a_kill() {
    for seed in 0..50 {
        let store = Store::default();
        let first = Replica::start(&store, 1, seed);
        first.leads_after().await;
        let second = Replica::start(&store, 2, seed + 100);
        sleep(Duration::from_millis(30_000 + seed * 91)).await;
        first.task.abort();
        let took = second.leads_after().await;
        assert!(took > RENEW_DEADLINE && took < Duration::from_secs(20), "{took:?}");
        assert_eq!(store.spec().unwrap().lease_transitions, Some(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_hands_over_at_once() {
    let store = Store::default();
    let (first, second) = two(&store).await;
    first.stop.cancel();
    let took = second.leads_after().await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(first.state(), Leadership::Lost);
    first.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stopped_follower_leaves_the_lease_alone() {
    let store = Store::default();
    let (first, second) = two(&store).await;
    second.stop.cancel();
    second.task.await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert!(first.leads());
    assert_eq!(store.spec().unwrap().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_take_whose_answer_was_lost_is_given_back_at_the_stop() {
    let store = Store::default();
    store.fault(1, Fault::LostAnswer);
    let first = Replica::start(&store, 1, 11);
    while store.spec().is_none() {
        advance(Duration::from_millis(10)).await;
        tokio::task::yield_now().await;
    }
    first.stop.cancel();
    store.fault(1, Fault::None);
    first.task.await.unwrap();
    assert_eq!(store.spec().unwrap().holder_identity, None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_api_is_silent_ends_soon() {
    let store = Store::default();
    let first = Replica::start(&store, 1, 11);
    first.leads_after().await;
    store.fault(1, Fault::Silent);
    let since = Instant::now();
    first.stop.cancel();
    first.task.await.unwrap();
    assert!(since.elapsed() <= RELEASE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_is_noticed_at_the_next_renewal() {
    let store = Store::default();
    let (first, _second) = two(&store).await;
    store.steal("thief");
    let took = first.lost_after().await;
    assert!(took <= RETRY_PERIOD + RETRY_PERIOD / 5, "{took:?}");
    first.task.await.unwrap();
    assert_eq!(store.spec().unwrap().holder_identity.as_deref(), Some("thief"), "it is not taken back");
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_before_the_lease_when_the_api_is_away() {
    for fault in [Fault::Refuse, Fault::Silent] {
        let store = Store::default();
        let (first, second) = two(&store).await;
        store.fault(1, fault);
        let lost = first.lost_after().await;
        assert!(lost <= RENEW_DEADLINE && lost >= RENEW_DEADLINE - RETRY_PERIOD * 2, "{lost:?}");
        assert!(!second.leads());
        let more = second.leads_after().await;
        assert!(more >= Duration::from_secs(4), "{more:?}");
        first.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_leader_does_not_lead_when_it_wakes() {
    let store = Store::default();
    let first = Replica::start(&store, 1, 11);
    first.leads_after().await;
    // Nothing runs between the jump of the clock and the question.
    advance(RENEW_DEADLINE + RETRY_PERIOD).await;
    assert!(!first.leads());
    first.lost_after().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_outlives_a_short_absence_of_the_api_and_lost_answers() {
    let store = Store::default();
    let (first, second) = two(&store).await;
    for fault in [Fault::Refuse, Fault::LostAnswer] {
        store.fault(1, fault);
        sleep(Duration::from_secs(5)).await;
        store.fault(1, Fault::None);
        sleep(Duration::from_secs(60)).await;
        assert!(first.leads() && !second.leads(), "{fault:?}: {:?} {:?}", first.state(), second.state());
    }
    assert_eq!(store.spec().unwrap().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_holder() {
    let store = Store::default();
    let (first, second) = two(&store).await;
    store.delete();
    store.reads(2, 2).await;
    sleep(Duration::from_secs(60)).await;
    assert!(first.leads() && !second.leads());
    store.delete();
    first.task.abort();
    let took = second.leads_after().await;
    assert!(took > RENEW_DEADLINE && took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn clocks_of_others_do_not_matter() {
    for renewed in ["1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z"] {
        let store = Store::default();
        store.steal("gone");
        store.renewed_at(renewed.parse().unwrap());
        let replica = Replica::start(&store, 1, 11);
        let took = replica.leads_after().await;
        assert!(took >= LEASE_DURATION && took < Duration::from_secs(20), "{took:?}");
    }
}

/// Replicas come, die, lose answers and lose the API, each on its own; whoever loses the Lease starts anew.
#[tokio::test(start_paused = true)]
async fn two_never_lead_at_once() {
    let mut changes = 0;
    for seed in 0..30_u64 {
        let store = Store::default();
        let mut random = seed;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut replicas: Vec<_> =
            (0..3).map(|client| Replica::start(&store, client, next(u64::MAX))).collect();
        for _ in 0..4_000 {
            sleep(Duration::from_millis(100)).await;
            let leading = replicas.iter().filter(|replica| replica.leads()).count();
            assert!(
                leading <= 1,
                "seed {seed}: {:?}",
                replicas.iter().map(Replica::state).collect::<Vec<_>>()
            );
            let client = usize::try_from(next(3)).unwrap();
            match next(100) {
                0 => store.fault(client, Fault::Refuse),
                1 => store.fault(client, Fault::Silent),
                2 => store.fault(client, Fault::LostAnswer),
                3 => store.fault(client, Fault::Slow),
                4..8 => store.fault(client, Fault::None),
                8 => replicas[client].task.abort(),
                9 => replicas[client].stop.cancel(),
                _ => {}
            }
            if replicas[client].task.is_finished() {
                replicas[client] = Replica::start(&store, client, next(u64::MAX));
            }
        }
        (0..3).for_each(|client| store.fault(client, Fault::None));
        let since = Instant::now();
        while !replicas.iter().any(Replica::leads) {
            sleep(Duration::from_millis(100)).await;
            for (client, replica) in replicas.iter_mut().enumerate() {
                if replica.task.is_finished() {
                    *replica = Replica::start(&store, client, next(u64::MAX));
                }
            }
            assert!(since.elapsed() < Duration::from_secs(40), "seed {seed}: nobody leads");
        }
        changes += store.spec().unwrap().lease_transitions.unwrap();
        replicas.iter().for_each(|replica| replica.task.abort());
    }
    assert!(changes > 150, "only {changes} changes of leader: the faults are too weak");
}
