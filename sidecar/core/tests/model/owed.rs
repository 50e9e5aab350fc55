//! What the engine owes once it waits: nothing that could be done is left undone.

use std::time::Duration;

use lockstep_core::{Engine, OrderingMode, UndecodablePolicy, limits};
use lockstep_model::{Moment, Position, QueueId};

use crate::{
    allowed::ensure,
    model::{Check, Fate, Lane, Model, Own, Rec, Settling},
};

impl Model {
    /// Judges the rest after the engine's last output; `wake` is when it wants to be called next.
    pub(crate) fn owed(&self, engine: &Engine<u64>, wake: Option<Moment>) -> Check {
        if self.finished {
            return Ok(());
        }
        if let Some(drain) = self.drain {
            ensure!(self.now < drain, "I8: the drain's deadline is over");
            ensure!(wake.is_some_and(|wake| wake <= drain), "I8: it sleeps beyond the drain's deadline");
        }
        for (queue, own) in &self.own {
            self.cancels_owed(*queue, own, wake)?;
            if own.released {
                continue;
            }
            self.releases_owed(*queue, own, engine)?;
            if own.doubtful || self.near_end(own) {
                continue;
            }
            self.settlements_owed(*queue, own)?;
            self.attempts_owed(*queue, own, engine)?;
            self.fetches_owed(*queue, own, engine)?;
        }
        Ok(())
    }

    /// The broker's acknowledgement timeout is half over: the queue may be given back to be taken again.
    fn rewinds(&self, own: &Own) -> bool {
        own.settle_within.is_some_and(|within| self.now >= own.since + within / 2)
    }

    fn near_end(&self, own: &Own) -> bool {
        own.deadline.is_some_and(|deadline| self.now + limits::LEASE_RESERVE * 2 >= deadline)
    }

    /// I9: what still runs when the lease ends unrenewed is cancelled before.
    fn cancels_owed(&self, queue: QueueId, own: &Own, wake: Option<Moment>) -> Check {
        let mut runs = self.running.iter().filter(|att| att.queue == queue && att.epoch == own.epoch);
        let uncancelled = runs.any(|att| !att.orphan && !att.cancelled);
        let (true, Some(deadline)) = (uncancelled, own.deadline) else { return Ok(()) };
        ensure!(wake.is_some_and(|wake| wake < deadline), "I9: an attempt outlives its lease");
        Ok(())
    }

    fn releases_owed(&self, queue: QueueId, own: &Own, engine: &Engine<u64>) -> Check {
        if let Some(deadline) = own.revoke_by {
            ensure!(self.now < deadline, "{queue:?} is kept beyond its revocation");
        }
        let asked = own.revoking || self.drain.is_some() || self.paused() || self.ill_too_long();
        // An orphan counts: its message must not run at the next owner as well.
        let runs = self.running.iter().any(|att| att.queue == queue);
        let busy =
            own.recs.values().any(|rec| matches!(rec.settling, Settling::Asked(_) | Settling::Failed(..)))
                || own.commit.is_some()
                || own.old_commit.is_some()
                || !own.old_settles.is_empty()
                || own.commit_failed.is_some_and(|again| self.now <= again)
                || (self.log() && own.confirmed < Self::prefix(own));
        let hole = own.recs.iter().any(|(position, rec)| {
            rec.started == 0
                && rec.fate == Fate::Open
                && own.highest_started > Some(*position)
                && engine.payload(queue, Position(*position)).is_some()
        });
        ensure!(
            !asked || runs || busy || hole || own.doubtful || self.near_end(own),
            "{queue:?} is idle and not given back"
        );
        Ok(())
    }

    /// Cursor and settlements follow what is finished.
    fn settlements_owed(&self, queue: QueueId, own: &Own) -> Check {
        if self.log() {
            let prefix = Self::prefix(own);
            let passed = own.recs.range(own.confirmed..prefix).filter(|(_, rec)| !rec.filtered);
            // The first is what moved the prefix on.
            let finished = passed.map(|(_, rec)| rec.done_at).next();
            let gap = limits::COMMIT_GAP.max(limits::COMMIT_AGE);
            let late = finished.is_some_and(|since| self.now > since.max(own.commit_ended) + gap);
            let excused = own.commit.is_some()
                || own.old_commit.is_some()
                || own.commit_failed.is_some_and(|again| self.now <= again + gap);
            ensure!(!late || excused, "{queue:?}: {prefix} is not committed");
            return Ok(());
        }
        for (position, rec) in &own.recs {
            let done = matches!(rec.fate, Fate::Done | Fate::Skipped);
            let owed = match rec.settling {
                Settling::No => done,
                Settling::Failed(_, lockstep_core::Settlement::Release) => false,
                Settling::Failed(again, _) => self.now > again,
                Settling::Asked(_) | Settling::Confirmed => false,
            };
            ensure!(!owed, "{queue:?}: {position} is {:?} and not settled", rec.fate);
        }
        Ok(())
    }

    /// Whether nothing but the lane itself could keep an attempt from starting.
    fn open(&self, own: &Own) -> bool {
        let quiet = self.config.quiet_until.is_some_and(|until| self.now < until);
        let full = self.running.len() as u32 >= self.limit.0;
        let told = self.breaker_told || self.storm_told;
        let shut = self.winding_down(own) || own.stopped || !self.healthy || quiet || full || told;
        !shut
            && self.now >= self.pause
            && self.misconfigured.len() < limits::BREAKER_MESSAGES
            && self.row == 0
    }

    /// I10 and liveness: a lane's head that may be attempted is.
    fn attempts_owed(&self, queue: QueueId, own: &Own, engine: &Engine<u64>) -> Check {
        if !self.open(own) || self.rewinds(own) {
            return Ok(());
        }
        let ahead = self.unconfirmed(own);
        let runs = self.running.iter().filter(|att| att.queue == queue && !att.orphan).count();
        let most = if self.config.mode == OrderingMode::PerQueue {
            limits::UNCONFIRMED_MOST as usize
        } else {
            self.config.span as usize
        };
        if self.log() && ahead + runs >= most {
            return Ok(());
        }
        let mut lanes: Vec<Lane> = Vec::new();
        for (position, rec) in own.recs.iter().filter(|(_, rec)| rec.fate == Fate::Open && !rec.filtered) {
            if lanes.contains(&rec.lane) {
                continue;
            }
            lanes.push(rec.lane);
            let held = engine.payload(queue, Position(*position)).is_some();
            let idle = !self.running.iter().any(|att| att.queue == queue && att.lane == rec.lane);
            let settling = !matches!(rec.settling, Settling::No);
            if held && idle && !settling && !rec.undecodable {
                ensure!(!self.due(rec), "I10: {queue:?}: {position} could be attempted");
            }
        }
        Ok(())
    }

    /// Whether a head has waited as long as it may.
    fn due(&self, rec: &Rec) -> bool {
        let from = rec.not_before.max(rec.ended_at).max(self.ill_since);
        rec.started == 0 || self.now > from + self.longest_wait + Duration::from_secs(1)
    }

    fn fetches_owed(&self, queue: QueueId, own: &Own, engine: &Engine<u64>) -> Check {
        let held = own.recs.keys().any(|position| engine.payload(queue, Position(*position)).is_some());
        let unsettled =
            own.recs.values().any(|rec| rec.fate != Fate::Open && rec.settling != Settling::Confirmed);
        let room = !held && (self.log() || !unsettled);
        let blocked = self.config.undecodable == UndecodablePolicy::Block
            && own
                .recs
                .values()
                .any(|rec| rec.undecodable && rec.fate == Fate::Open && !rec.serials.is_empty());
        let ahead = self.log() && own.recs.range(own.confirmed..).any(|(_, rec)| rec.fate != Fate::Open);
        let shut =
            self.winding_down(own) || own.stopped || !self.healthy || blocked || ahead || self.rewinds(own);
        let waited = self.now > own.fetch_ended.max(self.ill_since).max(self.pause) + limits::REPEAT_LONGEST;
        ensure!(shut || !room || !waited || own.fetch.is_some(), "{queue:?} is not fetched from");
        Ok(())
    }
}
