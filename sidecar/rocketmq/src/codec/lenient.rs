//! JSON as brokers write it: strict JSON, and the two liberties of the servers' library that strict readers refuse,
//! integers and whole objects as keys (`{0:"a"}`, `{{"queueId":1}:12}`).

use std::borrow::Cow;

use thiserror::Error;

/// Nesting beyond this is refused: real bodies have about 5 levels, and the reader is recursive.
pub const MAX_DEPTH: usize = 32;

/// Values and keys in one document beyond this are refused. A route of 1,000 brokers has some 20,000.
pub const MAX_VALUES: usize = 262_144;

/// Why a document can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JsonError {
    /// Not JSON, also by the lenient rules.
    #[error("no JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Where.
        at: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("JSON is nested deeper than {MAX_DEPTH} levels")]
    Depth,
    /// More than [`MAX_VALUES`].
    #[error("JSON has more than {MAX_VALUES} values")]
    Values,
}

/// A value, or a key. Strings without escapes are slices of the document.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction that fits.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Self>),
    /// An object: keys and values in order.
    Object(Vec<(Self, Self)>),
}

impl<'a> Value<'a> {
    /// The member of that name, the last one if there are several; `None` for what is no object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.members()?.iter().rev().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    /// Keys and values of an object.
    pub fn members(&self) -> Option<&[(Self, Self)]> {
        match self {
            Value::Object(members) => Some(members),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Array(_) => None,
        }
    }

    /// The items of an array.
    pub fn items(&self) -> Option<&[Self]> {
        match self {
            Value::Array(items) => Some(items),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Object(_) => None,
        }
    }

    /// A string's characters.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    /// A number, also one that is written as a string.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A number of 32 bits, also one that is written as a string.
    pub fn as_i32(&self) -> Option<i32> {
        self.as_i64().and_then(|number| i32::try_from(number).ok())
    }

    /// A truth value, also one that is written as a string.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            Value::String(text) => text.parse().ok(),
            Value::Null | Value::Integer(_) | Value::Float(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A scalar's written form.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Value::String(text) => Some(text.to_string()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Reads one document; only white space may follow it. Bytes that are not UTF-8 are replaced inside strings.
///
/// # Errors
/// Says what stands where something else should; see the bounds above.
pub fn parse(document: &[u8]) -> Result<Value<'_>, JsonError> {
    let mut reader = Reader { document, at: 0, values: 0 };
    let value = reader.value(0)?;
    reader.space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.expected("the end")),
    }
}

struct Reader<'a> {
    document: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn expected(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, expected }
    }

    fn peek(&self) -> Option<u8> {
        self.document.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Steps over white space and then over `byte`, if it stands there.
    fn skip(&mut self, byte: u8) -> bool {
        self.space();
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// A value or a key; numbers, strings and objects are legal as both, and what else appears as a key is harmless.
    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(JsonError::Values);
        }
        if depth > MAX_DEPTH {
            return Err(JsonError::Depth);
        }
        self.space();
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) | None => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, JsonError> {
        let rest = self.document.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.expected(word));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.skip(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.skip(b']') {
                return Ok(Value::Array(items));
            }
            if !self.skip(b',') {
                return Err(self.expected("a comma or the end of the array"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.skip(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            let key = self.value(depth + 1)?;
            if !self.skip(b':') {
                return Err(self.expected("a colon"));
            }
            members.push((key, self.value(depth + 1)?));
            if self.skip(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.skip(b',') {
                return Err(self.expected("a comma or the end of the object"));
            }
        }
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let digits = self.document.get(start..self.at).unwrap_or_default();
        let text = std::str::from_utf8(digits).unwrap_or_default();
        let error = JsonError::Syntax { at: start, expected: "a number" };
        match text.parse() {
            Ok(number) => Ok(Value::Integer(number)),
            Err(_) => text.parse().map(Value::Float).map_err(|_| error),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let rest = self.document.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let Some(length) = length else { return Err(self.expected("the end of a string")) };
        let plain = String::from_utf8_lossy(rest.get(..length).unwrap_or_default());
        self.at += length;
        if self.skip_quote() {
            return Ok(plain);
        }
        let mut text = plain.into_owned();
        loop {
            let start = self.at;
            while !matches!(self.peek(), Some(b'"' | b'\\') | None) {
                self.at += 1;
            }
            text.push_str(&String::from_utf8_lossy(self.document.get(start..self.at).unwrap_or_default()));
            if self.skip_quote() {
                return Ok(Cow::Owned(text));
            }
            text.push(self.escape()?);
        }
    }

    fn skip_quote(&mut self) -> bool {
        let there = self.peek() == Some(b'"');
        self.at += usize::from(there);
        there
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let expected = self.expected("an escape");
        self.at += 1;
        let kind = self.peek().ok_or(expected)?;
        self.at += 1;
        match kind {
            b'"' | b'\\' | b'/' | b'\'' => Ok(char::from(kind)),
            b'b' => Ok('\u{8}'),
            b'f' => Ok('\u{c}'),
            b'n' => Ok('\n'),
            b'r' => Ok('\r'),
            b't' => Ok('\t'),
            b'u' => self.code_point(),
            _ => Err(expected),
        }
    }

    /// A UTF-16 unit or a pair of them; half of a pair is replaced.
    fn code_point(&mut self) -> Result<char, JsonError> {
        let first = self.unit()?;
        if let Some(character) = char::from_u32(first.into()) {
            return Ok(character);
        }
        let rest = self.document.get(self.at..).unwrap_or_default();
        if !rest.starts_with(b"\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let before = self.at;
        self.at += 2;
        let second = self.unit()?;
        let decoded = char::decode_utf16([first, second]).next();
        if let Some(Ok(character)) = decoded {
            return Ok(character);
        }
        self.at = before;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn unit(&mut self) -> Result<u16, JsonError> {
        let error = self.expected("four hexadecimal digits");
        let digits = self.document.get(self.at..self.at + 4).ok_or(error)?;
        let unit =
            digits.iter().try_fold(0_u32, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?));
        self.at += 4;
        unit.and_then(|unit| u16::try_from(unit).ok()).ok_or(error)
    }
}
