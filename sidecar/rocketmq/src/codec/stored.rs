use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, Bytes};
use lockstep_model::{Properties, Text};
use thiserror::Error;

use super::{
    compression::{BodyLimits, DecompressError, decompress},
    message_id::MessageId,
    properties::parse_properties,
    take::Take,
};

/// The smallest stored message: first form, no topic, no body, no properties.
pub const MIN_STORED: usize = 91;

const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;

/// Bits of a stored message's system flag.
pub mod sys_flag {
    /// The body is compressed.
    pub const COMPRESSED: i32 = 0x1;
    /// The born host is an IPv6 address.
    pub const BORN_V6: i32 = 0x10;
    /// The store host is an IPv6 address.
    pub const STORE_V6: i32 = 0x20;
    /// The body holds messages that a consumer must unwrap.
    pub const NEEDS_UNWRAP: i32 = 0x40;
    /// The body is a list of messages.
    pub const INNER_BATCH: i32 = 0x80;
    /// Where the method of compression stands; 0 is zlib too.
    pub const COMPRESSION_METHOD: i32 = 0x700;
    /// LZ4 frames.
    pub const LZ4: i32 = 0x100;
    /// Zstandard.
    pub const ZSTD: i32 = 0x200;
    /// A zlib stream.
    pub const ZLIB: i32 = 0x300;
}

/// An address as stored: the port has 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: i32,
}

/// One stored message. Body and properties are slices of the receive buffer.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The whole stored form.
    pub raw: Bytes,
    /// The queue on its broker.
    pub queue_id: i32,
    /// The producer's own flag.
    pub flag: i32,
    /// The place in the queue.
    pub offset: i64,
    /// The place in the broker's commit log.
    pub log_offset: i64,
    /// See [`sys_flag`].
    pub sys_flag: i32,
    /// When the producer made it, in Unix milliseconds.
    pub born_ms: i64,
    /// Where the producer sat.
    pub born_host: Host,
    /// When the broker stored it, in Unix milliseconds.
    pub stored_ms: i64,
    /// Which broker stored it.
    pub store_host: Host,
    /// The broker's count of deliveries before.
    pub reconsume_times: i32,
    /// Its place as a prepared transaction, 0 for others.
    pub prepared_offset: i64,
    /// The topic it lies in.
    pub topic: Text,
    /// The body as stored, perhaps compressed: see [`Stored::plain_body`].
    pub body: Bytes,
    /// Its properties.
    pub properties: Properties,
}

impl Stored {
    /// The broker's id of the message.
    pub fn id(&self) -> MessageId {
        MessageId { host: self.store_host, log_offset: self.log_offset }
    }

    /// The body as the producer gave it.
    ///
    /// # Errors
    /// It is damaged or larger than the limits.
    pub fn plain_body(&self, limits: &BodyLimits) -> Result<Bytes, DecompressError> {
        if self.sys_flag & sys_flag::COMPRESSED == 0 {
            return Ok(self.body.clone());
        }
        decompress(&self.body, self.sys_flag, limits)
    }

    /// The message with its plain body in place, or as one that can't be decoded.
    ///
    /// # Errors
    /// The body is damaged or larger than the limits.
    pub fn decompressed(mut self, limits: &BodyLimits) -> Result<Self, Box<Bad>> {
        match self.plain_body(limits) {
            Ok(body) => {
                self.body = body;
                Ok(self)
            }
            Err(error) => Err(Box::new(Bad {
                offset: Some(self.offset),
                log_offset: Some(self.log_offset),
                stored_ms: Some(self.stored_ms),
                raw: self.raw,
                reason: BadReason::Body(error),
            })),
        }
    }
}

/// A stored message that can't be decoded. Its neighbours can.
#[derive(Debug, Clone)]
pub struct Bad {
    /// The whole stored form.
    pub raw: Bytes,
    /// The place in the queue, if it could be read.
    pub offset: Option<i64>,
    /// The place in the broker's commit log, if it could be read.
    pub log_offset: Option<i64>,
    /// When the broker stored it, in Unix milliseconds, if it could be read.
    pub stored_ms: Option<i64>,
    /// What is wrong.
    pub reason: BadReason,
}

/// Why a stored message can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadReason {
    /// A form that is not known.
    #[error("stored message has unknown magic {0:#010x}")]
    Magic(u32),
    /// A part reaches beyond the message's end, or its length is negative.
    #[error("stored message ends inside its {0}")]
    Short(&'static str),
    /// Something is left behind the last part.
    #[error("stored message has {0} bytes too many")]
    Surplus(usize),
    /// The body is not what the broker stored.
    #[error("body has checksum {found:#010x} instead of {stored:#010x}")]
    Checksum {
        /// As stored.
        stored: u32,
        /// As computed.
        found: u32,
    },
    /// The topic is not UTF-8.
    #[error("topic of the stored message is not UTF-8")]
    Topic,
    /// A message of a batch queue (`queue.type=BatchCQ`), which is not supported.
    #[error("message is an inner batch of a BatchCQ topic, which is not supported")]
    InnerBatch,
    /// The body can't be decompressed.
    #[error(transparent)]
    Body(#[from] DecompressError),
}

/// One message of a pull's body.
#[derive(Debug, Clone)]
pub enum Entry {
    /// As it should be.
    Stored(Box<Stored>),
    /// Isolated by its size.
    Bad(Box<Bad>),
}

/// The rest of a pull's body can't be parted into messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "stored message at byte {at} claims {size} bytes, {left} are there; the batch stops behind offset {last_offset:?}"
)]
pub struct BatchError {
    /// Where in the body.
    pub at: usize,
    /// What the message says its size is.
    pub size: i32,
    /// Bytes from there to the end.
    pub left: usize,
    /// The last offset that was read before.
    pub last_offset: Option<i64>,
}

/// The messages of a pull's body, decoded one by one. Ends after an error.
#[derive(Debug, Clone)]
pub struct StoredMessages {
    rest: Bytes,
    at: usize,
    last_offset: Option<i64>,
}

impl StoredMessages {
    /// The messages in `body`.
    pub fn new(body: Bytes) -> Self {
        Self { rest: body, at: 0, last_offset: None }
    }
}

impl Iterator for StoredMessages {
    type Item = Result<Entry, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let size = self.rest.clone().take_i32();
        let length = size.and_then(|size| usize::try_from(size).ok());
        let whole =
            length.filter(|length| *length >= MIN_STORED).and_then(|length| self.rest.take_bytes(length));
        let Some(raw) = whole else {
            let left = std::mem::take(&mut self.rest).len();
            let size = size.unwrap_or_default();
            return Some(Err(BatchError { at: self.at, size, left, last_offset: self.last_offset }));
        };
        self.at += raw.len();
        let entry = decode(raw);
        self.last_offset = match &entry {
            Entry::Stored(stored) => Some(stored.offset),
            Entry::Bad(bad) => bad.offset.or(self.last_offset),
        };
        Some(Ok(entry))
    }
}

/// What could be read before something was found wrong.
#[derive(Default)]
struct Known {
    offset: Option<i64>,
    log_offset: Option<i64>,
    stored_ms: Option<i64>,
}

fn decode(raw: Bytes) -> Entry {
    let mut known = Known::default();
    match parse(&raw, &mut known) {
        Ok(stored) => Entry::Stored(stored),
        Err(reason) => Entry::Bad(Box::new(Bad {
            raw,
            offset: known.offset,
            log_offset: known.log_offset,
            stored_ms: known.stored_ms,
            reason,
        })),
    }
}

fn parse(raw: &Bytes, known: &mut Known) -> Result<Box<Stored>, BadReason> {
    let short = |part| move || BadReason::Short(part);
    let mut rest = raw.slice(4..);
    let magic = rest.take_u32().ok_or_else(short("magic"))?;
    if !matches!(magic, MAGIC_V1 | MAGIC_V2) {
        return Err(BadReason::Magic(magic));
    }
    let checksum = rest.take_u32().ok_or_else(short("checksum"))?;
    let queue_id = rest.take_i32().ok_or_else(short("queue id"))?;
    let flag = rest.take_i32().ok_or_else(short("flag"))?;
    let offset = rest.take_i64().ok_or_else(short("offset"))?;
    known.offset = Some(offset);
    let log_offset = rest.take_i64().ok_or_else(short("log offset"))?;
    known.log_offset = Some(log_offset);
    let sys_flag = rest.take_i32().ok_or_else(short("system flag"))?;
    let born_ms = rest.take_i64().ok_or_else(short("born time"))?;
    let born_host = host(&mut rest, sys_flag & sys_flag::BORN_V6 != 0).ok_or_else(short("born host"))?;
    let stored_ms = rest.take_i64().ok_or_else(short("store time"))?;
    known.stored_ms = Some(stored_ms);
    let store_host = host(&mut rest, sys_flag & sys_flag::STORE_V6 != 0).ok_or_else(short("store host"))?;
    let reconsume_times = rest.take_i32().ok_or_else(short("reconsume times"))?;
    let prepared_offset = rest.take_i64().ok_or_else(short("prepared offset"))?;
    let body = rest.take_i32().and_then(|length| block(&mut rest, length)).ok_or_else(short("body"))?;
    let topic_length =
        if magic == MAGIC_V1 { rest.take_u8().map(i32::from) } else { rest.take_i16().map(i32::from) };
    let topic = topic_length.and_then(|length| block(&mut rest, length)).ok_or_else(short("topic"))?;
    let properties = rest.take_i16().and_then(|length| block(&mut rest, length.into()));
    let properties = parse_properties(properties.ok_or_else(short("properties"))?);
    if rest.has_remaining() {
        return Err(BadReason::Surplus(rest.len()));
    }
    check_body(&body, checksum, sys_flag)?;
    let topic = Text::from_utf8(topic).map_err(|_| BadReason::Topic)?;
    Ok(Box::new(Stored {
        raw: raw.clone(),
        queue_id,
        flag,
        offset,
        log_offset,
        sys_flag,
        born_ms,
        born_host,
        stored_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        topic,
        body,
        properties,
    }))
}

fn check_body(body: &Bytes, stored: u32, flags: i32) -> Result<(), BadReason> {
    // Brokers keep the checksum's lower 31 bits.
    let found = crc32fast::hash(body) & 0x7FFF_FFFF;
    if found != stored {
        return Err(BadReason::Checksum { stored, found });
    }
    if flags & (sys_flag::INNER_BATCH | sys_flag::NEEDS_UNWRAP) != 0 {
        return Err(BadReason::InnerBatch);
    }
    Ok(())
}

fn block(rest: &mut Bytes, length: i32) -> Option<Bytes> {
    rest.take_bytes(usize::try_from(length).ok()?)
}

fn host(rest: &mut Bytes, v6: bool) -> Option<Host> {
    let ip = if v6 {
        IpAddr::V6(Ipv6Addr::from_bits(rest.try_get_u128().ok()?))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(rest.take_u32()?))
    };
    Some(Host { ip, port: rest.take_i32()? })
}
