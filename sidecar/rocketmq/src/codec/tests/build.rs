//! Writes stored messages as brokers do.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::sys_flag;

/// What a stored message is made of; the defaults are the golden one's.
#[derive(Debug, Clone)]
pub(crate) struct Build {
    pub(crate) v2: bool,
    pub(crate) queue_id: i32,
    pub(crate) offset: i64,
    pub(crate) log_offset: i64,
    pub(crate) sys_flag: i32,
    pub(crate) born_ip: IpAddr,
    pub(crate) store_ip: IpAddr,
    pub(crate) reconsume_times: i32,
    pub(crate) body: Vec<u8>,
    pub(crate) topic: Vec<u8>,
    pub(crate) properties: Vec<u8>,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            v2: false,
            queue_id: 2,
            offset: 5,
            log_offset: 1000,
            sys_flag: 0,
            born_ip: [127, 0, 0, 1].into(),
            store_ip: [127, 0, 0, 1].into(),
            reconsume_times: 0,
            body: b"hello".to_vec(),
            topic: b"T".to_vec(),
            properties: b"TAGS\x01TagA\x02KEYS\x01k1\x02".to_vec(),
        }
    }
}

impl Build {
    pub(crate) fn bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32(0);
        out.put_u32(if self.v2 { 0xDAA3_20AB } else { 0xDAA3_20A7 });
        out.put_u32(crc32fast::hash(&self.body) & 0x7FFF_FFFF);
        out.put_i32(self.queue_id);
        out.put_i32(0);
        out.put_i64(self.offset);
        out.put_i64(self.log_offset);
        let born_v6 = if self.born_ip.is_ipv6() { sys_flag::BORN_V6 } else { 0 };
        let store_v6 = if self.store_ip.is_ipv6() { sys_flag::STORE_V6 } else { 0 };
        out.put_i32(self.sys_flag | born_v6 | store_v6);
        out.put_i64(1_700_000_000_000);
        host(&mut out, self.born_ip, 10001);
        out.put_i64(1_700_000_000_001);
        host(&mut out, self.store_ip, 10911);
        out.put_i32(self.reconsume_times);
        out.put_i64(0);
        out.put_i32(self.body.len() as i32);
        out.put_slice(&self.body);
        if self.v2 {
            out.put_u16(self.topic.len() as u16)
        } else {
            out.put_u8(self.topic.len() as u8)
        }
        out.put_slice(&self.topic);
        out.put_u16(self.properties.len() as u16);
        out.put_slice(&self.properties);
        let length = (out.len() as u32).to_be_bytes();
        out[..4].copy_from_slice(&length);
        out.freeze()
    }
}

fn host(out: &mut BytesMut, ip: IpAddr, port: i32) {
    match ip {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
    out.put_i32(port);
}
