//! One stored RocketMQ message (V1), patched for each offset.

/// Offsets of the patched fields in a V1 message.
const BODY_CRC: usize = 8;
const QUEUE_ID: usize = 12;
const QUEUE_OFFSET: usize = 20;
const LOG_OFFSET: usize = 28;
const BODY: usize = 88;

/// What a Java producer adds to a message with a tag.
const PROPERTIES: &str =
    "UNIQ_KEY\u{1}7F00000100002A9F0000000000000001\u{2}TAGS\u{1}TagA\u{2}WAIT\u{1}true\u{2}";

/// A message of a topic with a body of constant size.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    body: usize,
    keyed: bool,
}

impl Template {
    /// Builds the message once; `keyed` gives it a sharding key of eight digits.
    pub(crate) fn new(topic: &str, body: usize, keyed: bool) -> Self {
        let key = if keyed { "__SHARDINGKEY\u{1}00000000\u{2}" } else { "" };
        let properties = format!("{PROPERTIES}{key}");
        let content = vec![b'x'; body];
        let mut bytes = Vec::with_capacity(BODY + body + topic.len() + properties.len() + 3);
        put(&mut bytes, &0_u32.to_be_bytes());
        put(&mut bytes, &0xDAA3_20A7_u32.to_be_bytes());
        put(&mut bytes, &crc(&content).to_be_bytes());
        put(&mut bytes, &[0; 8]); // queue id, flag
        put(&mut bytes, &[0; 16]); // queue offset, log offset
        put(&mut bytes, &[0; 4]); // system flag
        put(&mut bytes, &1_700_000_000_000_i64.to_be_bytes());
        put(&mut bytes, &[127, 0, 0, 1, 0, 0, 0x27, 0x11]);
        put(&mut bytes, &1_700_000_000_001_i64.to_be_bytes());
        put(&mut bytes, &[127, 0, 0, 1, 0, 0, 0x2a, 0x9f]);
        put(&mut bytes, &[0; 12]); // reconsume times, prepared transaction offset
        put(&mut bytes, &u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
        put(&mut bytes, &content);
        bytes.push(u8::try_from(topic.len()).unwrap_or(u8::MAX));
        put(&mut bytes, topic.as_bytes());
        put(&mut bytes, &u16::try_from(properties.len()).unwrap_or(u16::MAX).to_be_bytes());
        put(&mut bytes, properties.as_bytes());
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
        patch(&mut bytes, 0, &size);
        Self { bytes, body, keyed }
    }

    /// Appends the message as it lies at a queue's offset, with a time stamp at the body's start when asked.
    pub(crate) fn append(&self, out: &mut Vec<u8>, queue: u32, offset: u64, key: u64, stamp: Option<u64>) {
        let start = out.len();
        put(out, &self.bytes);
        let message = out.get_mut(start..).unwrap_or_default();
        patch(message, QUEUE_ID, &queue.to_be_bytes());
        patch(message, QUEUE_OFFSET, &offset.to_be_bytes());
        patch(message, LOG_OFFSET, &(offset * 2_000 + u64::from(queue)).to_be_bytes());
        if self.keyed {
            let at = message.len().saturating_sub(9);
            patch(message, at, format!("{key:08}").as_bytes());
        }
        if let Some(stamp) = stamp {
            patch(message, BODY, format!("{stamp:020}").as_bytes());
            let sum = crc(message.get(BODY..BODY + self.body).unwrap_or_default());
            patch(message, BODY_CRC, &sum.to_be_bytes());
        }
    }
}

fn crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7fff_ffff
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

fn patch(message: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = message.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
