//! Messages as they are stored and handed over. Content and properties stay as they came until somebody asks for them.

use bytes::Bytes;

use crate::{
    BrokerId, Command, ConsumerId, DecodeError, Destination, EncodeError, Map, MessageId, ProducerId, Text,
    TransactionId,
    command::{Header, read_nested, write_nested},
    field::{Field, Object, structure},
    read_map,
    reader::Reader,
    writer::Writer,
};

/// What a message's content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// There is none: advisories are so.
    #[default]
    Plain,
    /// Bytes.
    Bytes,
    /// Names and values.
    Map,
    /// A serialized object of Java.
    Object,
    /// Values.
    Stream,
    /// Text.
    Text,
    /// It lies somewhere else.
    Blob,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Plain => 23,
            Self::Bytes => 24,
            Self::Map => 25,
            Self::Object => 26,
            Self::Stream => 27,
            Self::Text => 28,
            Self::Blob => 29,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Self> {
        Some(match number {
            23 => Self::Plain,
            24 => Self::Bytes,
            25 => Self::Map,
            26 => Self::Object,
            27 => Self::Stream,
            28 => Self::Text,
            29 => Self::Blob,
            _ => return None,
        })
    }
}

structure! {
    /// Where the content of a message lies.
    Blob {
        /// Its address.
        url: Option<Text>,
        /// Its media type.
        media_type: Option<Text>,
        /// Whether the broker deletes it with the message.
        deleted_by_broker: bool,
    }
}

structure! {
    /// What all kinds of messages have, in the order on the wire.
    Fields {
        /// Who sent it.
        producer: Option<ProducerId>,
        /// Where it is.
        destination: Option<Destination>,
        /// The transaction that it was sent in.
        transaction: Option<TransactionId>,
        /// Where it was sent to, when the broker has moved or copied it.
        original_destination: Option<Destination>,
        /// Its id.
        id: MessageId,
        /// The transaction before it was moved.
        original_transaction: Option<TransactionId>,
        /// `JMSXGroupID`.
        group: Option<Text>,
        /// `JMSXGroupSeq`.
        group_sequence: i32,
        /// `JMSCorrelationID`.
        correlation: Option<Text>,
        /// Whether it outlives the broker (`JMSDeliveryMode`).
        persistent: bool,
        /// `JMSExpiration`: Unix milliseconds; 0 = never.
        expiration: i64,
        /// `JMSPriority`: 0 to 9.
        priority: u8,
        /// `JMSReplyTo`.
        reply_to: Option<Destination>,
        /// `JMSTimestamp`: Unix milliseconds; 0 = not told.
        timestamp: i64,
        /// `JMSType`.
        subject: Option<Text>,
        /// Of the kind's form; see [`crate::body()`].
        content: Option<Bytes>,
        /// Names and values; see [`Message::properties`].
        raw_properties: Option<Bytes>,
        /// What an advisory tells of: a consumer that is there, or one that has gone.
        about: About,
        /// The one consumer that it is for.
        target: Option<ConsumerId>,
        /// Whether the content is compressed.
        compressed: bool,
        /// How often it was handed over before, as stored. [`crate::MessageDispatch`] knows better.
        redeliveries: i32,
        /// The brokers that it went through.
        path: Vec<BrokerId>,
        /// When the broker got it, in Unix milliseconds.
        arrival: i64,
        /// `JMSXUserID`.
        user: Option<Text>,
        /// Whether a bridge brought it.
        bridged: bool,
        /// Whether it may be dropped.
        droppable: bool,
        /// The brokers that it is for.
        cluster: Vec<BrokerId>,
        /// When the broker stored it, in Unix milliseconds.
        stored: i64,
        /// When the broker handed it over, in Unix milliseconds.
        sent: i64,
        /// Whether it is the first of its group for this consumer (`JMSXGroupFirstForConsumer`).
        first_of_group: bool,
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// What its content is.
    pub kind: Kind,
    /// What all kinds have.
    pub fields: Fields,
    /// Where the content lies, for [`Kind::Blob`].
    pub blob: Option<Blob>,
}

impl Message {
    /// Its properties.
    ///
    /// # Errors
    /// They are no map, or more or deeper than is read.
    pub fn properties(&self) -> Result<Map, DecodeError> {
        self.fields.raw_properties.clone().map_or(Ok(Map::new()), read_map)
    }

    pub(crate) const fn number(&self) -> u8 {
        self.kind.number()
    }

    pub(crate) fn read(kind: Kind, from: &mut Reader) -> Result<Self, DecodeError> {
        let fields = Fields::read(from)?;
        let blob = matches!(kind, Kind::Blob).then(|| Blob::read(from)).transpose()?;
        Ok(Self { kind, fields, blob })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.fields.write(to)?;
        match (self.kind, &self.blob) {
            (Kind::Blob, Some(blob)) => blob.write(to),
            (Kind::Blob, None) => Blob::default().write(to),
            (Kind::Plain | Kind::Bytes | Kind::Map | Kind::Object | Kind::Stream | Kind::Text, _) => Ok(()),
        }
    }
}

/// A message within a dispatch: its own number and whether an answer is wanted are its producer's.
impl Object for Message {
    fn kind(&self) -> u8 {
        self.number()
    }

    fn read_as(kind: u8, from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        let known = Kind::of(kind).ok_or(DecodeError::Type { what, kind })?;
        Header::read(from)?;
        Self::read(known, from)
    }

    fn write_body(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        Header::default().write(to);
        self.write(to)
    }
}

/// A command within a message, as advisories have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About(pub Option<Box<Command>>);

impl Field for About {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        if !from.bool(what)? {
            return Ok(Self(None));
        }
        let kind = from.u8(what)?;
        Ok(Self(Some(Box::new(read_nested(kind, from, what)?))))
    }

    fn write(&self, to: &mut Writer<'_>, _: &'static str) -> Result<(), EncodeError> {
        to.bool(self.0.is_some());
        self.0.as_ref().map_or(Ok(()), |command| write_nested(command, to))
    }
}

/// What the first bytes of a dispatch say of a message that is too long to be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchStart {
    /// Whom it is for.
    pub consumer: ConsumerId,
    /// The queue.
    pub destination: Destination,
    /// The message's id.
    pub id: MessageId,
}

impl DispatchStart {
    /// Reads the start of a frame without its size.
    ///
    /// # Errors
    /// It is no dispatch of a message, or its start is too short.
    pub fn read(start: Bytes) -> Result<Self, DecodeError> {
        const DISPATCH: u8 = 21;
        let what = "MessageDispatch";
        let mut from = Reader::new(start);
        let kind = from.u8(what)?;
        if kind != DISPATCH {
            return Err(DecodeError::Type { what, kind });
        }
        Header::read(&mut from)?;
        let consumer = Field::read(&mut from, "MessageDispatch.consumer")?;
        let destination = Option::read(&mut from, "MessageDispatch.destination")?;
        if !from.bool("MessageDispatch.message")? {
            return Err(DecodeError::Missing("MessageDispatch.message"));
        }
        from.u8("Message")?;
        Header::read(&mut from)?;
        let _: Option<ProducerId> = Field::read(&mut from, "Fields.producer")?;
        let own: Option<Destination> = Field::read(&mut from, "Fields.destination")?;
        let _: Option<TransactionId> = Field::read(&mut from, "Fields.transaction")?;
        let _: Option<Destination> = Field::read(&mut from, "Fields.original_destination")?;
        let id = Field::read(&mut from, "Fields.id")?;
        let destination = destination.or(own).ok_or(DecodeError::Missing("MessageDispatch.destination"))?;
        Ok(Self { consumer, destination, id })
    }
}
