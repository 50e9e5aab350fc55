use std::ops::Range;

use bytes::Bytes;

/// Where one property's name and value lie in the shared buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Bytes of the name.
    pub name: Range<u32>,
    /// Bytes of the value.
    pub value: Range<u32>,
}

/// A message's properties in the producer's order: one shared buffer and one list of spans, whatever their number.
///
/// Names and values are raw bytes: they may hold anything, and are escaped where they leave the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    bytes: Bytes,
    spans: Vec<Span>,
}

impl Properties {
    /// Wraps a receive buffer's slice. Spans that reach outside it are dropped.
    pub fn from_spans(bytes: Bytes, mut spans: Vec<Span>) -> Self {
        let inside = |r: &Range<u32>| r.start <= r.end && r.end as usize <= bytes.len();
        spans.retain(|span| inside(&span.name) && inside(&span.value));
        Self { bytes, spans }
    }

    /// Name and value of each property, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|span| (self.slice(&span.name), self.slice(&span.value)))
    }

    /// The value of the first property of that name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The value of the first property of that name, as a slice of the shared buffer.
    pub fn get_bytes(&self, name: &[u8]) -> Option<Bytes> {
        let span = self.spans.iter().find(|span| self.slice(&span.name) == name)?;
        Some(self.bytes.slice(span.value.start as usize..span.value.end as usize))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        self.bytes.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// Collects properties that do not lie in one buffer already.
#[derive(Debug, Default)]
pub struct PropertiesBuilder {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl PropertiesBuilder {
    /// Appends one property. Content beyond 4 GiB in total is dropped.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if let (Some(name), Some(value)) = (self.append(name), self.append(value)) {
            self.spans.push(Span { name, value });
        }
    }

    /// The finished list.
    pub fn build(self) -> Properties {
        Properties { bytes: Bytes::from(self.bytes), spans: self.spans }
    }

    fn append(&mut self, part: &[u8]) -> Option<Range<u32>> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        let end = u32::try_from(self.bytes.len().checked_add(part.len())?).ok()?;
        self.bytes.extend_from_slice(part);
        Some(start..end)
    }
}
