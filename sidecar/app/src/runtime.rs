//! The one place that knows the engine and a broker: one loop that feeds the engine what happened and does what it
//! says. It owns the clock, the futures and the queue names; it decides nothing about order, retries or commits.
//!
//! Each turn takes everything that is ready, lease and settle results first and new messages last, and lets the engine
//! answer each before the next. There is no task per message: fetches, attempts, commits and settlements are futures
//! in four sets that the loop itself polls.

mod commands;
mod hold;
mod perform;
mod queues;
mod report;
mod settle;
mod shell;
mod status;
mod translate;
mod work;

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use lockstep_broker::{Broker, Clock, LeaseKeeper};
use tokio::{
    select,
    sync::{mpsc, watch},
    task::coop::consume_budget,
    time::sleep_until,
};

pub use commands::{ByHandError, Command};

use crate::{deliver::Deliver, metrics::Metrics, state::State};
use shell::Shell;

/// Inputs of one kind taken in one turn: enough to drain what a broker's answer or 64 attempts bring at once, few
/// enough that a flood of one kind can't keep the others waiting.
const INPUTS_PER_KIND: usize = 64;
/// A sleep that never ends by itself within the life of a process: 30 years, as tokio has no end of time.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// What the loop is started with.
#[derive(Debug)]
pub struct Setup {
    /// The process's clock.
    pub clock: Clock,
    /// The engine's settings.
    pub engine: lockstep_core::Config,
    /// How long a drain may take.
    pub drain_timeout: Duration,
    /// How long the application may take to shut down: the template's grace period.
    pub shutdown_time: Duration,
    /// Where attempts, epochs and counts survive a restart.
    pub state: State,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Set while the pod is ready.
    pub ready: Arc<AtomicBool>,
    /// Set while the application's health is to be asked every 200 ms.
    pub watch_closely: watch::Sender<bool>,
}

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A drain finished with nothing in flight.
    Drained,
    /// Attempts were cut, by the drain's deadline or with a lease, so recently that the application may still work on
    /// them.
    Cut,
}

/// Runs until a drain is over. Dropping it is a crash: nothing is released, the marker of a running process stays.
pub async fn run<B, D>(
    broker: B,
    deliver: Arc<D>,
    setup: Setup,
    mut commands: mpsc::Receiver<Command>,
) -> Ended
where
    B: Broker,
    D: Deliver,
{
    let clock = setup.clock;
    let (reader, settler, mut keeper) = broker.split();
    let mut shell: Shell<B, D> = Shell::new(reader, settler, deliver, setup);
    let mut sleep = pin!(sleep_until(clock.instant(clock.now() + FAR)));
    shell.start(&mut keeper);
    while !shell.finished() {
        let wake = clock.instant(shell.wake().unwrap_or_else(|| clock.now() + FAR));
        if sleep.deadline() != wake {
            sleep.as_mut().reset(wake);
        }
        select! {
            biased;
            event = keeper.next() => shell.lease(event, &mut keeper),
            Some(done) = shell.settling.next() => shell.settled(done, &mut keeper),
            Some(command) = commands.recv() => shell.command(command, &mut keeper),
            Some(done) = shell.attempts.next() => shell.attempted(done, &mut keeper),
            Some(done) = shell.fetches.next() => shell.fetched(done, &mut keeper),
            () = sleep.as_mut() => shell.tick(&mut keeper),
        }
        rest_of_turn(&mut shell, &mut keeper, &mut commands).await;
        shell.end_turn(&mut keeper);
    }
    shell.end()
}

/// Takes what else is ready, in order of urgency. Polling once and dropping is safe: every source here is cancel
/// safe, and the next turn polls each again before it sleeps.
async fn rest_of_turn<B, D>(
    shell: &mut Shell<B, D>,
    keeper: &mut B::Keeper,
    commands: &mut mpsc::Receiver<Command>,
) where
    B: Broker,
    D: Deliver,
{
    for _ in 0..INPUTS_PER_KIND {
        let Some(event) = keeper.next().now_or_never() else { break };
        shell.lease(event, keeper);
        consume_budget().await;
    }
    for _ in 0..INPUTS_PER_KIND {
        let Some(Some(done)) = shell.settling.next().now_or_never() else { break };
        shell.settled(done, keeper);
        consume_budget().await;
    }
    for _ in 0..INPUTS_PER_KIND {
        let Ok(command) = commands.try_recv() else { break };
        shell.command(command, keeper);
    }
    for _ in 0..INPUTS_PER_KIND {
        let Some(Some(done)) = shell.attempts.next().now_or_never() else { break };
        shell.attempted(done, keeper);
        consume_budget().await;
    }
    for _ in 0..INPUTS_PER_KIND {
        let Some(Some(done)) = shell.fetches.next().now_or_never() else { break };
        shell.fetched(done, keeper);
        consume_budget().await;
    }
}
