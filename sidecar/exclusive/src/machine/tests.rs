use lockstep_broker::EpochClock;

use super::{
    Command::{
        Acquired, Close, Count, Doubtful, Look, Lost, Open, Released, Renewed, RevocationCancelled, Revoking,
    },
    *,
};

const PULSE: Pulse = Pulse { look: Duration::from_secs(5), lease: Duration::from_secs(19) };

/// A machine and a clock in milliseconds.
struct Script {
    machine: Machine,
    epochs: EpochClock,
    now: u64,
}

impl Script {
    fn new(exclusive: bool) -> Self {
        Self { machine: Machine::new(exclusive, PULSE), epochs: EpochClock::default(), now: 1000 }
    }

    /// One that is connected and joined; its first consumer is being opened.
    fn opening() -> Self {
        let mut script = Self::new(true);
        assert_eq!(script.at(1000, Input::Joined(true)), []);
        assert_eq!(script.at(1000, Input::Connected(true)), [Count]);
        assert_eq!(script.at(1000, Input::Counted(Ok(0))), [Open { number: 1, contested: true }]);
        script
    }

    /// One that owns the queue since second 1.
    fn owning() -> (Self, Epoch) {
        let mut script = Self::opening();
        let epoch = script.acquired(1000, Input::Opened { number: 1, sent: at(1000) });
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

fn looked(sent: u64, consumers: Option<u32>, starved: bool) -> Input {
    Input::Looked { number: 1, sent: at(sent), consumers, starved }
}

#[test]
fn who_consumes_owns_the_queue_as_long_as_a_sign_of_life_lasts() {
    let mut script = Script::opening();
    let commands = script.at(1200, Input::Opened { number: 1, sent: at(1100) });
    let [Acquired { number: 1, epoch, deadline }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(deadline, at(20_100));
    assert_eq!(script.due(), (6100, vec![Look { number: 1 }]));
    // Nothing is asked twice.
    assert_eq!(script.at(7000, Input::Tick), []);
    assert_eq!(script.at(7000, looked(6100, Some(1), false)), [Renewed { epoch, deadline: at(25_100) }]);
    assert_eq!(script.due(), (11_100, vec![Look { number: 1 }]));
}

#[test]
fn a_queue_that_another_consumes_is_looked_at_until_nobody_does() {
    let mut script = Script::new(true);
    script.at(1000, Input::Joined(true));
    assert_eq!(script.at(1000, Input::Connected(true)), [Count]);
    assert_eq!(script.at(1010, Input::Counted(Ok(1))), []);
    assert!(script.machine.is_reached());
    assert_eq!(script.due(), (1510, vec![Count]));
    assert_eq!(script.at(1520, Input::Counted(Ok(0))), [Open { number: 1, contested: true }]);
    // Somebody was quicker.
    assert_eq!(script.at(1600, Input::Taken { number: 1 }), []);
    assert_eq!(script.due(), (2100, vec![Count]));
    // Where one is told that it is ours, nobody else comes.
    script.at(2200, Input::Hinted(Some(true)));
    assert_eq!(script.at(2200, Input::Counted(Ok(0))), [Open { number: 2, contested: false }]);
    script.acquired(2300, Input::Opened { number: 2, sent: at(2300) });
}

#[test]
fn without_exclusiveness_every_consumer_owns() {
    let mut script = Script::new(false);
    script.at(1000, Input::Joined(true));
    assert_eq!(script.at(1000, Input::Connected(true)), [Open { number: 1, contested: false }]);
    let epoch = script.acquired(1000, Input::Opened { number: 1, sent: at(900) });
    for second in 2..6 {
        let renewed = script.at(second * 1000, looked(second * 1000, Some(3), true));
        assert!(matches!(renewed[..], [Renewed { epoch: renewed, .. }] if renewed == epoch));
    }
}

#[test]
fn a_consumer_that_starves_twice_is_not_the_active_one() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.due(), (6000, vec![Look { number: 1 }]));
    assert_eq!(script.at(6001, looked(6000, Some(1), true)), []);
    assert_eq!(script.due(), (7001, vec![Look { number: 1 }]));
    assert_eq!(script.at(7002, looked(7001, Some(1), true)), [Lost { epoch }, Close { number: 1 }]);
    assert_eq!(script.at(7003, Input::Closed { number: 1 }), []);
    assert_eq!(script.due(), (7202, vec![Count]));
    // What came between is proof of the contrary.
    let (mut script, _) = Script::owning();
    script.at(6001, looked(6000, Some(1), true));
    assert!(matches!(script.at(7002, looked(7001, Some(1), false))[..], [Renewed { .. }]));
    assert_eq!(script.at(12_003, looked(12_002, Some(1), true)), []);
}

#[test]
fn a_lease_without_sign_of_life_ends_and_its_channel_is_closed_before_a_new_one() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.due(), (6000, vec![Look { number: 1 }]));
    // The broker has no way to the queue's leader: that is no sign of life.
    assert_eq!(script.at(6100, looked(6000, Some(0), false)), []);
    assert_eq!(script.due(), (7100, vec![Look { number: 1 }]));
    assert_eq!(script.due(), (20_000, vec![Lost { epoch }, Close { number: 1 }]));
    // What comes late changes nothing.
    assert_eq!(script.at(20_001, looked(19_999, Some(1), false)), []);
    assert_eq!(script.at(20_002, Input::Closed { number: 1 }), [Count]);
}

#[test]
fn a_lost_connection_is_a_doubt_until_a_new_channel_consumes() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Connected(false)), [Doubtful { epoch }]);
    assert_eq!(script.at(2001, Input::Ended { number: 1, open: false, pace: Pace::Quick }), []);
    assert_eq!(script.at(3000, Input::Connected(true)), [Count]);
    // It may be our own, of which the broker does not know yet that it is gone.
    assert_eq!(script.at(3001, Input::Counted(Ok(1))), []);
    assert_eq!(script.due(), (3501, vec![Count]));
    assert_eq!(script.at(3502, Input::Counted(Ok(0))), [Open { number: 2, contested: true }]);
    let commands = script.at(3600, Input::Opened { number: 2, sent: at(3550) });
    let [Lost { epoch: old }, Acquired { number: 2, epoch: new, .. }] = commands[..] else {
        panic!("{commands:?}")
    };
    assert!(old == epoch && new > old);
    // Or its time is over.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Connected(false));
    assert_eq!(script.due(), (20_000, vec![Lost { epoch }]));
}

#[test]
fn a_channel_that_the_broker_closed_is_a_loss_and_tried_again_at_its_pace() {
    let (mut script, epoch) = Script::owning();
    let ended = Input::Ended { number: 1, open: false, pace: Pace::Quick };
    assert_eq!(script.at(2000, ended), [Lost { epoch }]);
    assert_eq!(script.due(), (2200, vec![Count]));
    for wait in [4000, 5000, 5000] {
        let now = script.now;
        assert_eq!(script.at(now, Input::Counted(Err(Pace::Slow))), []);
        assert!(!script.machine.is_reached());
        assert_eq!(script.due(), (now + wait, vec![Count]));
    }
    let now = script.now;
    script.at(now, Input::Counted(Ok(0)));
    assert_eq!(script.at(now, Input::Refused { number: 2, pace: Pace::Slow }), []);
    assert_eq!(script.due(), (now + 5000, vec![Count]));
    // A good consumer starts the count anew.
    let now = script.now;
    script.at(now, Input::Counted(Ok(0)));
    script.acquired(now, Input::Opened { number: 3, sent: at(now) });
    for step in 1..=12 {
        let now = now + step * 5000;
        script.at(now, Input::Looked { number: 3, sent: at(now), consumers: Some(1), starved: false });
    }
    let now = script.now;
    let ended = Input::Ended { number: 3, open: false, pace: Pace::Slow };
    assert!(matches!(script.at(now, ended)[..], [Lost { .. }]));
    assert_eq!(script.due(), (now + 2000, vec![Count]));
}

#[test]
fn a_cancelled_consumer_s_channel_is_closed_before_a_new_one_consumes() {
    let (mut script, epoch) = Script::owning();
    let ended = Input::Ended { number: 1, open: true, pace: Pace::Quick };
    assert_eq!(script.at(2000, ended), [Lost { epoch }, Close { number: 1 }]);
    assert_eq!(script.machine.next(), None);
    assert_eq!(script.at(4000, Input::Closed { number: 1 }), [Count]);
}

#[test]
fn a_release_closes_the_channel_and_comes_back_while_it_is_wanted() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Release(Epoch(epoch.0 - 1))), []);
    assert_eq!(script.at(2000, Input::Release(epoch)), [Released { epoch }, Close { number: 1 }]);
    assert_eq!(script.at(2000, Input::Release(epoch)), []);
    assert_eq!(script.at(2010, Input::Closed { number: 1 }), [Count]);
    // In doubt there is nothing to close.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Connected(false));
    assert_eq!(script.at(2001, Input::Release(epoch)), [Released { epoch }]);
    // A connection that ends meanwhile has closed it too.
    let (mut script, epoch) = Script::owning();
    script.at(2000, Input::Release(epoch));
    assert_eq!(script.at(2001, Input::Connected(false)), []);
    assert!(script.machine.is_quiet());
}

#[test]
fn leaving_keeps_what_is_owned_until_it_is_released_and_takes_nothing() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Joined(false)), []);
    assert_eq!(script.due(), (6000, vec![Look { number: 1 }]));
    let renewed = Renewed { epoch, deadline: at(25_000) };
    assert_eq!(script.at(6001, looked(6000, Some(1), false)), [renewed]);
    assert!(!script.machine.is_quiet());
    assert_eq!(script.at(7000, Input::Release(epoch)), [Released { epoch }, Close { number: 1 }]);
    assert!(!script.machine.is_quiet());
    assert_eq!(script.at(7001, Input::Closed { number: 1 }), []);
    assert!(script.machine.is_quiet() && script.machine.next().is_none());
    // Who is about to consume goes again.
    let mut script = Script::opening();
    script.at(1000, Input::Joined(false));
    assert_eq!(script.at(1001, Input::Opened { number: 1, sent: at(900) }), [Close { number: 1 }]);
}

#[test]
fn a_queue_that_goes_to_another_is_revoked_unless_it_comes_back() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Hinted(Some(true))), []);
    assert_eq!(script.at(2000, Input::Hinted(Some(false))), [Revoking { epoch }]);
    assert_eq!(script.at(2001, Input::Tick), []);
    assert_eq!(script.at(2002, Input::Hinted(None)), [RevocationCancelled { epoch }]);
    script.at(2003, Input::Hinted(Some(false)));
    assert_eq!(script.at(2004, Input::Release(epoch)), [Released { epoch }, Close { number: 1 }]);
    assert_eq!(script.at(2005, Input::Closed { number: 1 }), [Count]);
}

#[test]
fn a_rewound_queue_comes_back_whatever_the_word_is_and_without_waiting_for_others() {
    let (mut script, epoch) = Script::owning();
    assert_eq!(script.at(2000, Input::Rewind), [Revoking { epoch }]);
    assert_eq!(script.at(2001, Input::Hinted(Some(true))), []);
    assert_eq!(script.at(2001, Input::Hinted(None)), []);
    assert_eq!(script.at(2001, Input::Rewind), []);
    script.at(2002, Input::Release(epoch));
    assert_eq!(script.at(2003, Input::Closed { number: 1 }), [Count]);
    assert_eq!(script.at(2004, Input::Counted(Ok(0))), [Open { number: 2, contested: false }]);
}

/// One whose queue is another's, and looked at.
fn watching() -> Script {
    let mut script = Script::new(true);
    script.at(1000, Input::Joined(true));
    script.at(1000, Input::Hinted(Some(false)));
    assert_eq!(script.at(1000, Input::Connected(true)), [Count]);
    assert_eq!(script.at(1000, Input::Counted(Ok(0))), []);
    script
}

#[test]
fn an_orphan_is_taken_after_half_a_minute_and_offered_to_whom_it_belongs() {
    let mut script = watching();
    for look in 1..=6 {
        assert_eq!(script.due(), (1000 + look * 5000, vec![Count]));
        let now = script.now;
        let taken = script.at(now, Input::Counted(Ok(0)));
        let expected = if look == 6 { vec![Open { number: 1, contested: true }] } else { vec![] };
        assert_eq!(taken, expected);
    }
    let epoch = script.acquired(31_000, Input::Opened { number: 1, sent: at(31_000) });
    for step in 1..4 {
        let now = 31_000 + step * 5000;
        assert_eq!(script.at(now, looked(now, Some(1), false)).len(), 1);
    }
    assert_eq!(script.at(51_000, Input::Tick).last(), Some(&Revoking { epoch }));
    script.at(51_001, Input::Release(epoch));
    assert_eq!(script.at(51_002, Input::Closed { number: 1 }), [Count]);
    // Nobody wanted it.
    assert_eq!(script.at(51_003, Input::Counted(Ok(0))), []);
    assert_eq!(script.due(), (53_003, vec![Count]));
    assert_eq!(script.at(53_003, Input::Counted(Ok(0))), [Open { number: 2, contested: true }]);
}

#[test]
fn a_look_that_finds_a_consumer_or_fails_starts_the_wait_for_an_orphan_anew() {
    for seen in [Ok(1), Err(Pace::Quick)] {
        let mut script = watching();
        script.at(6000, Input::Counted(seen));
        assert_eq!(script.at(32_000, Input::Counted(Ok(0))), []);
        assert_eq!(script.at(61_000, Input::Counted(Ok(0))), []);
        assert_eq!(script.at(62_000, Input::Counted(Ok(0))), [Open { number: 1, contested: true }]);
    }
}
