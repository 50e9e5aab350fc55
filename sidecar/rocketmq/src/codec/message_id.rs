use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use thiserror::Error;

use super::Host;

/// Java's `String.hashCode`, by which brokers compare tags.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The id that a broker gives a message: its store address and its place in the commit log, as 32 (IPv4) or 56 (IPv6)
/// upper-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// The broker that stored it.
    pub host: Host,
    /// Where in its commit log.
    pub log_offset: i64,
}

/// The text is no broker's message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("message id is not 32 or 56 hexadecimal digits")]
pub struct NotAMessageId;

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.ip {
            IpAddr::V4(ip) => write!(f, "{:08X}", ip.to_bits())?,
            IpAddr::V6(ip) => write!(f, "{:032X}", ip.to_bits())?,
        }
        write!(f, "{:08X}{:016X}", self.host.port, self.log_offset)
    }
}

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAMessageId);
        }
        let address = match text.len() {
            32 => 8,
            56 => 32,
            _ => return Err(NotAMessageId),
        };
        let part = |range: std::ops::Range<usize>| text.get(range).ok_or(NotAMessageId);
        let ip = part(0..address)?;
        let ip = if address == 8 {
            IpAddr::V4(Ipv4Addr::from_bits(u32::from_str_radix(ip, 16).map_err(|_| NotAMessageId)?))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from_str_radix(ip, 16).map_err(|_| NotAMessageId)?))
        };
        let port = u32::from_str_radix(part(address..address + 8)?, 16).map_err(|_| NotAMessageId)?;
        let log_offset =
            u64::from_str_radix(part(address + 8..address + 24)?, 16).map_err(|_| NotAMessageId)?;
        Ok(Self { host: Host { ip, port: port.cast_signed() }, log_offset: log_offset.cast_signed() })
    }
}
