use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::{Fields, Table, take::Take};

/// A property of a message (AMQP 0-9-1, basic class), in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// MIME type of the body.
    ContentType,
    /// MIME encoding of the body.
    ContentEncoding,
    /// A field table.
    Headers,
    /// 2 is persistent.
    DeliveryMode,
    /// 0 to 9 by rule.
    Priority,
    /// For the application.
    CorrelationId,
    /// For the application.
    ReplyTo,
    /// Milliseconds until the message may be dropped, as text.
    Expiration,
    /// For the application.
    MessageId,
    /// Seconds since 1970.
    Timestamp,
    /// For the application.
    Type,
    /// The user that published it; brokers refuse another.
    UserId,
    /// For the application.
    AppId,
    /// Not used.
    ClusterId,
}

impl Field {
    const ALL: [Self; 14] = [
        Self::ContentType,
        Self::ContentEncoding,
        Self::Headers,
        Self::DeliveryMode,
        Self::Priority,
        Self::CorrelationId,
        Self::ReplyTo,
        Self::Expiration,
        Self::MessageId,
        Self::Timestamp,
        Self::Type,
        Self::UserId,
        Self::AppId,
        Self::ClusterId,
    ];

    /// Its bit in the word of flags: the first property has the highest.
    const fn flag(self) -> u16 {
        0x8000 >> self as u16
    }

    /// Takes its content off the front, without a length.
    fn take(self, rest: &mut Bytes) -> Option<Bytes> {
        match self {
            Self::Headers => rest.take_long(),
            Self::DeliveryMode | Self::Priority => rest.take_bytes(1),
            Self::Timestamp => rest.take_bytes(8),
            Self::ContentType
            | Self::ContentEncoding
            | Self::CorrelationId
            | Self::ReplyTo
            | Self::Expiration
            | Self::MessageId
            | Self::Type
            | Self::UserId
            | Self::AppId
            | Self::ClusterId => rest.take_short(),
        }
    }
}

/// Flags that no property has, the one that says that more flags follow included.
const UNKNOWN_FLAGS: u16 = 0b11;

/// Properties as they came, in one slice; what is where is checked, what is inside the headers is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawProperties {
    flags: u16,
    list: Bytes,
}

/// Properties that can't be read. The message is held as undecodable; the connection goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadProperties {
    /// What came; empty when it was too long to be kept.
    pub raw: Bytes,
    /// What is wrong with it.
    pub defect: HeaderDefect,
}

/// Why properties can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderDefect {
    /// Longer than we keep.
    #[error("the properties take {size} bytes, more than are kept")]
    TooLong {
        /// Their frame's.
        size: u32,
    },
    /// There was no room for them, nor for the body.
    #[error("there is no room for the {size} bytes of properties")]
    NoRoom {
        /// Their own.
        size: usize,
    },
    /// Flags that no property has.
    #[error("the properties' flags {0:#06x} are unknown")]
    Flags(u16),
    /// A property is cut short, or something follows the last one.
    #[error("the properties do not end where their frame does")]
    Length,
}

impl RawProperties {
    /// Reads the flags and checks that the properties fill the rest.
    ///
    /// # Errors
    /// They do not; the bytes are handed back.
    pub fn parse(raw: Bytes) -> Result<Self, BadProperties> {
        let mut list = raw.clone();
        let Some(flags) = list.take_u16() else {
            return Err(BadProperties { raw, defect: HeaderDefect::Length });
        };
        if flags & UNKNOWN_FLAGS != 0 {
            return Err(BadProperties { raw, defect: HeaderDefect::Flags(flags) });
        }
        let properties = Self { flags, list };
        let mut rest = properties.list.clone();
        let whole = properties.present().all(|field| field.take(&mut rest).is_some());
        if whole && rest.is_empty() {
            Ok(properties)
        } else {
            Err(BadProperties { raw, defect: HeaderDefect::Length })
        }
    }

    fn present(&self) -> impl Iterator<Item = Field> + use<> {
        let flags = self.flags;
        Field::ALL.into_iter().filter(move |field| flags & field.flag() != 0)
    }

    /// The properties that are there, each with its content: the characters of a text, the entries of the headers, a
    /// number in big-endian bytes.
    pub fn iter(&self) -> impl Iterator<Item = (Field, Bytes)> + use<> {
        let mut rest = self.list.clone();
        self.present().map_while(move |field| field.take(&mut rest).map(|content| (field, content)))
    }

    /// The content of one property, as by [`RawProperties::iter`].
    pub fn get(&self, field: Field) -> Option<Bytes> {
        if self.flags & field.flag() == 0 {
            return None;
        }
        self.iter().find(|(found, _)| *found == field).map(|(_, content)| content)
    }

    /// The headers. Walk them with [`Table::check`] before anything nested in them is used.
    pub fn headers(&self) -> Option<Table> {
        self.get(Field::Headers).map(Table::from_raw)
    }

    /// MIME type of the body.
    pub fn content_type(&self) -> Option<Bytes> {
        self.get(Field::ContentType)
    }

    /// The producer's id.
    pub fn message_id(&self) -> Option<Bytes> {
        self.get(Field::MessageId)
    }

    /// 2 is persistent.
    pub fn delivery_mode(&self) -> Option<u8> {
        self.get(Field::DeliveryMode)?.take_u8()
    }

    /// 0 to 9 by rule.
    pub fn priority(&self) -> Option<u8> {
        self.get(Field::Priority)?.take_u8()
    }

    /// Seconds since 1970.
    pub fn timestamp(&self) -> Option<u64> {
        self.get(Field::Timestamp)?.take_u64()
    }
}

/// Properties to publish with.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    fields: [Option<Bytes>; Field::ALL.len()],
    overlong: bool,
}

impl Properties {
    /// None at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Persistent, and nothing else.
    pub fn persistent() -> Self {
        Self::new().with_byte(Field::DeliveryMode, 2)
    }

    /// Those of a message that came.
    pub fn copy_of(raw: &RawProperties) -> Self {
        raw.iter().fold(Self::new(), |properties, (field, content)| properties.with(field, content))
    }

    /// With a text property.
    pub fn with_text(self, field: Field, text: &str) -> Self {
        self.with(field, Bytes::copy_from_slice(text.as_bytes()))
    }

    /// With delivery mode or priority.
    pub fn with_byte(self, field: Field, value: u8) -> Self {
        self.with(field, Bytes::copy_from_slice(&[value]))
    }

    /// With the time of publishing, in seconds since 1970.
    pub fn with_timestamp(self, seconds: u64) -> Self {
        self.with(Field::Timestamp, Bytes::copy_from_slice(&seconds.to_be_bytes()))
    }

    /// With headers, instead of those it has.
    pub fn with_headers(mut self, headers: Fields) -> Self {
        self.overlong |= headers.raw().is_none();
        self.with(Field::Headers, headers.into_table().raw().clone())
    }

    /// With a property whose content is given as [`RawProperties::iter`] gives it.
    pub fn with(mut self, field: Field, content: Bytes) -> Self {
        if let Some(place) = self.fields.get_mut(field as usize) {
            *place = Some(content);
        }
        self
    }

    /// Without a property: a dead letter keeps neither the user id, which brokers compare with the publisher, nor the
    /// expiration.
    pub fn without(mut self, field: Field) -> Self {
        if let Some(place) = self.fields.get_mut(field as usize) {
            *place = None;
        }
        self
    }

    /// As they come in a delivery.
    #[cfg(test)]
    pub(crate) fn to_raw(&self) -> RawProperties {
        let mut out = BytesMut::new();
        self.write(&mut out).unwrap();
        RawProperties::parse(out.freeze()).unwrap()
    }

    /// Appends flags and properties; `None` when one is longer than the protocol can say.
    pub(in crate::amqp) fn write(&self, out: &mut BytesMut) -> Option<()> {
        if self.overlong {
            return None;
        }
        let present = || {
            Field::ALL.into_iter().zip(&self.fields).filter_map(|(f, content)| Some((f, content.as_ref()?)))
        };
        out.put_u16(present().fold(0, |flags, (field, _)| flags | field.flag()));
        for (field, content) in present() {
            match field {
                Field::Headers => out.put_u32(u32::try_from(content.len()).ok()?),
                Field::DeliveryMode | Field::Priority if content.len() == 1 => {}
                Field::Timestamp if content.len() == 8 => {}
                Field::DeliveryMode | Field::Priority | Field::Timestamp => return None,
                Field::ContentType
                | Field::ContentEncoding
                | Field::CorrelationId
                | Field::ReplyTo
                | Field::Expiration
                | Field::MessageId
                | Field::Type
                | Field::UserId
                | Field::AppId
                | Field::ClusterId => out.put_u8(u8::try_from(content.len()).ok()?),
            }
            out.extend_from_slice(content);
        }
        Some(())
    }
}
