use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lockstep_broker::{Clock, LeaseEvent};
use lockstep_model::{Epoch, Position};
use tokio::{sync::mpsc, time::timeout};

use super::{Driver, Event, Leaving, Outbox, Shared, Wish};
use crate::{
    Config, KeySource, StartPosition,
    codec::BodyLimits,
    keeper::machine::Action,
    problem::reason,
    protocol::MessageQueue,
    remoting::{CredentialsSource, Remoting, RemotingConfig},
};

pub(in crate::keeper) fn config() -> Config {
    Config {
        // Nobody listens there.
        name_servers: vec!["127.0.0.1:1".to_owned()],
        group: "g".to_owned(),
        client_id: "me".to_owned(),
        subscriptions: Vec::new(),
        start: StartPosition::Earliest,
        lock_lifetime: Duration::from_secs(60),
        address_overrides: BTreeMap::new(),
        credentials: CredentialsSource::None,
        tls: None,
        key: KeySource::Native,
        epoch_floor: Epoch(0),
        clock: Clock::new(),
        limits: BodyLimits::default(),
    }
}

#[tokio::test]
async fn a_peer_that_never_stops_talking_does_not_keep_the_answers_of_others_waiting() {
    let (remoting, _) = Remoting::new(RemotingConfig::default());
    let shared = Arc::new(Shared::new(config(), remoting));
    let outbox = Arc::new(Outbox::default());
    let (events, heard) = mpsc::channel(256);
    let (wishes, wished) = mpsc::unbounded_channel();
    // Several, so that there is more to hear than one task can take in its turn.
    for _ in 0..4 {
        let events = events.clone();
        tokio::spawn(async move {
            while events.send(Event::Up { address: "b:1".into(), connection: 1 }).await.is_ok() {}
        });
    }
    let driver = tokio::spawn(Driver::new(shared, Arc::clone(&outbox)).run(wished, heard));
    wishes.send(Wish::Join).unwrap();
    let told = async {
        loop {
            if let LeaseEvent::Source(state) = outbox.next().await
                && state.problem.is_some_and(|problem| problem.reason == reason::NAME_SERVER_UNREACHABLE)
            {
                return;
            }
        }
    };
    timeout(Duration::from_secs(20), told)
        .await
        .expect("the answer of the name server's address must be heard");
    drop(wishes);
    driver.await.unwrap();
}

#[tokio::test]
async fn a_leave_waits_for_the_first_queues_to_be_given_back_and_no_longer() {
    let (remoting, _) = Remoting::new(RemotingConfig::default());
    let mut driver = Driver::new(Arc::new(Shared::new(config(), remoting)), Arc::default());
    let broker: Arc<str> = Arc::from("b");
    let queues: BTreeSet<MessageQueue> = (0..2)
        .map(|queue_id| MessageQueue { topic: "t".into(), broker_name: Arc::clone(&broker), queue_id })
        .collect();
    let now = driver.shared.now();
    driver.joined = true;
    driver.machine.join();
    driver.machine.link_up(now, &broker, Duration::ZERO);
    driver.machine.assign(now, &queues, true);
    while let Some(action) = driver.machine.poll() {
        if let Action::Lock { ticket, .. } = action {
            driver.machine.locked(now, ticket, Some(&queues));
        } else if let Action::FindPosition { queue, ticket, .. } = action {
            driver.machine.positioned(now, &queue, ticket, Some(Position(0)));
        } else {
            driver.tell(action);
        }
    }
    let (queue, epoch) = driver.machine.owned().next().map(|(queue, epoch)| (queue.clone(), epoch)).unwrap();
    let is_member = |driver: &Driver| matches!(driver.leaving, Some(Leaving::Registered { .. }));
    driver.wished(Wish::Leave);
    driver.go_on_leaving(now);
    assert!(is_member(&driver), "nothing was given back yet");
    driver.wished(Wish::Release(driver.shared.leases.id(&queue), epoch));
    driver.go_on_leaving(now);
    assert!(is_member(&driver), "its lock is still there");
    while let Some(action) = driver.machine.poll() {
        if let Action::Unlock { queue, ticket } = action {
            driver.machine.unlocked(now, &queue, ticket);
        }
    }
    driver.go_on_leaving(now);
    assert_eq!(driver.leaving, Some(Leaving::Unregistering), "the other queue may take its time");
}
