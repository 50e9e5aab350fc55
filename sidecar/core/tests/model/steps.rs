//! What a step does to the world, and the end of every case: everything gets well, and nothing may be left.

use std::time::Duration;

use lockstep_core::{
    AttemptResult, ByHand, DataLossPolicy, Failure, FetchId, HttpAnswer, Input, RunState, Settlement,
    UndecodablePolicy,
};
use lockstep_model::{Epoch, Position, QueueId};

use crate::{
    case::{Step, reconfigured, stored},
    model::{Check, Fate},
    world::{Asked, World},
};

type Kind = fn(&mut World, u8, u8) -> Check;

/// How often each kind of step is taken, of 256, plainest first.
const KINDS: [(u8, Kind); 24] = [
    (60, answer),
    (50, fetched),
    (24, wake),
    (14, pass),
    (20, committed),
    (14, settled),
    (6, released),
    (4, left),
    (10, acquire),
    (7, renew),
    (3, doubt),
    (3, lost),
    (4, revoke),
    (2, keep),
    (6, health),
    (2, hold),
    (1, drain),
    (4, reconfigure),
    (4, by_hand),
    (3, moved),
    (5, stale),
    (4, publish),
    (3, mood),
    (3, fetch_failed),
];

impl World {
    pub(crate) fn step(&mut self, step: Step) -> Check {
        // The shell ends when the engine has finished.
        if self.model.finished {
            return Ok(());
        }
        let mut left = step.0;
        for (weight, kind) in KINDS {
            if left < weight {
                return kind(self, step.1, step.2);
            }
            left -= weight;
        }
        Ok(())
    }

    fn queue(&self, choice: u8) -> QueueId {
        QueueId(u32::from(choice) % self.brokers.len() as u32)
    }

    fn epoch(&self, queue: QueueId) -> Option<Epoch> {
        self.model.own.get(&queue).map(|own| own.epoch)
    }

    fn commit_answer(&mut self, which: usize, result: Result<(), Failure>, applied: bool) -> Check {
        let Asked { queue, epoch, position, void } = self.commits.remove(which);
        let broker = &mut self.brokers[queue.0 as usize];
        let current = broker.epoch == epoch;
        if current && applied && !void {
            broker.committed = position;
        }
        let result = if current { result } else { Err(Failure::NotDone) };
        self.input(Input::Committed { queue, epoch, position: Position(position), result })
    }

    fn settle_answer(&mut self, which: usize, result: Result<(), Failure>, applied: bool) -> Check {
        let (Asked { queue, epoch, position, .. }, settlement) = self.settles.remove(which);
        let log = self.log();
        let broker = &mut self.brokers[queue.0 as usize];
        let current = broker.epoch == epoch;
        let index = if log { Some(position as usize) } else { broker.handed.get(&position).copied() };
        if let (true, true, Some(index)) = (current, applied, index) {
            let became = &mut broker.became[index];
            match settlement {
                Settlement::Accept => became.settled = true,
                Settlement::DeadLetter => (became.dead, became.settled) = (true, true),
                Settlement::Release => {
                    broker.handed.remove(&position);
                    broker.redeliveries[index] += 1;
                }
            }
        }
        let result = if current { result } else { Err(Failure::NotDone) };
        self.input(Input::Settled { queue, epoch, position: Position(position), result })
    }

    fn left_input(&mut self) -> Check {
        let held = self.model.own.keys().any(|queue| !self.model.own[queue].released);
        if self.leaving && !held && self.releases.is_empty() {
            self.leaving = false;
            return self.input(Input::Left);
        }
        Ok(())
    }
}

fn choose(choice: u8, from: usize) -> Option<usize> {
    (from > 0).then(|| usize::from(choice) % from)
}

fn failure(choice: u8) -> (Result<(), Failure>, bool) {
    match choice % 16 {
        12 => (Err(Failure::NotDone), false),
        13 => (Err(Failure::Unknown), false),
        14 => (Err(Failure::Unknown), true),
        15 => (Err(Failure::Permanent), false),
        _ => (Ok(()), true),
    }
}

fn answer(world: &mut World, which: u8, how: u8) -> Check {
    let Some(which) = choose(which, world.model.running.len()) else { return Ok(()) };
    let result = world.result(how, world.model.running[which].cancelled);
    world.end(which, result)
}

fn fetched(world: &mut World, which: u8, how: u8) -> Check {
    let Some(which) = choose(which, world.fetches.len()) else { return Ok(()) };
    world.deliver(which, how).map(|_| ())
}

fn wake(world: &mut World, _: u8, _: u8) -> Check {
    world.now = world.wake.unwrap_or(world.now + Duration::from_secs(1)).max(world.now);
    world.input(Input::Tick)
}

fn pass(world: &mut World, few: u8, many: u8) -> Check {
    let millis = if many >= 240 { 3_000 } else { 1 } * (u64::from(few) / 8 + 1) + u64::from(many);
    world.now += Duration::from_millis(millis);
    world.input(Input::Tick)
}

fn committed(world: &mut World, which: u8, how: u8) -> Check {
    let Some(which) = choose(which, world.commits.len()) else { return Ok(()) };
    let (result, applied) = failure(how);
    world.commit_answer(which, result, applied)
}

fn settled(world: &mut World, which: u8, how: u8) -> Check {
    let Some(which) = choose(which, world.settles.len()) else { return Ok(()) };
    let (result, applied) = failure(how);
    world.settle_answer(which, result, applied)
}

fn released(world: &mut World, which: u8, _: u8) -> Check {
    let Some(which) = choose(which, world.releases.len()) else { return Ok(()) };
    let Asked { queue, epoch, .. } = world.releases.remove(which);
    world.input(Input::Released { queue, epoch })
}

fn left(world: &mut World, _: u8, _: u8) -> Check {
    world.left_input()
}

fn acquire(world: &mut World, queue: u8, how: u8) -> Check {
    let queue = world.queue(queue);
    let owned = world.model.own.contains_key(&queue);
    if owned && how < 240 {
        return Ok(());
    }
    world.acquire(queue, !owned && how % 4 == 3)
}

fn renew(world: &mut World, queue: u8, _: u8) -> Check {
    let queue = world.queue(queue);
    let (Some(epoch), deadline) = (world.epoch(queue), world.lease()) else { return Ok(()) };
    world.input(Input::LeaseRenewed { queue, epoch, deadline })
}

fn doubt(world: &mut World, queue: u8, _: u8) -> Check {
    let queue = world.queue(queue);
    let Some(epoch) = world.epoch(queue) else { return Ok(()) };
    world.input(Input::LeaseDoubtful { queue, epoch })
}

fn lost(world: &mut World, queue: u8, _: u8) -> Check {
    let queue = world.queue(queue);
    let Some(epoch) = world.epoch(queue) else { return Ok(()) };
    world.input(Input::QueueLost { queue, epoch })
}

fn revoke(world: &mut World, queue: u8, how: u8) -> Check {
    let queue = world.queue(queue);
    let Some(epoch) = world.epoch(queue).filter(|_| world.model.member) else { return Ok(()) };
    let deadline = (how % 2 == 1).then(|| world.now + Duration::from_millis(u64::from(how) * 20));
    world.input(Input::QueueRevoking { queue, epoch, deadline })
}

fn keep(world: &mut World, queue: u8, _: u8) -> Check {
    let queue = world.queue(queue);
    let Some(epoch) = world.epoch(queue).filter(|_| world.model.member) else { return Ok(()) };
    world.input(Input::RevocationCancelled { queue, epoch })
}

fn health(world: &mut World, _: u8, _: u8) -> Check {
    let healthy = !world.model.healthy;
    world.input(Input::HealthChanged { healthy })
}

fn hold(world: &mut World, _: u8, _: u8) -> Check {
    let held = !world.model.held;
    world.input(Input::DispatchHeld(held))
}

fn drain(world: &mut World, _: u8, seconds: u8) -> Check {
    let deadline = world.now + Duration::from_secs(1 + u64::from(seconds % 20));
    world.input(Input::DrainRequested { deadline })
}

fn reconfigure(world: &mut World, field: u8, value: u8) -> Check {
    let config = reconfigured(&world.model.config, field, value);
    world.input(Input::Reconfigured(Box::new(config)))
}

fn by_hand(world: &mut World, queue: u8, how: u8) -> Check {
    let queue = world.queue(queue);
    let Some(own) = world.model.own.get(&queue) else { return Ok(()) };
    let mut open = own.recs.iter().filter(|(_, rec)| rec.fate == Fate::Open && !rec.serials.is_empty());
    let Some((position, _)) = open.nth(usize::from(how >> 1 & 1)) else { return Ok(()) };
    let action = if how.is_multiple_of(2) { ByHand::Skip } else { ByHand::DeadLetter };
    let position = Position(*position);
    world.input(Input::ByHand { queue, position, action })
}

fn moved(world: &mut World, queue: u8, to: u8) -> Check {
    let queue = world.queue(queue);
    let Some(epoch) = world.epoch(queue).filter(|_| world.log()) else { return Ok(()) };
    let broker = &mut world.brokers[queue.0 as usize];
    let reset = to.is_multiple_of(2);
    let range = broker.log.len() as u64 + 1;
    let to = u64::from(to >> 1) % range;
    let to = if reset { to } else { to.max(broker.committed) };
    broker.became.iter_mut().take(to as usize).for_each(|became| became.gone = true);
    broker.committed = to;
    world.fetches.retain(|(asked, ..)| asked.queue != queue || asked.epoch != epoch);
    let of = |asked: &&mut Asked| asked.queue == queue && asked.epoch == epoch;
    world.commits.iter_mut().filter(of).for_each(|asked| asked.void = true);
    world.input(Input::PositionMoved { queue, epoch, to: Position(to), reset })
}

fn stale(world: &mut World, what: u8, how: u8) -> Check {
    let queue = world.queue(how);
    let broker = world.brokers[queue.0 as usize].clone();
    let (epoch, older) = (broker.epoch, Epoch(broker.epoch.0.saturating_sub(1)));
    let (position, fetch) = (Position(u64::from(how >> 4)), FetchId(u64::from(how) + 1_000));
    let input = match what % 8 {
        0 => Input::Fetched { queue, epoch, fetch, deliveries: Vec::new(), next: position },
        1 => Input::Settled { queue, epoch: older, position, result: Ok(()) },
        2 => Input::Committed { queue, epoch: older, position, result: Ok(()) },
        3 => Input::LeaseDoubtful { queue, epoch: older },
        4 => Input::LeaseRenewed { queue, epoch: older, deadline: None },
        5 => Input::QueueLost { queue, epoch: older },
        6 => Input::FetchFailed { queue, epoch: older, fetch },
        _ => {
            let (deadline, cursor, settle_within) = (None, Position(0), None);
            Input::QueueAcquired { queue, epoch: older, deadline, cursor, settle_within }
        }
    };
    if older.0 == 0 { Ok(()) } else { world.input(input) }
}

fn publish(world: &mut World, queue: u8, what: u8) -> Check {
    let (queue, log) = (world.queue(queue), world.log());
    let broker = &mut world.brokers[queue.0 as usize];
    broker.log.push(stored(what, log));
    broker.became.push(Default::default());
    broker.redeliveries.push(0);
    let index = broker.log.len() - 1;
    if log {
        world.publish_to_model(queue, index);
    }
    Ok(())
}

fn mood(world: &mut World, mood: u8, _: u8) -> Check {
    world.mood = mood % 6;
    Ok(())
}

fn fetch_failed(world: &mut World, which: u8, _: u8) -> Check {
    let Some(which) = choose(which, world.fetches.len()) else { return Ok(()) };
    let (Asked { queue, epoch, .. }, fetch, ..) = world.fetches.remove(which);
    world.input(Input::FetchFailed { queue, epoch, fetch })
}

impl World {
    /// Everything gets well and stays so; then nothing may be left unfinished or uncommitted.
    pub(crate) fn heal(&mut self) -> Check {
        if let Some(script) = &mut self.record.script {
            script.push("-- everything gets well".to_owned());
        }
        if self.model.finished {
            return Ok(());
        }
        let mut config = self.model.config.clone();
        (config.state, config.on_data_loss) = (RunState::Running, DataLossPolicy::Continue);
        if config != self.model.config {
            self.input(Input::Reconfigured(Box::new(config)))?;
        }
        self.input(Input::DispatchHeld(false))?;
        self.input(Input::HealthChanged { healthy: true })?;
        let end = self.now + Duration::from_secs(7_200);
        let mut idle = 0;
        loop {
            let busy = self.serve()?;
            if self.model.finished || (self.model.drain.is_none() && !busy && self.left_over().is_none()) {
                return Ok(());
            }
            if !busy {
                idle += 1;
                let stuck = self.left_over().unwrap_or_default();
                let wake = self.wake.ok_or_else(|| format!("it sleeps for ever with this left: {stuck}"))?;
                if wake > end || idle > 600 {
                    return Err(format!("this is left for ever: {stuck}"));
                }
                self.now = self.now.max(wake);
                self.input(Input::Tick)?;
            }
        }
    }

    /// Answers all that is asked, well; whether there was anything.
    fn serve(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for queue in self.queues() {
            busy |= self.keep_lease(queue)?;
        }
        while !self.model.running.is_empty() {
            let ok = HttpAnswer { status: 200, ..HttpAnswer::default() };
            self.end(0, AttemptResult::Answered(ok))?;
            busy = true;
        }
        while !self.commits.is_empty() {
            self.commit_answer(0, Ok(()), true)?;
            busy = true;
        }
        while !self.settles.is_empty() {
            self.settle_answer(0, Ok(()), true)?;
            busy = true;
        }
        while let Some(Asked { queue, epoch, .. }) = self.releases.pop() {
            self.input(Input::Released { queue, epoch })?;
            busy = true;
        }
        if self.leaving {
            self.left_input()?;
            busy |= !self.leaving;
        }
        let mut which = 0;
        while which < self.fetches.len() {
            let answered = self.deliver(which, 0)?;
            busy |= answered;
            which += usize::from(!answered);
        }
        Ok(busy | self.hands()?)
    }

    fn keep_lease(&mut self, queue: QueueId) -> Result<bool, String> {
        let Some(own) = self.model.own.get(&queue).cloned() else {
            let member = self.model.member;
            self.acquire(queue, false)?;
            return Ok(member);
        };
        let (epoch, soon) = (own.epoch, self.now + Duration::from_secs(2));
        if own.revoking && self.model.member {
            self.input(Input::RevocationCancelled { queue, epoch })?;
        }
        if own.doubtful || own.deadline.is_some_and(|deadline| deadline < soon) {
            let deadline = own.deadline.map(|_| self.now + Duration::from_secs(10_000));
            self.input(Input::LeaseRenewed { queue, epoch, deadline })?;
            return Ok(true);
        }
        Ok(false)
    }

    /// A person skips what nothing else gets past.
    fn hands(&mut self) -> Result<bool, String> {
        if self.model.config.undecodable == UndecodablePolicy::DeadLetter || self.model.drain.is_some() {
            return Ok(false);
        }
        let mut heads = Vec::new();
        for (queue, own) in &self.model.own {
            let stuck = own.recs.iter().filter(|(_, rec)| rec.undecodable && rec.fate == Fate::Open);
            let first =
                stuck.filter(|(position, _)| self.engine.payload(*queue, Position(**position)).is_some());
            heads.extend(first.map(|(position, _)| (*queue, Position(*position))));
        }
        let mut busy = false;
        for (queue, position) in heads {
            self.input(Input::ByHand { queue, position, action: ByHand::Skip })?;
            let rec = self.model.own.get(&queue).and_then(|own| own.recs.get(&position.0));
            busy |= rec.is_none_or(|rec| rec.fate != Fate::Open);
        }
        Ok(busy)
    }

    /// The first message that is not finished and told to the broker.
    fn left_over(&self) -> Option<String> {
        for (number, broker) in self.brokers.iter().enumerate() {
            for (index, became) in broker.became.iter().enumerate() {
                let filtered = broker.log[index].filtered;
                let finished = became.answered || became.dead || became.skipped || became.gone || filtered;
                let told = if self.log() { broker.committed > index as u64 } else { became.settled };
                if !finished || !(told || filtered) {
                    return Some(format!("message {index} of queue {number}: {became:?}, told: {told}"));
                }
            }
        }
        None
    }
}
