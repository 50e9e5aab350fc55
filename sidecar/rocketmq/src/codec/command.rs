use std::borrow::Cow;

use bytes::Bytes;

/// The client version that we claim: the ordinal of V5_3_0 in the server's version enum. High enough for strict JSON
/// in route replies (401), low enough that a closing server does not expect us to know GO_AWAY (475).
pub const VERSION: i32 = 473;

/// Flag bit of a response.
const RESPONSE: i32 = 1;
/// Flag bit of a request that wants no response.
const ONEWAY: i32 = 2;

/// How a header is written. Both forms are always understood; servers from 5.0 answer in JSON whatever they were asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderEncoding {
    /// An object with string values; holds every code.
    #[default]
    Json,
    /// The compact form "ROCKETMQ"; its code has 16 bits.
    Binary,
}

/// The language a peer says it is written in, by its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language(pub u8);

impl Language {
    /// What every server knows.
    pub const OTHER: Self = Self(7);
    /// Known since 4.9.
    pub const RUST: Self = Self(12);

    const NAMES: [&'static str; 14] = [
        "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
        "RUST", "NODE_JS",
    ];

    /// The name in JSON headers; unknown numbers are `OTHER`.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }

    /// The language of that name; unknown names are `OTHER`.
    pub fn from_name(name: &str) -> Self {
        let number = (0_u8..).zip(Self::NAMES).find(|(_, known)| *known == name).map(|(number, _)| number);
        number.map_or(Self::OTHER, Self)
    }
}

/// The named values of a header, in order. A name given twice keeps both; the last one counts, as in Java.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Cow<'static, str>, String)>);

impl Fields {
    /// Appends a value in its written form.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl ToString) {
        self.0.push((name.into(), value.to_string()));
    }

    /// The value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Removes every value of that name.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Name and value of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One request or response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What is asked, or how it ended.
    pub code: i32,
    /// Who speaks.
    pub language: Language,
    /// The speaker's version ordinal.
    pub version: i32,
    /// What joins a response to its request, unique among the open requests of one side of one connection.
    pub opaque: i32,
    /// Bit 0: a response. Bit 1: wants no response.
    pub flag: i32,
    /// Words for people.
    pub remark: Option<String>,
    /// The header's named values.
    pub fields: Fields,
    /// The content: a slice of the receive buffer.
    pub body: Bytes,
}

impl Command {
    /// A request without fields and body.
    pub fn request(code: i32) -> Self {
        Self {
            code,
            language: Language::RUST,
            version: VERSION,
            opaque: 0,
            flag: 0,
            remark: None,
            fields: Fields::default(),
            body: Bytes::new(),
        }
    }

    /// An answer to a request with this `opaque`.
    pub fn response(code: i32, opaque: i32) -> Self {
        Self { flag: RESPONSE, opaque, ..Self::request(code) }
    }

    /// With one more field.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push(name, value);
        self
    }

    /// With one more field, if there is a value.
    #[must_use]
    pub fn field_if(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// With this content.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With these words for people.
    #[must_use]
    pub fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    /// As a request that wants no response.
    #[must_use]
    pub fn oneway(mut self) -> Self {
        self.flag |= ONEWAY;
        self
    }

    /// Whether it answers a request of ours.
    pub fn is_response(&self) -> bool {
        self.flag & RESPONSE != 0
    }

    /// Whether the sender wants no response.
    pub fn is_oneway(&self) -> bool {
        self.flag & ONEWAY != 0
    }
}
