use bytes::{BufMut, Bytes, BytesMut};
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{
    Command, Fields, FrameError, Language,
    frame::MAX_FIELDS,
    lenient::{self, Value},
};

/// What goes over the wire, in the members' usual order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    code: i32,
    ext_fields: ExtFields<'a>,
    flag: i32,
    language: &'static str,
    opaque: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
    /// Some servers close the connection without it.
    #[serde(rename = "serializeTypeCurrentRPC")]
    form: &'static str,
    version: i32,
}

struct ExtFields<'a>(&'a Fields);

impl Serialize for ExtFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

pub(super) fn encode(command: &Command, out: &mut BytesMut) {
    let header = Header {
        code: command.code,
        ext_fields: ExtFields(&command.fields),
        flag: command.flag,
        language: command.language.name(),
        opaque: command.opaque,
        remark: command.remark.as_deref(),
        form: "JSON",
        version: command.version,
    };
    serde_json::to_writer(out.writer(), &header).expect("strings and numbers must serialize into memory");
}

pub(super) fn decode(header: &Bytes) -> Result<Command, FrameError> {
    let value = lenient::parse(header)?;
    let integer = |name| match value.get(name) {
        Some(member) => member.as_i32().ok_or(FrameError::Member(name)),
        None => Err(FrameError::Member(name)),
    };
    let optional = |name| value.get(name).and_then(Value::as_i32).unwrap_or_default();
    Ok(Command {
        code: integer("code")?,
        language: value.get("language").and_then(Value::as_str).map_or(Language::OTHER, Language::from_name),
        version: optional("version"),
        opaque: integer("opaque")?,
        flag: integer("flag")?,
        remark: value.get("remark").and_then(Value::as_str).map(str::to_owned),
        fields: fields(value.get("extFields"))?,
        body: Bytes::new(),
    })
}

/// Values are strings by the protocol; scalars are taken in their written form, and null is no value.
fn fields(value: Option<&Value<'_>>) -> Result<Fields, FrameError> {
    let mut fields = Fields::default();
    let members = match value {
        None | Some(Value::Null) => return Ok(fields),
        Some(value) => value.members().ok_or(FrameError::Member("extFields"))?,
    };
    if members.len() > MAX_FIELDS {
        return Err(FrameError::Fields);
    }
    for (name, value) in members {
        let (Some(name), Some(value)) = (name.as_str(), value.to_text()) else { continue };
        fields.push(name.to_owned(), value);
    }
    Ok(fields)
}
