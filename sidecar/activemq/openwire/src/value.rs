//! Values of the types that Java has, and maps of them: properties and the bodies of maps and streams.

use bytes::{Bytes, BytesMut};

use crate::{DecodeError, EncodeError, Text, reader::Reader, writer::Writer};

/// Values within values are followed so deep. Java's clients write only values that properties may have, at most maps of
/// lists.
pub const DEPTH_MOST: usize = 32;

/// So many values, nested ones included, are read at most: one of a byte on the wire takes some fifty in memory.
pub const VALUES_MOST: usize = 65_536;

/// Texts whose encoding takes more bytes get a length of four bytes. Java counts characters, and takes 8,191.
const SHORT_TEXT_MOST: usize = 8_190;

/// Names and values, in order.
pub type Map = Vec<(Text, Value)>;

/// A value. Two numbers with a point are the same when their bits are.
#[derive(Debug, Clone)]
pub enum Value {
    /// None.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `byte`.
    Byte(i8),
    /// `char`, a unit of UTF-16.
    Char(u16),
    /// `short`.
    Short(i16),
    /// `int`.
    Int(i32),
    /// `long`.
    Long(i64),
    /// `double`.
    Double(f64),
    /// `float`.
    Float(f32),
    /// `String`.
    Text(Text),
    /// `byte[]`.
    Bytes(Bytes),
    /// Names and values.
    Map(Map),
    /// Values.
    List(Vec<Self>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Byte(one), Self::Byte(other)) => one == other,
            (Self::Char(one), Self::Char(other)) => one == other,
            (Self::Short(one), Self::Short(other)) => one == other,
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::Long(one), Self::Long(other)) => one == other,
            (Self::Double(one), Self::Double(other)) => one.to_bits() == other.to_bits(),
            (Self::Float(one), Self::Float(other)) => one.to_bits() == other.to_bits(),
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (_, _) => false,
        }
    }
}

impl Eq for Value {}

/// Reads a map: a count, then names and values. No bytes are an empty map, and so is a count of -1.
///
/// # Errors
/// It is no map, or larger or deeper than is read.
pub fn read_map(bytes: Bytes) -> Result<Map, DecodeError> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    Values { from: Reader::new(bytes), left: VALUES_MOST }.map(0)
}

/// Reads values up to the end.
///
/// # Errors
/// They are no values, or more or deeper than is read.
pub fn read_values(bytes: Bytes) -> Result<Vec<Value>, DecodeError> {
    let mut values = Values { from: Reader::new(bytes), left: VALUES_MOST };
    let mut all = Vec::new();
    while !values.from.is_empty() {
        all.push(values.value(0)?);
    }
    Ok(all)
}

/// Appends a map.
///
/// # Errors
/// A name or value is too long.
pub fn write_map(out: &mut BytesMut, map: &[(Text, Value)]) -> Result<(), EncodeError> {
    map_to(&mut Writer(out), map)
}

#[derive(Debug)]
struct Values {
    from: Reader,
    /// How many more are read.
    left: usize,
}

impl Values {
    fn map(&mut self, depth: usize) -> Result<Map, DecodeError> {
        let count = self.count("a map")?;
        let mut map = Map::new();
        for _ in 0..count {
            let name = self.from.text("a name")?;
            map.push((name, self.value(depth)?));
        }
        Ok(map)
    }

    /// How many there are. No room is made for them before they are there.
    fn count(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let length = self.from.i32(what)?;
        if length == -1 {
            return Ok(0);
        }
        let count = usize::try_from(length).map_err(|_| DecodeError::Length { what, length })?;
        if count > self.from.left() {
            return Err(DecodeError::Length { what, length });
        }
        Ok(count)
    }

    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        self.left = self.left.checked_sub(1).ok_or(DecodeError::Values)?;
        if depth > DEPTH_MOST {
            return Err(DecodeError::Depth);
        }
        let from = &mut self.from;
        let what = "a value";
        Ok(match from.u8(what)? {
            0 => Value::Null,
            1 => Value::Bool(from.bool(what)?),
            2 => Value::Byte(from.u8(what)?.cast_signed()),
            3 => Value::Char(from.u16(what)?),
            4 => Value::Short(from.u16(what)?.cast_signed()),
            5 => Value::Int(from.i32(what)?),
            6 => Value::Long(from.i64(what)?),
            7 => Value::Double(f64::from_bits(from.i64(what)?.cast_unsigned())),
            8 => Value::Float(f32::from_bits(from.i32(what)?.cast_unsigned())),
            9 => Value::Text(from.text(what)?),
            10 => Value::Bytes(from.long(what)?),
            11 => Value::Map(self.map(depth + 1)?),
            12 => {
                let count = self.count("a list")?;
                let mut list = Vec::new();
                for _ in 0..count {
                    list.push(self.value(depth + 1)?);
                }
                Value::List(list)
            }
            13 => Value::Text(Text::raw(from.long(what)?)),
            kind => return Err(DecodeError::Type { what, kind }),
        })
    }
}

fn map_to(to: &mut Writer<'_>, map: &[(Text, Value)]) -> Result<(), EncodeError> {
    count_to(to, map.len(), "a map")?;
    map.iter().try_for_each(|(name, value)| {
        to.text(name, "a name")?;
        value_to(to, value)
    })
}

fn count_to(to: &mut Writer<'_>, length: usize, what: &'static str) -> Result<(), EncodeError> {
    to.i32(i32::try_from(length).map_err(|_| EncodeError { what, length })?);
    Ok(())
}

fn value_to(to: &mut Writer<'_>, value: &Value) -> Result<(), EncodeError> {
    match value {
        Value::Null => to.u8(0),
        Value::Bool(value) => to.raw(&[1, (*value).into()]),
        Value::Byte(value) => to.raw(&[2, value.cast_unsigned()]),
        Value::Char(value) => {
            to.u8(3);
            to.i16(value.cast_signed());
        }
        Value::Short(value) => {
            to.u8(4);
            to.i16(*value);
        }
        Value::Int(value) => {
            to.u8(5);
            to.i32(*value);
        }
        Value::Long(value) => {
            to.u8(6);
            to.i64(*value);
        }
        Value::Double(value) => {
            to.u8(7);
            to.i64(value.to_bits().cast_signed());
        }
        Value::Float(value) => {
            to.u8(8);
            to.i32(value.to_bits().cast_signed());
        }
        Value::Text(text) if text.bytes().len() <= SHORT_TEXT_MOST => {
            to.u8(9);
            to.text(text, "a text")?;
        }
        Value::Text(text) => {
            to.u8(13);
            to.long(text.bytes(), "a text")?;
        }
        Value::Bytes(bytes) => {
            to.u8(10);
            to.long(bytes, "a value of bytes")?;
        }
        Value::Map(map) => {
            to.u8(11);
            map_to(to, map)?;
        }
        Value::List(list) => {
            to.u8(12);
            count_to(to, list.len(), "a list")?;
            list.iter().try_for_each(|value| value_to(to, value))?;
        }
    }
    Ok(())
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}
