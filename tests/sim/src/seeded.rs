//! One whole run by seed: members that come, go and crash, a broker that fails, an application that misbehaves.

use std::time::Duration;

use lockstep_broker::{
    memory::MemoryOptions,
    unreliable::{Faults, PerMille, Unreliability, Unreliable},
};
use lockstep_core::{HttpAnswer, OrderingMode};
use lockstep_history::{History, Verdict};
use lockstep_sidecar::runtime::Ended;
use tokio::time::sleep;

use crate::{Dice, Member, Plan, World};

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    /// All that happened.
    pub history: History,
    /// The judgement.
    pub verdict: Verdict,
}

/// How rough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Operations fail and answers are lost, leases are doubted, members come and go: no duplicate is excused in
    /// `PerQueue`.
    Gentle,
    /// Leases are lost and members crash as well.
    Rough,
}

/// Runs one seed to its end on a paused clock of its own.
pub fn run(seed: u64, weather: Weather) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime must be there for a test").block_on(play(seed, weather))
}

async fn play(seed: u64, weather: Weather) -> Run {
    let mut dice = Dice::new(seed);
    let mode = match dice.below(3) {
        0 => OrderingMode::PerKey,
        _ => OrderingMode::PerQueue,
    };
    let queues = 1 + usize::try_from(dice.below(6)).unwrap_or(0);
    let options = MemoryOptions { lock_lifetime: Duration::from_secs(10), ..MemoryOptions::cumulative() };
    let mut world = World::new(options, mode, queues);
    let keys =
        if mode == OrderingMode::PerKey { 1 + usize::try_from(dice.below(20)).unwrap_or(0) } else { 0 };
    misbehave(&world, &mut dice);
    let mut members = Vec::new();
    let mut born = 0_u64;
    for _ in 0..1 + dice.below(3) {
        members.push(join(&world, &mut dice, &mut born, weather).await);
    }
    for _ in 0..4 + dice.below(8) {
        world.publish(usize::try_from(5 + dice.below(40)).unwrap_or(5), keys);
        sleep(dice.up_to(Duration::from_secs(3))).await;
        let index = usize::try_from(dice.below(members.len() as u64)).unwrap_or(0);
        match dice.below(8) {
            0 | 1 if members.len() < 4 => members.push(join(&world, &mut dice, &mut born, weather).await),
            2 if members.len() > 1 => members.swap_remove(index).begin_drain_and_forget().await,
            3 if weather == Weather::Rough => {
                world.fault("crash", 600);
                members.swap_remove(index).crash().await;
                members.push(join(&world, &mut dice, &mut born, weather).await);
            }
            4 => {
                let name = members.get(index).map(|member: &Member| member.name.clone()).unwrap_or_default();
                world.source.cut(&name);
                sleep(dice.up_to(Duration::from_secs(2))).await;
                world.source.restore(&name);
            }
            5 => world.source.restart(),
            _ => {}
        }
    }
    // In the end everything gets through.
    world.app.behave(|_, _| Plan::ok());
    world.until_done().await;
    for member in members {
        let ended = member.drain().await;
        // A lease that was lost a moment ago may have cut an attempt.
        assert!(ended == Ended::Drained || weather == Weather::Rough, "{ended:?}");
    }
    // Behind a message without a final verdict `PerKey` repeats at most the span at a hand-over.
    if weather == Weather::Rough || mode == OrderingMode::PerKey {
        world.excuse_losses(600);
    }
    Run { history: world.history(), verdict: world.verdict(&[]) }
}

async fn join(world: &World, dice: &mut Dice, born: &mut u64, weather: Weather) -> Member {
    *born += 1;
    let name = format!("member-{born}");
    let seed = dice.roll();
    let broker = Unreliable::new(world.broker(&name), faults(dice, weather), seed, world.clock);
    Member::start(&name, broker, &world.app, world.clock, world.config(seed)).await
}

fn faults(dice: &mut Dice, weather: Weather) -> Faults {
    let often = Unreliability {
        not_done: PerMille(u16::try_from(dice.below(200)).unwrap_or(0)),
        answer_lost: PerMille(u16::try_from(dice.below(200)).unwrap_or(0)),
        delay: dice.up_to(Duration::from_millis(60)),
    };
    let rough = weather == Weather::Rough;
    Faults {
        fetch: often,
        commit: often,
        settle: often,
        short_fetch: PerMille(300),
        duplicate: PerMille(if dice.chance(300) { 50 } else { 0 }),
        doubt_every: dice.chance(500).then_some(Duration::from_secs(5)),
        doubt_for: Duration::from_secs(1),
        loss_every: (rough && dice.chance(500)).then_some(Duration::from_secs(8)),
    }
}

/// An application that answers all that the contract knows, now and then.
fn misbehave(world: &World, dice: &mut Dice) {
    let mut dice = Dice::new(dice.roll());
    let often = dice.below(120);
    world.app.behave(move |_, _| {
        let takes = dice.up_to(Duration::from_millis(30));
        if !dice.chance(often) {
            return Plan::answer(200, takes);
        }
        match dice.below(6) {
            0 => Plan { takes, answer: None },
            1 => Plan::answer(200, Duration::from_secs(20)),
            2 => {
                let retry_after = Some(dice.up_to(Duration::from_secs(3)));
                let answer = HttpAnswer { status: 503, retry_after, verdict: None };
                Plan { takes, answer: Some(answer) }
            }
            3 => Plan::answer(404, takes),
            4 => Plan::answer(409, takes),
            _ => Plan::answer(500, takes),
        }
    });
}
