//! The engine's surroundings: a broker, an application and a clock, moved by steps. Every input and output passes the
//! reference.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use lockstep_core::{
    AttemptResult, Engine, Event, FetchId, HttpAnswer, Incoming, Input, Output, Sabotage, Settlement,
    TransportFailure, VerdictHeader,
};
use lockstep_model::{Epoch, Identity, KeyHash, Moment, Position, QueueId, Settlement as Style};

use crate::{
    case::{Case, Setup, Stored},
    model::{Check, Model, Rec},
};

/// Changes the engine's outputs before anybody sees them.
pub(crate) type Tamper = fn(&mut Vec<Output<u64>>);

/// What became of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Became {
    pub(crate) answered: bool,
    pub(crate) dead: bool,
    pub(crate) skipped: bool,
    /// Finished by another member, or moved past from outside.
    pub(crate) gone: bool,
    /// The broker knows that it is finished (one-by-one brokers).
    pub(crate) settled: bool,
}

/// One queue at the broker.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrokerQueue {
    pub(crate) log: Vec<Stored>,
    pub(crate) became: Vec<Became>,
    pub(crate) redeliveries: Vec<u32>,
    pub(crate) committed: u64,
    pub(crate) epoch: Epoch,
    /// What was handed over on this channel, by delivery number (one-by-one brokers).
    pub(crate) handed: BTreeMap<u64, usize>,
    /// The next delivery number.
    pub(crate) tag: u64,
}

/// A request that the broker has not answered.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) queue: QueueId,
    pub(crate) epoch: Epoch,
    pub(crate) position: u64,
    /// The position was moved since.
    pub(crate) void: bool,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: Engine<u64>,
    pub(crate) model: Model,
    pub(crate) setup: Setup,
    pub(crate) now: Moment,
    pub(crate) wake: Option<Moment>,
    pub(crate) brokers: Vec<BrokerQueue>,
    pub(crate) fetches: Vec<(Asked, FetchId, u32, usize)>,
    pub(crate) commits: Vec<Asked>,
    pub(crate) settles: Vec<(Asked, Settlement)>,
    pub(crate) releases: Vec<Asked>,
    pub(crate) leaving: bool,
    pub(crate) epochs: u64,
    /// The message behind each serial number.
    pub(crate) serials: Vec<(usize, usize)>,
    pub(crate) mood: u8,
    pub(crate) record: Record,
    /// Changes outputs before the reference sees them: proof that it can fail.
    pub(crate) tamper: Option<Tamper>,
}

/// What is kept of a run.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Inputs and outputs, if they are wanted.
    pub(crate) script: Option<Vec<String>>,
    /// The kinds of outputs that came.
    pub(crate) seen: BTreeSet<&'static str>,
}

/// Runs a case; a failure comes with its script.
pub(crate) fn run(case: &Case) -> Check {
    if judge(case, None, None, &mut Record::default()).is_ok() {
        return Ok(());
    }
    let mut record = Record { script: Some(Vec::new()), ..Record::default() };
    let failure = judge(case, None, None, &mut record).err();
    let failure = failure.unwrap_or_else(|| "it passes when repeated".to_owned());
    let script = record.script.unwrap_or_default().join("\n");
    Err(format!("{failure}\n\nscript ('>' goes into the engine, '<' comes out):\n{script}\n\n{failure}"))
}

/// Runs a case with an engine that is sabotaged or tampered with, keeping the script if there is one.
pub(crate) fn judge(
    case: &Case,
    sabotage: Option<Sabotage>,
    tamper: Option<Tamper>,
    record: &mut Record,
) -> Check {
    let mut world = World::new(case, sabotage);
    world.record = std::mem::take(record);
    world.tamper = tamper;
    let judged = catch_unwind(AssertUnwindSafe(|| {
        world.begin()?;
        for step in &case.steps {
            world.step(*step)?;
        }
        world.heal()
    }));
    *record = std::mem::take(&mut world.record);
    judged.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("the engine panicked: {}", text.unwrap_or_default()))
    })
}

impl World {
    pub(crate) fn new(case: &Case, sabotage: Option<Sabotage>) -> Self {
        let setup = case.setup();
        let brokers = setup.queues.iter().map(|log| BrokerQueue {
            became: vec![Became::default(); log.len()],
            redeliveries: vec![0; log.len()],
            log: log.clone(),
            ..BrokerQueue::default()
        });
        Self {
            engine: match sabotage {
                Some(sabotage) => Engine::new(setup.config.clone()).with_sabotage(sabotage),
                None => Engine::new(setup.config.clone()),
            },
            model: Model::new(setup.config.clone()),
            now: Moment::from_millis(1_000),
            wake: None,
            brokers: brokers.collect(),
            fetches: Vec::new(),
            commits: Vec::new(),
            settles: Vec::new(),
            releases: Vec::new(),
            leaving: false,
            epochs: 0,
            serials: Vec::new(),
            mood: setup.mood,
            record: Record::default(),
            tamper: None,
            setup,
        }
    }

    pub(crate) fn log(&self) -> bool {
        self.setup.config.capabilities.settlement == Style::Cumulative
    }

    pub(crate) fn queues(&self) -> Vec<QueueId> {
        (0..self.brokers.len() as u32).map(QueueId).collect()
    }

    fn begin(&mut self) -> Check {
        if let Some(script) = &mut self.record.script {
            script.push(format!("{:?}", self.setup));
        }
        if self.log() {
            for queue in self.queues() {
                for index in 0..self.brokers[queue.0 as usize].log.len() {
                    let rec = self.rec(queue, index);
                    self.model.published(queue, rec);
                }
            }
        }
        if let Some(in_row) = self.setup.storm_restored {
            self.input(Input::StormRestored { in_row })?;
        }
        if let (Some(attempts), false) = (self.setup.restored, self.brokers[0].log[0].filtered) {
            let identity = self.incoming(QueueId(0), 0, 0).identity;
            if identity != Identity::None {
                self.input(Input::AttemptsRestored { queue: QueueId(0), identity, attempts })?;
            }
        }
        self.input(Input::Tick)?;
        if self.setup.warm {
            self.input(Input::HealthChanged { healthy: true })?;
            for queue in self.queues() {
                self.acquire(queue, false)?;
            }
        }
        Ok(())
    }

    fn rec(&mut self, queue: QueueId, index: usize) -> Rec {
        let delivery = self.incoming(queue, index, index as u64);
        let lane = self.model.lane(index as u64, delivery.key.map(|key| key.0));
        let mut rec = Rec::new(lane, &delivery);
        rec.filtered = self.brokers[queue.0 as usize].log[index].filtered;
        rec.spent.insert(0);
        rec
    }

    /// A handing-over of a message, with a serial number of its own as payload.
    pub(crate) fn incoming(&mut self, queue: QueueId, index: usize, position: u64) -> Incoming<u64> {
        let log = self.log();
        let broker = &self.brokers[queue.0 as usize];
        let stored = &broker.log[index];
        let unique = Identity::Unique(format!("{}-{index}", queue.0).into_bytes().into());
        let place = Identity::Position { offset: position, stored_ms: 1, log_offset: 1 };
        let identity = if log { place } else { unique };
        let identity = if stored.unique { identity } else { Identity::None };
        self.serials.push((queue.0 as usize, index));
        Incoming {
            position: Position(position),
            bytes: stored.bytes,
            key: stored.key.map(KeyHash),
            identity,
            redeliveries: broker.redeliveries[index],
            undecodable: stored.undecodable,
            payload: self.serials.len() as u64 - 1,
        }
    }

    /// One input through the reference and the engine, and its outputs back.
    pub(crate) fn input(&mut self, input: Input<u64>) -> Check {
        if let Some(script) = &mut self.record.script {
            script.push(format!("{:>10} > {input:?}", format!("{:?}", self.now)));
        }
        self.model.input(self.now, &input);
        let handled = catch_unwind(AssertUnwindSafe(|| self.engine.handle(self.now, input)));
        let mut outputs = Vec::new();
        let waits = loop {
            let output = self.engine.poll();
            let waits = matches!(output, Output::Wait(_));
            outputs.push(output);
            if waits || outputs.len() > 10_000 {
                break waits;
            }
        };
        if let Some(tamper) = self.tamper {
            tamper(&mut outputs);
        }
        for output in outputs {
            if let Some(script) = &mut self.record.script {
                script.push(format!("{:>10} < {output:?}", ""));
            }
            let judged = self.model.output(&output, &self.engine);
            judged.map_err(|what| format!("{what}\n  at {output:?}"))?;
            self.take(output);
        }
        if let Err(panic) = handled {
            std::panic::resume_unwind(panic);
        }
        if !waits {
            return Err("the engine does not come to rest".to_owned());
        }
        self.model.owed(&self.engine, self.wake)
    }

    fn take(&mut self, output: Output<u64>) {
        self.record.seen.extend(crate::sabotage::kind(&output));
        match output {
            Output::Fetch { queue, epoch, fetch, from, count, bytes } => {
                self.fetches.push((
                    Asked { queue, epoch, position: from.0, void: false },
                    fetch,
                    count,
                    bytes,
                ));
            }
            Output::CancelFetch { fetch, .. } if self.log() => self.fetches.retain(|asked| asked.1 != fetch),
            Output::CancelFetch { fetch, .. } => self.fetches.retain(|asked| asked.1 != fetch),
            Output::Settle { queue, epoch, position, settlement, .. } => {
                self.settles.push((Asked { queue, epoch, position: position.0, void: false }, settlement));
            }
            Output::Commit { queue, epoch, position, .. } => {
                self.commits.push(Asked { queue, epoch, position: position.0, void: false });
            }
            Output::ReleaseQueue { queue, epoch } => {
                self.releases.push(Asked { queue, epoch, position: 0, void: false });
            }
            Output::LeaveGroup => self.leaving = true,
            Output::Wait(wake) => self.wake = wake,
            Output::Event(Event::Skipped { queue, position, .. }) => {
                if let Some(index) = self.index(queue, position.0) {
                    self.brokers[queue.0 as usize].became[index].skipped = true;
                }
            }
            Output::JoinGroup
            | Output::Attempt { .. }
            | Output::CancelAttempt { .. }
            | Output::SaveAttempts { .. }
            | Output::SaveStorm { .. }
            | Output::Event(_)
            | Output::Finished => {}
        }
    }

    /// The message at a position of the current ownership.
    fn index(&self, queue: QueueId, position: u64) -> Option<usize> {
        let broker = &self.brokers[queue.0 as usize];
        if self.log() { Some(position as usize) } else { broker.handed.get(&position).copied() }
    }

    pub(crate) fn lease(&self) -> Option<Moment> {
        self.setup.lease.map(|lease| self.now + lease)
    }

    /// A member takes a queue; `foreign`: another had it in between and finished a message.
    pub(crate) fn acquire(&mut self, queue: QueueId, foreign: bool) -> Check {
        if !self.model.member {
            return Ok(());
        }
        self.epochs += 1;
        let (epoch, log, deadline) = (Epoch(self.epochs), self.log(), self.lease());
        let broker = &mut self.brokers[queue.0 as usize];
        for index in std::mem::take(&mut broker.handed).into_values() {
            broker.redeliveries[index] += 1;
        }
        if foreign && log && (broker.committed as usize) < broker.log.len() {
            broker.became[broker.committed as usize].gone = true;
            broker.committed += 1;
        }
        (broker.epoch, broker.tag) = (epoch, 0);
        let cursor = Position(if log { broker.committed } else { 0 });
        let settle_within = self.setup.settle_within;
        self.input(Input::QueueAcquired { queue, epoch, deadline, cursor, settle_within })
    }

    /// Answers a fetch with what there is; false when there is nothing to say.
    pub(crate) fn deliver(&mut self, which: usize, how: u8) -> Result<bool, String> {
        let (asked, fetch, count, bytes) = self.fetches[which].clone();
        let Asked { queue, epoch, position: from, .. } = asked;
        let count = match how % 8 {
            5 => 1,
            6 => count as usize + 2,
            _ => count as usize,
        };
        let log = self.log();
        let stale = self.brokers[queue.0 as usize].epoch != epoch;
        if stale {
            self.fetches.remove(which);
            self.input(Input::FetchFailed { queue, epoch, fetch })?;
            return Ok(true);
        }
        let start = if log && how % 8 == 7 { from.saturating_sub(1) } else { from };
        let (deliveries, next) =
            if log { self.read(queue, start, count, bytes) } else { self.hand_out(queue, count, bytes) };
        let next = Position(next.max(from));
        if deliveries.is_empty() && next.0 == from {
            return Ok(false);
        }
        self.fetches.remove(which);
        self.input(Input::Fetched { queue, epoch, fetch, deliveries, next })?;
        Ok(true)
    }

    fn read(&mut self, queue: QueueId, from: u64, count: usize, bytes: usize) -> (Vec<Incoming<u64>>, u64) {
        let (mut deliveries, mut next, mut size) = (Vec::new(), from, 0);
        for index in from as usize..self.brokers[queue.0 as usize].log.len() {
            let stored = &self.brokers[queue.0 as usize].log[index];
            size += stored.bytes;
            if deliveries.len() == count || (size > bytes && !deliveries.is_empty()) {
                break;
            }
            if !stored.filtered {
                let delivery = self.incoming(queue, index, index as u64);
                deliveries.push(delivery);
            }
            next = index as u64 + 1;
        }
        (deliveries, next)
    }

    fn hand_out(&mut self, queue: QueueId, count: usize, bytes: usize) -> (Vec<Incoming<u64>>, u64) {
        let (mut deliveries, mut size) = (Vec::new(), 0);
        let number = queue.0 as usize;
        for index in 0..self.brokers[number].log.len() {
            let broker = &self.brokers[number];
            if broker.became[index].settled || broker.handed.values().any(|handed| *handed == index) {
                continue;
            }
            size += broker.log[index].bytes;
            if deliveries.len() == count || (size > bytes && !deliveries.is_empty()) {
                break;
            }
            let tag = broker.tag;
            let delivery = self.incoming(queue, index, tag);
            self.brokers[number].handed.insert(tag, index);
            self.brokers[number].tag += 1;
            deliveries.push(delivery);
        }
        (deliveries, self.brokers[number].tag)
    }

    /// The application ends an attempt.
    pub(crate) fn end(&mut self, which: usize, result: AttemptResult) -> Check {
        let att = self.model.running[which].clone();
        let ok = |answer: &HttpAnswer| (200..300).contains(&answer.status) || answer.status == 409;
        let answered = matches!(&result, AttemptResult::Answered(answer) if ok(answer));
        let valid = self.model.own.get(&att.queue).is_some_and(|own| own.epoch == att.epoch);
        if answered
            && (self.log() || valid)
            && let Some(index) = self.index(att.queue, att.position)
        {
            self.brokers[att.queue.0 as usize].became[index].answered = true;
        }
        self.input(Input::AttemptEnded { attempt: att.id, results: vec![result] })
    }

    /// What the application answers, by its mood and a choice.
    pub(crate) fn result(&self, choice: u8, cancelled: bool) -> AttemptResult {
        let plain = |status| AttemptResult::Answered(HttpAnswer { status, ..HttpAnswer::default() });
        let with = |status, seconds: u64, verdict| {
            let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds));
            AttemptResult::Answered(HttpAnswer { status, retry_after, verdict })
        };
        if cancelled && !choice.is_multiple_of(4) {
            return AttemptResult::Failed(TransportFailure::Cancelled);
        }
        if choice < 200 {
            match (self.mood, choice / 40) {
                (0, _) | (_, 0) => return plain(200),
                (1, 1..) => return plain([404, 401, 302, 410][usize::from(choice % 4)]),
                (2, 1..) => return plain([400, 422, 413, 415][usize::from(choice % 4)]),
                (3, 1..) => return plain([500, 502, 409, 418][usize::from(choice % 4)]),
                (4, 1..) => return with(503, 1 + u64::from(choice % 5), None),
                (_, 1..) => return with(500, 2, Some(VerdictHeader::Again)),
            }
        }
        match choice % 14 {
            0 => plain(204),
            1 => plain(500),
            2 => plain(429),
            3 => with(503, 1, None),
            4 => with(429, 9, None),
            5 => plain(400),
            6 => plain(404),
            7 => with(500, 0, Some(VerdictHeader::Again)),
            8 => with(500, 1, Some(VerdictHeader::Again)),
            9 => with(500, 0, Some(VerdictHeader::DeadLetter)),
            10 => with(500, 0, Some(VerdictHeader::Skip)),
            11 => AttemptResult::Failed(TransportFailure::TimedOut),
            12 => AttemptResult::Failed(TransportFailure::Unreachable),
            _ => AttemptResult::Failed(TransportFailure::Broken),
        }
    }
}

impl World {
    /// A message that was just stored becomes part of what the reference knows of the log.
    pub(crate) fn publish_to_model(&mut self, queue: QueueId, index: usize) {
        let rec = self.rec(queue, index);
        self.model.published(queue, rec);
    }
}
