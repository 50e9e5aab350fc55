use bytes::{BufMut, BytesMut};

use super::{Table, Value, table::Entries};

/// A field table to send: headers of a message, or arguments of a declaration.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    bytes: BytesMut,
    overlong: bool,
}

impl Fields {
    /// Without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries of a table that came, those that `keep` accepts by name.
    ///
    /// # Errors
    /// The table is broken.
    pub fn copy_of(table: &Table, keep: impl Fn(&[u8]) -> bool) -> Result<Self, super::TableError> {
        let mut fields = Self::new();
        let mut entries: Entries = table.entries();
        let mut before = table.raw().len();
        while let Some(entry) = entries.next() {
            let (name, _) = entry?;
            let after = entries.rest();
            let start = table.raw().len() - before;
            let end = table.raw().len() - after;
            if keep(&name) {
                fields.bytes.extend_from_slice(table.raw().get(start..end).unwrap_or_default());
            }
            before = after;
        }
        Ok(fields)
    }

    /// With a text.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name, b'S');
        self.long(value.as_bytes());
        self
    }

    /// With a whole number.
    pub fn int(mut self, name: &str, value: i64) -> Self {
        self.name(name, b'l');
        self.bytes.put_i64(value);
        self
    }

    /// With a truth value.
    pub fn flag(mut self, name: &str, value: bool) -> Self {
        self.name(name, b't');
        self.bytes.put_u8(value.into());
        self
    }

    /// With a table.
    pub fn table(mut self, name: &str, value: &Self) -> Self {
        self.name(name, b'F');
        self.long(&value.bytes);
        self.overlong |= value.overlong;
        self
    }

    /// With a value as it came from a table.
    pub fn value(self, name: &str, value: &Value) -> Self {
        match value {
            Value::Bool(value) => self.flag(name, *value),
            Value::Int(value) => self.int(name, *value),
            Value::Uint(value) => self.int(name, (*value).into()),
            Value::Float(value) => self.put(name, b'd', &value.to_be_bytes()),
            Value::Decimal { scale, digits } => {
                let [a, b, c, d] = digits.to_be_bytes();
                self.put(name, b'D', &[*scale, a, b, c, d])
            }
            Value::Text(value) => self.put_long(name, b'S', value),
            Value::Binary(value) => self.put_long(name, b'x', value),
            Value::Timestamp(value) => self.put(name, b'T', &value.to_be_bytes()),
            Value::Void => self.put(name, b'V', &[]),
            Value::Table(value) => self.put_long(name, b'F', value.raw()),
            Value::Array(value) => self.put_long(name, b'A', value.raw()),
        }
    }

    /// As a table that came.
    pub fn into_table(self) -> Table {
        Table::from_raw(self.bytes.freeze())
    }

    fn put(mut self, name: &str, kind: u8, bytes: &[u8]) -> Self {
        self.name(name, kind);
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn put_long(mut self, name: &str, kind: u8, bytes: &[u8]) -> Self {
        self.name(name, kind);
        self.long(bytes);
        self
    }

    fn name(&mut self, name: &str, kind: u8) {
        match u8::try_from(name.len()) {
            Ok(length) => self.bytes.put_u8(length),
            Err(_) => {
                self.overlong = true;
                self.bytes.put_u8(u8::MAX);
            }
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.put_u8(kind);
    }

    fn long(&mut self, bytes: &[u8]) {
        match u32::try_from(bytes.len()) {
            Ok(length) => self.bytes.put_u32(length),
            Err(_) => {
                self.overlong = true;
                self.bytes.put_u32(0);
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The entries, unless a name or value is longer than the protocol can say.
    pub(in crate::amqp) fn raw(&self) -> Option<&[u8]> {
        (!self.overlong && u32::try_from(self.bytes.len()).is_ok()).then_some(&self.bytes)
    }
}
