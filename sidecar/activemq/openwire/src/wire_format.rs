//! What both sides say first: how they speak.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::{
    DecodeError, EncodeError, Map, Text, Value, read_map, reader::Reader, write_map, writer::Writer,
};

/// The oldest version that is spoken, of Classic 5.9 of 2013.
pub const VERSION_LEAST: i32 = 10;
/// The newest, of Classic since 5.14 and of Artemis.
pub const VERSION_MOST: i32 = 12;

const MAGIC: &[u8; 8] = b"ActiveMQ";

/// How a peer wants to speak. The lower version holds, and the shorter time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WireFormatInfo {
    /// Of OpenWire.
    pub version: i32,
    /// The rest, by name.
    pub properties: Map,
}

impl WireFormatInfo {
    /// What this codec speaks: loose encoding without cache and stacks, which holds whatever the peer wants. `inactivity` is
    /// after how long a silence the peer may be taken for dead, `frame_most` the longest frame that is taken, in bytes.
    pub fn ours(inactivity: Duration, frame_most: u64) -> Self {
        let millis = i64::try_from(inactivity.as_millis()).unwrap_or(i64::MAX);
        let most = i64::try_from(frame_most).unwrap_or(i64::MAX);
        let properties = [
            ("TightEncodingEnabled", Value::Bool(false)),
            ("CacheEnabled", Value::Bool(false)),
            ("CacheSize", Value::Int(0)),
            ("StackTraceEnabled", Value::Bool(false)),
            ("SizePrefixDisabled", Value::Bool(false)),
            ("TcpNoDelayEnabled", Value::Bool(true)),
            ("MaxInactivityDuration", Value::Long(millis)),
            // ActiveMQ spells it so.
            ("MaxInactivityDurationInitalDelay", Value::Long(10_000)),
            ("MaxFrameSize", Value::Long(most)),
        ];
        let properties = properties.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Self { version: VERSION_MOST, properties }
    }

    /// After how long a silence it takes a peer for dead; `None` = never.
    pub fn inactivity(&self) -> Option<Duration> {
        let millis = self.long("MaxInactivityDuration")?;
        Some(Duration::from_millis(u64::try_from(millis).ok()?)).filter(|after| !after.is_zero())
    }

    /// The longest frame that it takes, in bytes, where it says so.
    pub fn frame_most(&self) -> Option<u64> {
        u64::try_from(self.long("MaxFrameSize")?).ok()
    }

    /// The product's version, where it says so.
    pub fn provider_version(&self) -> Option<&Text> {
        if let Value::Text(version) = self.get("ProviderVersion")? { Some(version) } else { None }
    }

    fn long(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        if let Value::Int(value) = value {
            return Some((*value).into());
        }
        if let Value::Long(value) = value { Some(*value) } else { None }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let same = |(known, _): &&(Text, Value)| known.bytes() == name.as_bytes();
        self.properties.iter().find(same).map(|(_, value)| value)
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, DecodeError> {
        if from.take(MAGIC.len(), "the magic")? != Bytes::from_static(MAGIC) {
            return Err(DecodeError::Magic);
        }
        let version = from.i32("WireFormatInfo.version")?;
        let what = "WireFormatInfo.properties";
        let properties = if from.bool(what)? { read_map(from.long(what)?)? } else { Map::new() };
        Ok(Self { version, properties })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        to.raw(MAGIC);
        to.i32(self.version);
        to.bool(true);
        let mut properties = BytesMut::new();
        write_map(&mut properties, &self.properties)?;
        to.long(&properties, "WireFormatInfo.properties")
    }
}
