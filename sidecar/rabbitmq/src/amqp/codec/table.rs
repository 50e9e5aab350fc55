use bytes::Bytes;
use thiserror::Error;

use super::{render, take::Take};

/// Levels of tables and arrays within each other that are looked into.
pub(super) const DEPTH: usize = 32;

/// Entries of a table, those of nested tables and arrays included.
pub(super) const ENTRIES: usize = 8192;

/// Why a field table can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TableError {
    /// A length points beyond the end, or a value is cut short.
    #[error("a field table is cut short")]
    Cut,
    /// A value of a type that there is not.
    #[error("a field table holds a value of the unknown type {0:#04x}")]
    Type(u8),
    /// Tables within tables, too many.
    #[error("a field table is nested deeper than {DEPTH} levels")]
    Depth,
    /// Too many entries.
    #[error("a field table holds more than {ENTRIES} entries")]
    Entries,
    /// The text form is longer than allowed.
    #[error("a field table is longer than {0} bytes as text")]
    Length(usize),
}

/// A field table, kept as the bytes that came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table(Bytes);

impl Table {
    /// A table of raw entries, without the length in front.
    pub const fn from_raw(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The entries as bytes.
    pub const fn raw(&self) -> &Bytes {
        &self.0
    }

    /// The entries one after the other; a broken one ends them. Nested tables and arrays are not looked into.
    pub fn entries(&self) -> Entries {
        Entries { rest: self.0.clone(), left: ENTRIES }
    }

    /// The first value of a name.
    pub fn get(&self, name: &[u8]) -> Option<Value> {
        let found = self.entries().map_while(Result::ok).find(|(entry, _)| entry == name);
        found.map(|(_, value)| value)
    }

    /// Looks at all of it, nested tables and arrays included.
    ///
    /// # Errors
    /// It is cut short, too deep or too large. Nobody may look further into it.
    pub fn check(&self) -> Result<(), TableError> {
        Walk::new(Nested::Table(self.clone())).try_for_each(|step| step.map(drop))
    }

    /// The table as a JSON object of at most `most` bytes; see [`Value::json`].
    ///
    /// # Errors
    /// As [`Table::check`], and when it gets too long.
    pub fn json(&self, most: usize) -> Result<String, TableError> {
        render::json(Nested::Table(self.clone()), most)
    }
}

/// The entries of a table.
#[derive(Debug, Clone)]
pub struct Entries {
    rest: Bytes,
    left: usize,
}

impl Entries {
    /// Bytes that are left.
    pub(super) fn rest(&self) -> usize {
        self.rest.len()
    }
}

impl Iterator for Entries {
    type Item = Result<(Bytes, Value), TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = match self.left.checked_sub(1) {
            None => Err(TableError::Entries),
            Some(left) => {
                self.left = left;
                entry(&mut self.rest)
            }
        };
        if entry.is_err() {
            self.rest.clear();
        }
        Some(entry)
    }
}

fn entry(rest: &mut Bytes) -> Result<(Bytes, Value), TableError> {
    let name = rest.take_short().ok_or(TableError::Cut)?;
    Ok((name, Value::take(rest)?))
}

/// A value of a field table. Types as RabbitMQ reads and writes them, which differ from the specification's list where
/// that contradicts itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `t`.
    Bool(bool),
    /// `b`, `s`, `U`, `I`, `l`, `L`.
    Int(i64),
    /// `B`, `u`, `i`.
    Uint(u32),
    /// `f`, `d`.
    Float(f64),
    /// `D`: `digits` with the point moved `scale` places to the left.
    Decimal {
        /// Places after the point.
        scale: u8,
        /// The number without its point.
        digits: u32,
    },
    /// `S`: text by custom, but any bytes.
    Text(Bytes),
    /// `x`.
    Binary(Bytes),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `V`.
    Void,
    /// `F`.
    Table(Table),
    /// `A`.
    Array(Array),
}

/// An array, kept as the bytes that came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Array(Bytes);

impl Array {
    /// The values as bytes.
    pub const fn raw(&self) -> &Bytes {
        &self.0
    }

    /// The values one after the other; a broken one ends them.
    pub fn values(&self) -> impl Iterator<Item = Result<Value, TableError>> {
        let mut rest = self.0.clone();
        let mut left = ENTRIES;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let value = if left == 0 { Err(TableError::Entries) } else { Value::take(&mut rest) };
            left = left.saturating_sub(1);
            if value.is_err() {
                rest.clear();
            }
            Some(value)
        })
    }
}

impl Value {
    /// A whole number of any width.
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Uint(number) => Some(*number as i64),
            Self::Bool(_)
            | Self::Float(_)
            | Self::Decimal { .. }
            | Self::Text(_)
            | Self::Binary(_)
            | Self::Timestamp(_)
            | Self::Void
            | Self::Table(_)
            | Self::Array(_) => None,
        }
    }

    /// The bytes of a text.
    pub const fn as_text(&self) -> Option<&Bytes> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The value as JSON of at most `most` bytes: texts that are not UTF-8 with replacement characters, binaries as
    /// Base64, numbers that JSON can't hold as `null`.
    ///
    /// # Errors
    /// It is cut short, too deep or too large, or its text is too long.
    pub fn json(&self, most: usize) -> Result<String, TableError> {
        match self {
            Self::Table(table) => render::json(Nested::Table(table.clone()), most),
            Self::Array(array) => render::json(Nested::Array(array.clone()), most),
            scalar @ (Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Float(_)
            | Self::Decimal { .. }
            | Self::Text(_)
            | Self::Binary(_)
            | Self::Timestamp(_)
            | Self::Void) => render::scalar_json(scalar, most),
        }
    }

    fn take(rest: &mut Bytes) -> Result<Self, TableError> {
        let kind = rest.take_u8().ok_or(TableError::Cut)?;
        let value = match kind {
            b't' => rest.take_u8().map(|byte| Self::Bool(byte != 0)),
            b'b' => rest.take_u8().map(|byte| Self::Int(byte.cast_signed().into())),
            b'B' => rest.take_u8().map(|byte| Self::Uint(byte.into())),
            b's' | b'U' => rest.take_u16().map(|word| Self::Int(word.cast_signed().into())),
            b'u' => rest.take_u16().map(|word| Self::Uint(word.into())),
            b'I' => rest.take_u32().map(|word| Self::Int(word.cast_signed().into())),
            b'i' => rest.take_u32().map(Self::Uint),
            b'l' | b'L' => rest.take_u64().map(|word| Self::Int(word.cast_signed())),
            b'f' => rest.take_u32().map(|bits| Self::Float(f32::from_bits(bits).into())),
            b'd' => rest.take_u64().map(|bits| Self::Float(f64::from_bits(bits))),
            b'D' => rest.take_bytes(5).and_then(|mut decimal| {
                Some(Self::Decimal { scale: decimal.take_u8()?, digits: decimal.take_u32()? })
            }),
            b'S' => rest.take_long().map(Self::Text),
            b'x' => rest.take_long().map(Self::Binary),
            b'T' => rest.take_u64().map(Self::Timestamp),
            b'V' => Some(Self::Void),
            b'F' => rest.take_long().map(|bytes| Self::Table(Table(bytes))),
            b'A' => rest.take_long().map(|bytes| Self::Array(Array(bytes))),
            other => return Err(TableError::Type(other)),
        };
        value.ok_or(TableError::Cut)
    }
}

/// What has values in it.
#[derive(Debug, Clone)]
pub(super) enum Nested {
    Table(Table),
    Array(Array),
}

/// What a walk meets.
#[derive(Debug)]
pub(super) enum Step {
    /// A table or array begins; with its name when it is in a table.
    Open { name: Option<Bytes>, table: bool },
    /// A value that is neither.
    Scalar { name: Option<Bytes>, value: Value },
    /// The innermost one that is open ends.
    Close { table: bool },
}

/// Walks a table or array in depth, with a stack of its own.
pub(super) struct Walk {
    /// What is left of each open one.
    open: Vec<(Bytes, bool)>,
    first: Option<Nested>,
    left: usize,
}

impl Walk {
    pub(super) fn new(nested: Nested) -> Self {
        Self { open: Vec::new(), first: Some(nested), left: ENTRIES }
    }

    fn enter(&mut self, name: Option<Bytes>, nested: Nested) -> Result<Step, TableError> {
        if self.open.len() >= DEPTH {
            return Err(TableError::Depth);
        }
        let (bytes, table) = match nested {
            Nested::Table(table) => (table.0, true),
            Nested::Array(array) => (array.0, false),
        };
        self.open.push((bytes, table));
        Ok(Step::Open { name, table })
    }

    fn step(&mut self) -> Result<Option<Step>, TableError> {
        if let Some(first) = self.first.take() {
            return self.enter(None, first).map(Some);
        }
        let Some((rest, table)) = self.open.last_mut() else { return Ok(None) };
        let table = *table;
        if rest.is_empty() {
            self.open.pop();
            return Ok(Some(Step::Close { table }));
        }
        self.left = self.left.checked_sub(1).ok_or(TableError::Entries)?;
        let (name, value) = if table {
            let (name, value) = entry(rest)?;
            (Some(name), value)
        } else {
            (None, Value::take(rest)?)
        };
        let step = match value {
            Value::Table(inner) => self.enter(name, Nested::Table(inner))?,
            Value::Array(inner) => self.enter(name, Nested::Array(inner))?,
            value @ (Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Float(_)
            | Value::Decimal { .. }
            | Value::Text(_)
            | Value::Binary(_)
            | Value::Timestamp(_)
            | Value::Void) => Step::Scalar { name, value },
        };
        Ok(Some(step))
    }
}

impl Iterator for Walk {
    type Item = Result<Step, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if matches!(step, Some(Err(_))) {
            self.open.clear();
        }
        step
    }
}
