use super::{
    Command::{
        Acquired, Close, Count, Doubtful, Look, Lost, Open, Released, Renewed, RevocationCancelled, Revoking,
    },
    *,
};

const HEARTBEAT: Duration = Duration::from_secs(10);

/// A machine and a clock in milliseconds.
struct Script {
    machine: Machine,
    epochs: EpochClock,
    now: u64,
}

impl Script {
    fn new(exclusive: bool) -> Self {
        Self { machine: Machine::new(exclusive, HEARTBEAT), epochs: EpochClock::default(), now: 1000 }
    }

    /// One that is connected and joined; its first channel is being opened.
    fn opening(exclusive: bool) -> Self {
        let mut script = Self::new(exclusive);
        assert_eq!(script.at(1000, Input::Joined(true)), []);
        assert_eq!(script.at(1000, Input::Connected(true)), [Open { channel: 1 }]);
        script
    }

    /// One that owns the queue since second 1.
    fn owning() -> (Self, Epoch) {
        let mut script = Self::opening(true);
        let epoch = script.acquired(1000, Input::Opened { channel: 1, sent: at(1000), consumers: 1 });
        (script, epoch)
    }

    fn at(&mut self, millis: u64, input: Input) -> Vec<Command> {
        self.now = millis;
        let mut commands = Vec::new();
        let mut context =
            Context { now: at(millis), epochs: &mut self.epochs, jitter: u16::MAX, commands: &mut commands };
        self.machine.handle(input, &mut context);
        commands
    }

    /// The epoch of what the input acquires, and nothing else.
    fn acquired(&mut self, millis: u64, input: Input) -> Epoch {
        match self.at(millis, input).as_slice() {
            [Acquired { epoch, .. }] => *epoch,
            other => panic!("{other:?}"),
        }
    }

    /// Lets time pass up to the next thing that is due.
    fn due(&mut self) -> (u64, Vec<Command>) {
        let next = self.machine.next().unwrap();
        let millis = (next.as_nanos() / 1_000_000).max(self.now);
        (millis, self.at(millis, Input::Tick))
    }
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis)
}

#[test]
fn a_lone_consumer_owns_the_queue_for_two_heartbeats_less_a_second() {
    let mut script = Script::opening(true);
    let commands = script.at(1200, Input::Opened { channel: 1, sent: at(1100), consumers: 1 });
    let [Acquired { channel: 1, epoch, deadline }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(deadline, at(20_100));
    assert_eq!(script.due(), (6100, vec![Look { channel: 1 }]));
    // Nothing is asked twice.
    assert_eq!(script.at(7000, Input::Tick), []);
    let answer = Input::Looked { channel: 1, sent: at(6100), consumers: Some(1) };
    assert_eq!(script.at(7000, answer), [Renewed { epoch, deadline: at(25_100) }]);
    // A settlement is as good a sign of life, and puts off the next question.
    assert_eq!(
        script.at(9000, Input::Alive { channel: 1, sent: at(8900) }),
        [Renewed { epoch, deadline: at(27_900) }]
    );
    assert_eq!(script.due(), (13_900, vec![Look { channel: 1 }]));
}

#[test]
fn a_second_consumer_stands_by_until_it_is_alone_or_gets_a_delivery() {
    let mut script = Script::opening(true);
    assert_eq!(script.at(1000, Input::Opened { channel: 1, sent: at(900), consumers: 2 }), []);
    assert_eq!(script.due(), (2000, vec![Look { channel: 1 }]));
    assert_eq!(script.at(2100, Input::Looked { channel: 1, sent: at(2000), consumers: Some(2) }), []);
    assert_eq!(script.due(), (3100, vec![Look { channel: 1 }]));
    // A delivery says nothing of when the broker heard of us.
    let commands = script.at(3200, Input::Delivered { channel: 1 });
    let [Acquired { channel: 1, deadline, .. }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(deadline, at(21_000));

    let mut script = Script::opening(true);
    assert_eq!(script.at(1000, Input::Opened { channel: 1, sent: at(900), consumers: 2 }), []);
    script.due();
    script.acquired(2100, Input::Looked { channel: 1, sent: at(2000), consumers: Some(1) });
}

#[test]
fn without_exclusiveness_every_consumer_owns() {
    let mut script = Script::opening(false);
    script.acquired(1000, Input::Opened { channel: 1, sent: at(900), consumers: 3 });
}

#[test]
fn a_lease_without_sign_of_life_ends_and_its_channel_is_closed_before_a_new_one() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.due(), (6000, vec![Look { channel: 1 }]));
    // The broker has no way to the queue's leader: that is no sign of life.
    assert_eq!(script.at(6100, Input::Looked { channel: 1, sent: at(6000), consumers: Some(0) }), []);
    assert_eq!(script.due(), (7100, vec![Look { channel: 1 }]));
    assert_eq!(script.due(), (20_000, vec![Lost { epoch }, Close { channel: 1 }]));
    // What comes late changes nothing.
    assert_eq!(script.at(20_001, Input::Looked { channel: 1, sent: at(19_999), consumers: Some(1) }), []);
    assert_eq!(script.at(20_001, Input::Delivered { channel: 1 }), []);
    assert_eq!(script.at(20_002, Input::Closed { channel: 1 }), [Open { channel: 2 }]);
}

#[test]
fn a_lost_connection_is_a_doubt_until_a_new_channel_consumes() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Connected(false)), [Doubtful { epoch }]);
    assert_eq!(script.at(2001, Input::Ended { channel: 1, open: false, pace: Pace::Quick }), []);
    assert_eq!(script.at(3000, Input::Connected(true)), [Open { channel: 2 }]);
    let commands = script.at(3100, Input::Opened { channel: 2, sent: at(3050), consumers: 1 });
    let [Lost { epoch: old }, Acquired { channel: 2, epoch: new, .. }] = commands[..] else {
        panic!("{commands:?}")
    };
    assert!(old == epoch && new > old);

    // Another owner is certain when we stand by.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Connected(false));
    script.at(3000, Input::Connected(true));
    assert_eq!(script.at(3100, Input::Opened { channel: 2, sent: at(3050), consumers: 2 }), [Lost { epoch }]);

    // Or its time is over.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Connected(false));
    assert_eq!(script.due(), (20_000, vec![Lost { epoch }]));
}

#[test]
fn a_channel_that_the_broker_closed_is_a_loss_and_tried_again_at_its_pace() {
    let (mut script, epoch) = Script::owning();
    let ended = Input::Ended { channel: 1, open: false, pace: Pace::Quick };
    assert_eq!(script.at(2000, ended), [Lost { epoch }]);
    assert_eq!(script.due(), (2200, vec![Open { channel: 2 }]));
    for (channel, wait) in [(2, 10_000), (3, 20_000), (4, 40_000), (5, 60_000), (6, 60_000)] {
        let now = script.now;
        assert_eq!(script.at(now, Input::Refused { channel, pace: Pace::Slow }), []);
        assert_eq!(script.due(), (now + wait, vec![Open { channel: channel + 1 }]));
    }
    // A good channel starts the count anew.
    let now = script.now;
    script.at(now, Input::Opened { channel: 7, sent: at(now), consumers: 2 });
    for second in 1..61 {
        script.at(now + second * 1000, Input::Looked { channel: 7, sent: at(now), consumers: Some(2) });
    }
    let now = script.now;
    assert_eq!(script.at(now, Input::Ended { channel: 7, open: false, pace: Pace::Slow }), []);
    assert_eq!(script.due(), (now + 5000, vec![Open { channel: 8 }]));
}

#[test]
fn a_cancelled_consumer_s_channel_is_closed_before_a_new_one_consumes() {
    let (mut script, epoch) = Script::owning();
    let ended = Input::Ended { channel: 1, open: true, pace: Pace::Quick };
    assert_eq!(script.at(2000, ended), [Lost { epoch }, Close { channel: 1 }]);
    assert_eq!(script.machine.next(), None);
    assert_eq!(script.at(4000, Input::Closed { channel: 1 }), [Open { channel: 2 }]);
}

#[test]
fn a_release_closes_the_channel_and_comes_back_while_it_is_wanted() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Release(Epoch(epoch.0 - 1))), []);
    assert_eq!(script.at(2000, Input::Release(epoch)), [Close { channel: 1 }]);
    assert_eq!(script.at(2000, Input::Release(epoch)), []);
    assert_eq!(script.at(2010, Input::Closed { channel: 1 }), [Released { epoch }, Open { channel: 2 }]);
    // In doubt there is nothing to close.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Connected(false));
    assert_eq!(script.at(2001, Input::Release(epoch)), [Released { epoch }]);
    // A connection that ends meanwhile has given it back too.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Release(epoch));
    assert_eq!(script.at(2001, Input::Connected(false)), [Released { epoch }]);
}

#[test]
fn leaving_keeps_what_is_owned_until_it_is_released_and_takes_nothing() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Joined(false)), []);
    assert_eq!(script.due(), (6000, vec![Look { channel: 1 }]));
    let renewed = script.at(6001, Input::Looked { channel: 1, sent: at(6000), consumers: Some(2) });
    assert_eq!(renewed, [Renewed { epoch, deadline: at(25_000) }]);
    assert!(!script.machine.is_quiet());
    assert_eq!(script.at(7000, Input::Release(epoch)), [Close { channel: 1 }]);
    assert_eq!(script.at(7001, Input::Closed { channel: 1 }), [Released { epoch }]);
    assert!(script.machine.is_quiet() && script.machine.next().is_none());

    // Who stands by just goes, and so does who is about to.
    let mut script = Script::opening(true);
    script.at(1000, Input::Joined(false));
    let opened = Input::Opened { channel: 1, sent: at(900), consumers: 1 };
    assert_eq!(script.at(1001, opened), [Close { channel: 1 }]);
    let mut script = Script::opening(true);
    script.at(1000, Input::Opened { channel: 1, sent: at(900), consumers: 2 });
    assert_eq!(script.at(1001, Input::Joined(false)), [Close { channel: 1 }]);
}

#[test]
fn a_queue_that_goes_to_another_is_revoked_unless_it_comes_back() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Hinted(Some(true))), []);
    assert_eq!(script.at(2000, Input::Hinted(Some(false))), [Revoking { epoch }]);
    assert_eq!(script.at(2001, Input::Tick), []);
    assert_eq!(script.at(2002, Input::Hinted(None)), [RevocationCancelled { epoch }]);
    script.at(2003, Input::Hinted(Some(false)));
    assert_eq!(script.at(2004, Input::Release(epoch)), [Close { channel: 1 }]);
    assert_eq!(script.at(2005, Input::Closed { channel: 1 }), [Released { epoch }, Count]);
    // Rewound it is to be given back, whatever the word is.
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Rewind), [Revoking { epoch }]);
    assert_eq!(script.at(2001, Input::Hinted(Some(true))), []);
    assert_eq!(script.at(2001, Input::Rewind), []);
}

#[test]
fn an_orphan_is_taken_after_half_a_minute_and_given_back_to_whom_it_belongs() {
    let mut script = Script::new(true);
    script.at(1000, Input::Joined(true));
    script.at(1000, Input::Hinted(Some(false)));
    assert_eq!(script.at(1000, Input::Connected(true)), [Count]);
    assert_eq!(script.at(1000, Input::Counted(Some(0))), []);
    let mut taken = Vec::new();
    for look in 1..=6 {
        assert_eq!(script.due(), (1000 + look * 5000, vec![Count]));
        let now = script.now;
        taken = script.at(now, Input::Counted(Some(0)));
        // One look that finds somebody starts the wait anew.
        assert!(look == 6 || taken.is_empty());
    }
    assert_eq!(taken, [Open { channel: 1 }]);
    let epoch = script.acquired(32_000, Input::Opened { channel: 1, sent: at(32_000), consumers: 1 });
    script.due();
    let looked = script.at(37_000, Input::Looked { channel: 1, sent: at(37_000), consumers: Some(2) });
    assert_eq!(looked, [Renewed { epoch, deadline: at(56_000) }, Revoking { epoch }]);
}

#[test]
fn a_look_that_finds_a_consumer_or_fails_starts_the_wait_for_an_orphan_anew() {
    for seen in [Some(1), None] {
        let mut script = Script::new(true);
        script.at(1000, Input::Joined(true));
        script.at(1000, Input::Hinted(Some(false)));
        script.at(1000, Input::Connected(true));
        script.at(1000, Input::Counted(Some(0)));
        script.at(6000, Input::Counted(seen));
        assert_eq!(script.at(32_000, Input::Counted(Some(0))), []);
        assert_eq!(script.at(61_000, Input::Counted(Some(0))), []);
        assert_eq!(script.at(62_000, Input::Counted(Some(0))), [Open { channel: 1 }]);
    }
}
