use bytes::{BufMut, Bytes, BytesMut};

use crate::amqp::{
    AmqpError, BadProperties, BodyState, Budget, HeaderDefect, Malformed, Properties, RawProperties,
    Reservation,
    budget::Place,
    codec::{BASIC, ContentHead, Kind, frame},
};

/// Messages below this size are counted by their channel until they are settled; the bodies of larger ones give their
/// bytes back when they are dropped.
const LARGE: usize = 64 * 1024;

/// Properties that are kept of a message that there is no room for.
const STUB_PROPERTIES: usize = 4 * 1024;

/// The content of a message while it comes.
#[derive(Debug)]
pub(super) struct Incoming {
    properties: Result<RawProperties, BadProperties>,
    size: u64,
    /// Bytes of the body that are still to come.
    left: u64,
    /// What the message takes of the budget when it is kept.
    cost: u64,
    place: Place,
    keep: Keep,
}

#[derive(Debug)]
enum Keep {
    /// Its body comes in pieces, or has not begun.
    Pieces(Vec<u8>),
    /// All of it.
    Whole(Bytes),
    /// Read and dropped.
    Nothing,
}

/// A message that is complete.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) properties: Result<RawProperties, BadProperties>,
    pub(super) body: BodyState,
    /// Bytes within the budget's limit that are to be given back when it is settled.
    pub(super) counted: usize,
}

impl Incoming {
    /// From a header frame, or the start of one of `long` bytes. `wanted` says whether anybody will take the message; it
    /// takes what is `reserved` when there is no other room for it.
    pub(super) fn new(
        payload: Bytes,
        long: Option<u32>,
        wanted: bool,
        reserved: &mut Option<Reservation>,
        budget: &Budget,
    ) -> Result<Self, Malformed> {
        let ContentHead { size, properties } = ContentHead::parse(payload)?;
        let length = properties.len();
        let cost = size.saturating_add(length as u64);
        let place = wanted.then(|| {
            let spend = || reserved.take_if(|room| room.is_for(cost)).map(|room| room.spend(cost));
            budget.take(cost).or_else(spend)
        });
        let place = place.flatten();
        let properties = match long {
            Some(size) => Err(BadProperties { raw: Bytes::new(), defect: HeaderDefect::TooLong { size } }),
            None if place.is_none() && length > STUB_PROPERTIES => {
                Err(BadProperties { raw: Bytes::new(), defect: HeaderDefect::NoRoom { size: length } })
            }
            None => RawProperties::parse(properties),
        };
        let keep = if place.is_some() { Keep::Pieces(Vec::new()) } else { Keep::Nothing };
        Ok(Self { properties, size, left: size, cost, place: place.unwrap_or(Place::Within), keep })
    }

    /// Takes a body frame.
    pub(super) fn add(&mut self, payload: Bytes) -> Result<(), Malformed> {
        let length = payload.len() as u64;
        self.left = self.left.checked_sub(length).ok_or(Malformed::BodyLength)?;
        if let Keep::Pieces(pieces) = &mut self.keep {
            if length == self.size {
                self.keep = Keep::Whole(payload);
            } else {
                if pieces.is_empty() {
                    // Admitted by the budget; one allocation, however many frames.
                    pieces.reserve_exact(usize::try_from(self.size).unwrap_or_default());
                }
                pieces.extend_from_slice(&payload);
            }
        }
        Ok(())
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Gives back what it took, when nobody will have it.
    pub(super) fn abandon(self, budget: &Budget) {
        match self.keep {
            Keep::Pieces(_) | Keep::Whole(_) => budget.give(self.taken(), self.place),
            Keep::Nothing => {}
        }
    }

    fn taken(&self) -> usize {
        // The budget admitted it as a usize.
        usize::try_from(self.cost).unwrap_or_default()
    }

    pub(super) fn complete(self, budget: &Budget) -> Content {
        let taken = self.taken();
        let body = match self.keep {
            Keep::Nothing => {
                let body = BodyState::Stub { size: self.cost };
                return Content { properties: self.properties, body, counted: 0 };
            }
            Keep::Pieces(pieces) => Bytes::from(pieces),
            Keep::Whole(body) => body,
        };
        let lent = match self.place {
            Place::Within if body.len() < LARGE => 0,
            Place::Within => body.len(),
            Place::Beyond => taken,
        };
        let body = if lent == 0 { body } else { budget.lend(body, lent, self.place) };
        Content { properties: self.properties, body: BodyState::Whole(body), counted: taken - lent }
    }
}

/// Appends a header frame.
pub(super) fn write_header(
    channel: u16,
    properties: &Properties,
    size: u64,
    most: usize,
    out: &mut BytesMut,
) -> Result<(), AmqpError> {
    let start = out.len();
    let mut whole = None;
    frame(out, Kind::Header, channel, |out| {
        out.put_u16(BASIC);
        // Not used.
        out.put_u16(0);
        out.put_u64(size);
        whole = properties.write(out);
    });
    // Seven bytes before the payload and one behind it.
    if whole.is_none() || out.len() - start - 8 > most {
        return Err(AmqpError::TooLong { what: "a property or all properties together" });
    }
    Ok(())
}
