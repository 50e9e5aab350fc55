//! The adapter as a whole, against a broker of one queue.

use std::time::Duration;

use futures_util::FutureExt as _;
use lockstep_broker::{
    Broker as _, Class, FetchRequest, Fetched, LeaseEvent, LeaseKeeper, Reader, Settle, Settlement, Settler,
    Severity, SourceState,
};
use lockstep_model::{Delivery, Epoch, Position, QueueId};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    Config, DeadLetter, Ordering, RabbitKeeper, RabbitMq, RabbitReader, RabbitSettler,
    amqp::tests::broker::Broker, check, config::tests::config, problem::reason,
};

const SOON: Duration = Duration::from_secs(20);

fn config_for(broker: &Broker) -> Config {
    let hint = watch::channel(Some(vec!["q".to_owned()])).1;
    Config { nodes: vec![broker.endpoint.clone()], hint, ..config() }
}

/// A member that has joined, and what it was told.
struct Member {
    reader: RabbitReader,
    settler: RabbitSettler,
    keeper: RabbitKeeper,
    told: Vec<LeaseEvent>,
}

impl Member {
    fn join(config: Config) -> Self {
        let (reader, settler, mut keeper) = RabbitMq::new(config).split();
        keeper.join();
        Self { reader, settler, keeper, told: Vec::new() }
    }

    /// Waits for an event of that kind.
    async fn wait<T>(&mut self, what: &str, find: impl Fn(&LeaseEvent) -> Option<T>) -> T {
        let end = Instant::now() + SOON;
        loop {
            let event = timeout_at(end, self.keeper.next()).await;
            let event = event.unwrap_or_else(|_| panic!("no {what} after {:?}", self.told));
            let found = find(&event);
            self.told.push(event);
            if let Some(found) = found {
                return found;
            }
        }
    }

    async fn acquired(&mut self) -> Epoch {
        let epoch = |event: &LeaseEvent| {
            if let LeaseEvent::Acquired { epoch, .. } = event { Some(*epoch) } else { None }
        };
        self.wait("ownership", epoch).await
    }

    /// Waits until that is what is wrong with the source.
    async fn problem(&mut self, reason: &str) {
        let is_told = |event: &LeaseEvent| {
            let LeaseEvent::Source(SourceState { problem: Some(problem), .. }) = event else { return None };
            (problem.reason == reason).then_some(())
        };
        self.wait(reason, is_told).await;
    }

    /// What became of the leases since the last call.
    fn leases(&mut self) -> String {
        let word = |event| match event {
            LeaseEvent::Acquired { .. } => "acquired ",
            LeaseEvent::Doubtful { .. } => "doubtful ",
            LeaseEvent::Lost { .. } => "lost ",
            LeaseEvent::Revoking { .. } | LeaseEvent::RevocationCancelled { .. } => "revoked ",
            LeaseEvent::Released { .. } | LeaseEvent::Left => "released ",
            LeaseEvent::Renewed { .. } | LeaseEvent::Moved { .. } | LeaseEvent::Source(_) => "",
        };
        self.told.drain(..).map(word).collect()
    }

    async fn read(&self, epoch: Epoch) -> Delivery {
        match timeout(SOON, self.reader.fetch(request(epoch))).await.unwrap() {
            Ok(Fetched::Deliveries { mut deliveries, .. }) => deliveries.remove(0),
            other => panic!("{other:?}"),
        }
    }

    async fn accept(&self, epoch: Epoch, delivery: Delivery) {
        let (delivery, settlement) = (delivery.into(), Settlement::Accept);
        let settle = Settle { epoch, delivery, settlement, attempts: 1, not_after: None };
        self.settler.settle(vec![settle]).await.remove(0).unwrap();
    }

    /// Waits for the next message, which had no room, until it comes anew now that the one before it is done.
    async fn rewound(&mut self, epoch: Epoch, before: Delivery) -> Epoch {
        let reader = self.reader.clone();
        let fetch = tokio::spawn(async move { reader.fetch(request(epoch)).await });
        tokio::task::yield_now().await;
        self.accept(epoch, before).await;
        self.wait("rewind", |event| matches!(event, LeaseEvent::Revoking { .. }).then_some(())).await;
        fetch.abort();
        self.keeper.release(QueueId(0), epoch);
        self.acquired().await
    }
}

fn request(epoch: Epoch) -> FetchRequest {
    FetchRequest { queue: QueueId(0), epoch, from: Position(1), count: 1, bytes: 1_000 }
}

fn refused(_: &[u8]) -> Option<(u16, &'static str)> {
    Some((403, "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'me'"))
}

#[tokio::test]
async fn what_can_t_be_seen_of_a_queue_is_told_beforehand_and_it_is_delivered() {
    let broker = Broker::start().await;
    broker.object(refused);
    let nobody = Some("http://127.0.0.1:1".to_owned());
    let base = config_for(&broker);
    let gives_up = Config { block: false, dead_letter: DeadLetter::Broker, ..base.clone() };
    let (unverified, unsupported) = (reason::OWNERSHIP_UNVERIFIED, reason::DEAD_LETTER_UNSUPPORTED);
    // What is shown of the source, words of it, and what a check finds.
    let cases = [
        (base.clone(), Some((unverified, "no management API")), &[unverified][..]),
        (Config { assumed: true, ..base.clone() }, None, &[]),
        (
            Config { management: nobody, ..base },
            Some((unverified, "http://127.0.0.1:1 can't be used")),
            &[unverified, reason::MANAGEMENT_FAILED],
        ),
        (gives_up.clone(), Some((unverified, "dead-letter exchange")), &[unverified, unsupported]),
        (Config { assumed: true, ..gives_up }, Some((unsupported, "such messages wait")), &[unsupported]),
    ];
    for (config, shown, found) in cases {
        let findings = check(&config).await;
        assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:?}");
        let reasons: Vec<_> = findings.iter().map(|finding| finding.problem.reason).collect();
        assert_eq!(reasons, found);
        let mut member = Member::join(config);
        let epoch = member.acquired().await;
        assert_eq!(&member.read(epoch).await.message.body[..], b"x");
        member.keeper.leave();
        member.keeper.release(QueueId(0), epoch);
        member.wait("leaving", |event| matches!(event, LeaseEvent::Left).then_some(())).await;
        let problem = |event| if let LeaseEvent::Source(state) = event { state.problem } else { None };
        match (member.told.into_iter().filter_map(problem).next_back(), shown) {
            (Some(problem), Some((reason, words))) => {
                assert!(problem.reason == reason && problem.message.contains(words), "{problem:?}");
                assert!(problem.remedy.contains("management.url"), "{problem:?}");
            }
            (problem, shown) => {
                assert!(problem.is_none() && shown.is_none(), "{problem:?} and not {shown:?}")
            }
        }
    }
}

#[tokio::test]
async fn a_queue_that_was_deleted_and_made_anew_is_judged_again_and_not_consumed_when_it_is_wrong() {
    let broker = Broker::start().await;
    let mut member = Member::join(config_for(&broker));
    member.acquired().await;
    broker.object(|declared| {
        let several = declared.windows(24).any(|part| part == b"x-single-active-consumer");
        several.then_some((
            406,
            "PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' for queue 'q' in vhost '/': received the \
             value 'true' of type 'bool' but current is none",
        ))
    });
    broker.delete_queue();
    member.problem(reason::NOT_SINGLE_ACTIVE).await;
    assert_eq!(member.leases(), "acquired lost ");
    assert_eq!(broker.heard(60, 20), 1, "it was consumed again");
}

#[tokio::test]
async fn a_lost_connection_is_a_doubt_and_no_failure_of_its_queues() {
    let broker = Broker::start().await;
    let mut member = Member::join(config_for(&broker));
    member.acquired().await;
    member.leases();
    for _ in 0..2 {
        broker.close_all_connections();
        member.acquired().await;
        assert_eq!(member.leases(), "doubtful lost acquired ");
    }
}

#[tokio::test]
async fn nothing_of_an_ordered_queue_is_requeued_by_itself() {
    let modes = [(Ordering::PerQueue, false), (Ordering::PerKey, false), (Ordering::Unordered, true)];
    for (ordering, allowed) in modes {
        let broker = Broker::start().await;
        let mut member = Member::join(Config { ordering, ..config_for(&broker) });
        let epoch = member.acquired().await;
        let delivery = member.read(epoch).await.into();
        let settlement = Settlement::Release;
        let release = Settle { epoch, delivery, settlement, attempts: 0, not_after: None };
        let results = member.settler.settle(vec![release]).await;
        match &results[..] {
            [Ok(())] => assert!(allowed, "{ordering:?}"),
            [Err(error)] => {
                assert!(!allowed, "{ordering:?}: {error}");
                assert_eq!((error.class, error.problem.reason), (Class::Permanent, reason::NOT_SUPPORTED));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(broker.heard(60, 120), usize::from(allowed), "{ordering:?}");
    }
}

#[tokio::test]
async fn a_node_that_refuses_says_more_than_one_that_is_not_there() {
    let broker = Broker::start().await;
    broker.refuse();
    let nobody = crate::Endpoint { port: 1, ..broker.endpoint.clone() };
    for nodes in [[broker.endpoint.clone(), nobody.clone()], [nobody, broker.endpoint.clone()]] {
        let mut member = Member::join(Config { nodes: nodes.into(), ..config_for(&broker) });
        member.problem(reason::WRONG_CREDENTIALS).await;
        let troubles = member
            .told
            .iter()
            .filter(|event| matches!(event, LeaseEvent::Source(SourceState { problem: Some(_), .. })));
        assert_eq!(troubles.count(), 1, "{:?}", member.told);
    }
}

#[tokio::test]
async fn what_comes_anew_for_want_of_room_stays_before_what_was_given_back_with_it() {
    let big: Vec<_> = (0..6).map(|number| vec![b'0' + number; 50_000]).collect();
    let broker = Broker::with(&[b"0", &big[1], &big[2], b"3", &big[4], b"5"]).await;
    // There is room for one of the big ones at a time.
    let mut member = Member::join(Config { bytes: 10_000, ..config_for(&broker) });
    let mut epoch = member.acquired().await;
    let (zero, one) = (member.read(epoch).await, member.read(epoch).await);
    assert_eq!((zero.message.body[0], one.message.body[0]), (b'0', b'1'));
    // The next is not asked for anew before these are done: they would come again with it.
    assert!(member.reader.fetch(request(epoch)).now_or_never().is_none());
    member.accept(epoch, zero).await;
    while let Some(event) = member.keeper.next().now_or_never() {
        member.told.push(event);
    }
    assert!(!member.leases().contains("revoked"));
    epoch = member.rewound(epoch, one).await;
    // Its channel ends twice more before it is done.
    for _ in 0..2 {
        assert_eq!(member.read(epoch).await.message.body[0], b'2');
        broker.close_all_connections();
        epoch = member.acquired().await;
    }
    for expected in b"2345" {
        let delivery = member.read(epoch).await;
        assert_eq!(char::from(delivery.message.body[0]), char::from(*expected));
        if *expected == b'3' {
            epoch = member.rewound(epoch, delivery).await;
        } else {
            member.accept(epoch, delivery).await;
        }
    }
}

/// A broker forgets acknowledgements that are on their way to the queue when the channel closes.
#[tokio::test]
async fn a_release_waits_until_what_was_acknowledged_is_applied() {
    let messages = vec![&b"x"[..]; 300];
    let broker = Broker::with(&messages).await;
    broker.apply_after(Duration::from_millis(200));
    let mut config = Config { ordering: Ordering::PerKey, ..config_for(&broker) };
    // Then as many are sent ahead as can be forgotten.
    config.prefetch.timeout = Duration::from_secs(1);
    let mut member = Member::join(config);
    let epoch = member.acquired().await;
    let delivery = member.read(epoch).await;
    member.accept(epoch, delivery).await;
    member.keeper.leave();
    member.keeper.release(QueueId(0), epoch);
    member.wait("end", |event| matches!(event, LeaseEvent::Left).then_some(())).await;
    let handed_out = 300 - broker.left();
    assert_eq!(broker.given_back(), handed_out - 1, "the acknowledged one came back");
}

#[tokio::test]
async fn a_body_without_room_comes_though_a_large_one_before_it_is_held() {
    let big = vec![b'a'; 6_000];
    let broker = Broker::with(&[&big, &vec![b'b'; 6_000], b"c"]).await;
    let config = Config { ordering: Ordering::PerKey, bytes: 10_000, ..config_for(&broker) };
    let mut member = Member::join(config);
    let epoch = member.acquired().await;
    // It is held: nothing is said of it.
    assert_eq!(member.read(epoch).await.message.body[0], b'a');
    member.wait("rewind", |event| matches!(event, LeaseEvent::Revoking { .. }).then_some(())).await;
    member.keeper.release(QueueId(0), epoch);
    let epoch = member.acquired().await;
    let mut held = Vec::new();
    for expected in b"abc" {
        held.push(member.read(epoch).await);
        assert_eq!(held.last().unwrap().message.body[0], *expected);
    }
}
