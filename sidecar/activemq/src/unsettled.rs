//! Which deliveries of a consumer are not settled, how far each has come, and what follows from that: whether one more may be
//! asked for, and what the broker is told of them at the consumer's end.

use std::collections::VecDeque;

use lockstep_model::Position;
use lockstep_openwire::{Destination, MessageId};

use crate::client::{Ack, AckVerdict};

/// What Classic is told when nothing was seen by anybody: it counts none as delivered (`RemoveInfo.LAST_DELIVERED_UNSET`).
pub(crate) const NOTHING_DELIVERED: i64 = -1;

/// The unsettled deliveries of one consumer, as many as the lookahead. They are numbered from 1 on.
///
/// `A` is the answer to what the broker was told, which several may wait for.
#[derive(Debug)]
pub(crate) struct Unsettled<A> {
    /// The number of the next delivery.
    next: u64,
    /// By rising numbers; what is missing below `next` is settled.
    out: VecDeque<Entry<A>>,
}

#[derive(Debug)]
struct Entry<A> {
    number: u64,
    handed: Handed,
    /// Handed to the engine, so that somebody may have seen it.
    taken: bool,
    stage: Stage<A>,
}

/// What an acknowledgement says of a delivery.
#[derive(Debug, Clone)]
pub(crate) struct Handed {
    pub(crate) destination: Destination,
    /// Holds the broker's number of the message, by which it finds the last delivered one.
    pub(crate) id: MessageId,
}

#[derive(Debug)]
enum Stage<A> {
    Out,
    GivenBack,
    Written(A),
}

/// How far the settlement of a delivery has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing<A> {
    /// No delivery of that number has come.
    Unknown,
    /// Nothing was said of it.
    Out,
    /// It goes back at the consumer's end, unseen.
    GivenBack,
    /// The broker was told, and this is or will be its answer.
    Written(A),
    /// The broker has done what it was told.
    Settled,
}

impl<A> Default for Unsettled<A> {
    fn default() -> Self {
        Self { next: 1, out: VecDeque::new() }
    }
}

impl<A: Clone> Unsettled<A> {
    /// A delivery has come; its number.
    pub(crate) fn arrived(&mut self, handed: Handed) -> Position {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.out.push_back(Entry { number, handed, taken: false, stage: Stage::Out });
        Position(number)
    }

    /// It is handed to the engine.
    pub(crate) fn taken(&mut self, position: Position) {
        if let Some(entry) = self.entry_mut(position) {
            entry.taken = true;
        }
    }

    pub(crate) fn standing(&self, position: Position) -> Standing<A> {
        match self.entry(position).map(|entry| &entry.stage) {
            Some(Stage::Out) => Standing::Out,
            Some(Stage::GivenBack) => Standing::GivenBack,
            Some(Stage::Written(answer)) => Standing::Written(answer.clone()),
            None if position.0 == 0 || position.0 >= self.next => Standing::Unknown,
            None => Standing::Settled,
        }
    }

    /// What an acknowledgement of it says.
    pub(crate) fn ack(&self, position: Position, verdict: AckVerdict) -> Option<Ack> {
        let Handed { destination, id, .. } = self.entry(position)?.handed.clone();
        Some(Ack { destination, message: id, verdict })
    }

    /// The broker was told of it.
    pub(crate) fn written(&mut self, position: Position, answer: A) {
        if let Some(entry) = self.entry_mut(position) {
            entry.stage = Stage::Written(answer);
        }
    }

    /// Nobody has begun it, and it goes back at the consumer's end.
    pub(crate) fn given_back(&mut self, position: Position) {
        if let Some(entry) = self.entry_mut(position) {
            entry.stage = Stage::GivenBack;
        }
    }

    /// The broker has done what it was told of it, if it was told anything.
    pub(crate) fn settled(&mut self, position: Position) {
        let written = |index: &usize| {
            self.out.get(*index).is_some_and(|entry| matches!(entry.stage, Stage::Written(_)))
        };
        if let Some(index) = self.index(position).filter(written) {
            self.out.remove(index);
        }
    }

    /// How many the broker was told nothing of. Those that it was told of count no more: it reads what is asked for after them
    /// when it has done with them.
    pub(crate) fn untold(&self) -> usize {
        self.out.iter().filter(|entry| !matches!(entry.stage, Stage::Written(_))).count()
    }

    /// Whether something goes back at the consumer's end only.
    pub(crate) fn has_given_back(&self) -> bool {
        self.out.iter().any(|entry| matches!(entry.stage, Stage::GivenBack))
    }

    /// What the broker is told at the consumer's end: the number of the last delivery that it still has and that somebody may
    /// have seen. Classic counts all up to that one as delivered once more, and none if it does not find it; so one that was
    /// acknowledged would not do.
    pub(crate) fn last_delivered(&self) -> i64 {
        let seen = |entry: &&Entry<A>| entry.taken && matches!(entry.stage, Stage::Out);
        self.out.iter().rev().find(seen).map_or(NOTHING_DELIVERED, |entry| entry.handed.id.broker_sequence)
    }

    fn entry(&self, position: Position) -> Option<&Entry<A>> {
        self.out.get(self.index(position)?)
    }

    fn entry_mut(&mut self, position: Position) -> Option<&mut Entry<A>> {
        let index = self.index(position)?;
        self.out.get_mut(index)
    }

    fn index(&self, position: Position) -> Option<usize> {
        self.out.binary_search_by_key(&position.0, |entry| entry.number).ok()
    }
}

#[cfg(test)]
mod tests {
    use lockstep_openwire::ProducerId;

    use super::*;

    fn handed(sequence: i64) -> Handed {
        let producer = ProducerId { connection: "ID:p".into(), value: 1, session: 1 };
        let id = MessageId { text: None, producer, producer_sequence: sequence, broker_sequence: sequence };
        Handed { destination: Destination::queue("q"), id }
    }

    /// Deliveries of the broker's numbers 101 and up, all taken.
    fn out(count: i64) -> Unsettled<&'static str> {
        let mut unsettled = Unsettled::default();
        for sequence in 1..=count {
            let position = unsettled.arrived(handed(100 + sequence));
            unsettled.taken(position);
        }
        unsettled
    }

    #[test]
    fn each_delivery_has_its_own_standing_from_its_arrival_to_its_end() {
        let mut unsettled = out(3);
        assert_eq!(unsettled.standing(Position(0)), Standing::Unknown);
        assert_eq!(unsettled.standing(Position(4)), Standing::Unknown);
        assert_eq!(unsettled.standing(Position(2)), Standing::Out);
        unsettled.written(Position(2), "soon");
        assert_eq!(unsettled.standing(Position(2)), Standing::Written("soon"));
        unsettled.settled(Position(2));
        assert_eq!(unsettled.standing(Position(2)), Standing::Settled);
        unsettled.settled(Position(3));
        assert_eq!(unsettled.standing(Position(3)), Standing::Out, "the broker was told nothing of it");
        unsettled.given_back(Position(1));
        assert_eq!(unsettled.standing(Position(1)), Standing::GivenBack);
        assert!(unsettled.has_given_back());
        assert_eq!(unsettled.arrived(handed(104)), Position(4));
    }

    #[test]
    fn what_the_broker_was_told_of_makes_room_for_one_more() {
        let mut unsettled = out(3);
        assert_eq!(unsettled.untold(), 3);
        unsettled.written(Position(2), "");
        assert_eq!(unsettled.untold(), 2);
        unsettled.settled(Position(2));
        assert_eq!(unsettled.untold(), 2);
        unsettled.given_back(Position(1));
        assert_eq!(unsettled.untold(), 2, "the broker holds it for us still");
    }

    #[test]
    fn an_acknowledgement_says_what_was_handed_over() {
        let unsettled = out(2);
        let ack = unsettled.ack(Position(2), AckVerdict::Done).unwrap();
        assert_eq!((ack.message, ack.destination), (handed(102).id, Destination::queue("q")));
        assert!(unsettled.ack(Position(3), AckVerdict::Done).is_none());
    }

    #[test]
    fn the_last_delivered_is_the_last_that_the_broker_has_and_somebody_may_have_seen() {
        let mut unsettled = out(3);
        let untaken = unsettled.arrived(handed(104));
        assert_eq!(unsettled.last_delivered(), 103);
        // Classic would not find it, and count none of those before it.
        unsettled.written(Position(3), "");
        assert_eq!(unsettled.last_delivered(), 102);
        unsettled.given_back(Position(2));
        assert_eq!(unsettled.last_delivered(), 101);
        unsettled.written(Position(1), "");
        assert_eq!(unsettled.last_delivered(), NOTHING_DELIVERED);
        unsettled.taken(untaken);
        assert_eq!(unsettled.last_delivered(), 104);
        assert_eq!(Unsettled::<()>::default().last_delivered(), NOTHING_DELIVERED);
    }
}
