//! What is asked of the broker, and where its deliveries go.

use lockstep_model::{Epoch, Position, QueueId, Settlement};

use crate::{
    Engine, FetchId, Incoming, OrderingMode, Output,
    backoff::doubled,
    lane::{Held, Lane, LaneKey, LaneState},
    limits::{
        FETCH_MOST, FUTILE_FIRST, FUTILE_LONGEST, FUTILE_MOST, FUTILE_WITHIN, REPEAT_FIRST, REPEAT_LONGEST,
    },
    queue::{Asked, Phase},
    sabotage::Sabotage,
    timers::TimerKey,
};

impl<P: Clone> Engine<P> {
    /// A queue's share of the buffer: deliveries and bytes.
    pub(crate) fn share(&self) -> (u32, usize) {
        let queues = self.queues.len().max(1);
        let count = self.config.buffer_count / u32::try_from(queues).unwrap_or(u32::MAX);
        (count.max(1), (self.config.buffer_bytes / queues).max(1))
    }

    /// Asks for deliveries while half of the share is free.
    pub(crate) fn maybe_fetch(&mut self, id: QueueId) {
        let now = self.now;
        let reread = self.config.capabilities.reread;
        let Some(queue) = self.queues.get(&id) else { return };
        let draining = self.drain.is_some() || queue.phase != Phase::Owned;
        if queue.phase == Phase::Released
            || queue.doubtful
            || queue.stopped.is_some()
            || (draining && !self.sabotaged(Sabotage::I8))
        {
            return;
        }
        if let Some(asked) = queue.fetch.asked {
            let overdue = queue.fetch.wanted.first().is_some_and(|wanted| *wanted < asked.from);
            if !(reread && overdue && asked.from >= queue.fetch.next) {
                return;
            }
            // A long poll at the end of the queue would keep a lane waiting that moves again.
        }
        if now < queue.fetch.not_before {
            let at = queue.fetch.not_before;
            self.timers.set(TimerKey::Fetch(id), at);
            return;
        }
        let Some((count, bytes)) = self.room(id) else { return };
        self.cancel_fetch(id);
        self.timers.clear(TimerKey::Fetch(id));
        self.fetches = self.fetches.saturating_add(1);
        let fetch = FetchId(self.fetches);
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let next = queue.fetch.next;
        let from = queue.fetch.wanted.first().map_or(next, |wanted| (*wanted).min(next));
        queue.fetch.asked = Some(Asked { id: fetch, from, count, at: now });
        let epoch = queue.epoch;
        self.emit(Output::Fetch { queue: id, epoch, fetch, from, count, bytes });
    }

    /// How much may be asked for; makes room by dropping what is behind blocked heads.
    fn room(&mut self, id: QueueId) -> Option<(u32, usize)> {
        let (share, share_bytes) = self.share();
        let queue = self.queues.get(&id)?;
        let full = queue.buffered.saturating_mul(2) > share
            || (queue.bytes.saturating_mul(2) > share_bytes && !queue.pending.is_empty());
        if full && self.config.capabilities.reread {
            self.shed(id);
        }
        let queue = self.queues.get(&id)?;
        let free = share.saturating_sub(queue.buffered);
        let bytes = share_bytes.saturating_sub(queue.bytes);
        let starved = queue.pending.is_empty();
        if free == 0 || free.saturating_mul(2) < share {
            return None;
        }
        if bytes.saturating_mul(2) < share_bytes && !starved {
            return None;
        }
        let span = (self.config.span.max(1) as usize).saturating_sub(queue.outstanding());
        let span = if queue.fetch.wanted.is_empty() { span } else { span.max(1) };
        let ahead = self.config.capabilities.lookahead.map_or(usize::MAX, |most| {
            (most.max(1) as usize).saturating_sub(queue.pending.len().saturating_add(queue.accepting))
        });
        let count = free.min(FETCH_MOST).min(u32::try_from(span.min(ahead)).unwrap_or(u32::MAX));
        // Queues that came later shrank the shares: what the others hold too much counts until it is gone, but no queue
        // goes without its one delivery.
        let whole: u32 = self.queues.values().map(|queue| queue.buffered).sum();
        let whole_bytes: usize = self.queues.values().map(|queue| queue.bytes).sum();
        let left = self.config.buffer_count.saturating_sub(whole).max(u32::from(queue.buffered == 0));
        let left = if whole_bytes >= self.config.buffer_bytes && !starved { 0 } else { left };
        let count = count.min(left);
        let count = if self.sabotaged(Sabotage::I5) { share.saturating_mul(2) } else { count };
        (count > 0).then_some((count, bytes.max(1)))
    }

    /// Drops what is behind blocked heads, to be read again when they move.
    fn shed(&mut self, id: QueueId) {
        if self.config.mode != OrderingMode::PerKey {
            return;
        }
        let Some(queue) = self.queues.get_mut(&id) else { return };
        while let Some(key) = queue.fat.pop_first() {
            let Some(lane) = queue.lanes.get_mut(&key) else { continue };
            while lane.waiting.len() > 1 {
                let Some(held) = lane.waiting.pop_back() else { break };
                queue.pending.remove(&held.position);
                queue.bytes = queue.bytes.saturating_sub(held.bytes);
                queue.buffered = queue.buffered.saturating_sub(1);
                lane.unread.insert(held.position);
                queue.fetch.unread.insert(held.position, key);
                if let Some(ledger) = &mut self.ledger {
                    ledger.shed(id, held.position);
                }
            }
        }
    }

    pub(crate) fn cancel_fetch(&mut self, id: QueueId) {
        if let Some(asked) = self.queues.get_mut(&id).and_then(|queue| queue.fetch.asked.take()) {
            self.emit(Output::CancelFetch { queue: id, fetch: asked.id });
        }
    }

    pub(crate) fn fetch_failed(&mut self, id: QueueId, epoch: Epoch, fetch: FetchId) {
        if self.answered(id, epoch, fetch).is_none() {
            return;
        }
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.fetch.failures = queue.fetch.failures.saturating_add(1);
        let ceiling = doubled(REPEAT_FIRST, queue.fetch.failures.saturating_sub(1), REPEAT_LONGEST);
        queue.fetch.not_before = now + self.jitter.half(ceiling);
    }

    /// The fetch that an answer belongs to.
    fn answered(&mut self, id: QueueId, epoch: Epoch, fetch: FetchId) -> Option<Asked> {
        let queue = self.current(id, epoch, "fetched")?;
        if queue.fetch.asked.is_none_or(|asked| asked.id != fetch) {
            self.stale(Some(id), "fetched");
            return None;
        }
        self.dirty.insert(id);
        self.queues.get_mut(&id)?.fetch.asked.take()
    }

    pub(crate) fn fetched(
        &mut self,
        id: QueueId,
        epoch: Epoch,
        fetch: FetchId,
        deliveries: Vec<Incoming<P>>,
        next: Position,
    ) {
        let Some(asked) = self.answered(id, epoch, fetch) else { return };
        let Some(seen) = self.queues.get(&id).map(|queue| queue.fetch.next) else { return };
        if deliveries.len() > asked.count as usize {
            self.stale(Some(id), "surplus");
        }
        let mut at = asked.from;
        let mut end = None;
        // As much as was asked for is taken, also when the share shrank meanwhile.
        let mut room = asked.count;
        for incoming in deliveries {
            let position = incoming.position;
            if position < at {
                self.stale(Some(id), "disorder");
                continue;
            }
            self.pass_by(id, at, position, seen);
            let taken = if position < seen {
                self.read_again(id, incoming, room)
            } else if self.config.capabilities.reread && (room == 0 || self.is_spread(id)) {
                // A log gives it again.
                end = Some(position);
                break;
            } else {
                self.take(id, incoming)
            };
            room = room.saturating_sub(u32::from(taken));
            at = position.next();
        }
        let end = end.unwrap_or_else(|| {
            let end = next.max(at);
            self.pass_by(id, at, end, seen);
            end
        });
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.fetch.next = seen.max(end);
        queue.fetch.failures = 0;
        let progress = at > asked.from || end > asked.from;
        if progress || now.since(asked.at) >= FUTILE_WITHIN {
            queue.fetch.futile = 0;
            return;
        }
        queue.fetch.futile = queue.fetch.futile.saturating_add(1);
        if queue.fetch.futile > FUTILE_MOST {
            let times = queue.fetch.futile.saturating_sub(FUTILE_MOST).saturating_sub(1);
            queue.fetch.not_before = now + doubled(FUTILE_FIRST, times, FUTILE_LONGEST);
        }
    }

    /// Nothing in `from..to` was delivered, so nothing there concerns this group (any more).
    fn pass_by(&mut self, id: QueueId, from: Position, to: Position, seen: Position) {
        if from >= to || self.config.capabilities.settlement != Settlement::Cumulative {
            return;
        }
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.cursor.gap(from.max(seen), to);
        if from < seen && !queue.fetch.unread.is_empty() {
            let gone: Vec<_> =
                queue.fetch.unread.range(from..to.min(seen).max(from)).map(|(p, key)| (*p, *key)).collect();
            for (position, key) in gone {
                self.gone(id, position, key);
            }
        }
    }

    /// An unread position does not exist any more.
    fn gone(&mut self, id: QueueId, position: Position, key: LaneKey) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.cursor.gap(position, position.next());
        self.no_longer_unread(id, position, key);
        self.arm(id, key);
    }

    fn no_longer_unread(&mut self, id: QueueId, position: Position, key: LaneKey) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.fetch.unread.remove(&position);
        queue.fetch.wanted.remove(&position);
        if let Some(lane) = queue.lanes.get_mut(&key) {
            lane.unread.remove(&position);
        }
    }

    fn is_spread(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(|queue| queue.outstanding() >= self.config.span.max(1) as usize)
    }

    /// A position that was seen before: of use only when it was dropped unread and its lane has room. Answers whether it
    /// was taken.
    fn read_again(&mut self, id: QueueId, incoming: Incoming<P>, room: u32) -> bool {
        let now = self.now;
        let position = incoming.position;
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        let Some(key) = queue.fetch.unread.get(&position).copied() else { return false };
        let Some(lane) = queue.lanes.get_mut(&key) else { return false };
        if lane.is_blocked() && !lane.waiting.is_empty() {
            // It is wanted again when the lane moves.
            queue.fetch.wanted.remove(&position);
            return false;
        }
        let first = lane.unread.first().copied();
        if first != Some(position) || room == 0 {
            if first.is_some_and(|first| !queue.fetch.wanted.contains(&first)) {
                // What comes before it in its lane has to wait, so it would be asked for in vain.
                queue.fetch.wanted.remove(&position);
            }
            return false;
        }
        self.no_longer_unread(id, position, key);
        self.push(id, key, Held::new(incoming, now));
        true
    }

    /// A new delivery. Answers whether it was put into its lane.
    fn take(&mut self, id: QueueId, incoming: Incoming<P>) -> bool {
        let now = self.now;
        let key = LaneKey::of(self.config.mode, incoming.key, incoming.position);
        let Some(queue) = self.queues.get_mut(&id) else { return false };
        let lane = queue.lanes.entry(key).or_insert_with(Lane::new);
        if let Some(first) = lane.unread.first().copied() {
            // Order: what was dropped before it comes first.
            lane.unread.insert(incoming.position);
            queue.fetch.unread.insert(incoming.position, key);
            if queue.fetch.wanted.contains(&first) {
                queue.fetch.wanted.insert(incoming.position);
            }
            return false;
        }
        self.push(id, key, Held::new(incoming, now));
        true
    }

    fn push(&mut self, id: QueueId, key: LaneKey, held: Held<P>) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let Some(lane) = queue.lanes.get_mut(&key) else { return };
        if let Some(ledger) = &mut self.ledger {
            ledger.held(id, held.position);
        }
        queue.pending.insert(held.position, key);
        queue.bytes = queue.bytes.saturating_add(held.bytes);
        queue.buffered = queue.buffered.saturating_add(1);
        lane.waiting.push_back(held);
        let idle = lane.state == LaneState::Idle;
        queue.weigh(key);
        if let Some(within) = queue.settle_within
            && !self.timers.is_set(TimerKey::Rewind(id))
        {
            self.timers.set(TimerKey::Rewind(id), now + within / 2);
        }
        if !self.timers.is_set(TimerKey::Age(id)) {
            self.timers.set(TimerKey::Age(id), now + self.config.blocked_age);
        }
        if idle {
            self.arm(id, key);
        }
    }
}
