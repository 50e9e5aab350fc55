use bytes::{BufMut, Bytes, BytesMut};

use super::{Command, Fields, FrameError, Language, frame::MAX_FIELDS, take::Take};

/// Bytes of the smallest field: both lengths.
const MIN_FIELD: usize = 6;

pub(super) fn encode(command: &Command, out: &mut BytesMut) -> Result<(), FrameError> {
    let too_large = FrameError::TooLarge;
    out.put_i16(i16::try_from(command.code).map_err(|_| too_large("code for a binary header"))?);
    out.put_u8(command.language.0);
    out.put_i16(i16::try_from(command.version).map_err(|_| too_large("version for a binary header"))?);
    out.put_i32(command.opaque);
    out.put_i32(command.flag);
    let remark = command.remark.as_deref().unwrap_or_default();
    out.put_u32(u32::try_from(remark.len()).map_err(|_| too_large("remark"))?);
    out.put_slice(remark.as_bytes());
    let length: usize = command.fields.iter().map(|(name, value)| MIN_FIELD + name.len() + value.len()).sum();
    out.put_u32(u32::try_from(length).map_err(|_| too_large("fields"))?);
    for (name, value) in command.fields.iter() {
        out.put_u16(u16::try_from(name.len()).map_err(|_| too_large("name of a field"))?);
        out.put_slice(name.as_bytes());
        out.put_u32(u32::try_from(value.len()).map_err(|_| too_large("value of a field"))?);
        out.put_slice(value.as_bytes());
    }
    Ok(())
}

pub(super) fn decode(mut header: Bytes) -> Result<Command, FrameError> {
    let short = |part| move || FrameError::Binary(part);
    let code = i32::from(header.take_i16().ok_or_else(short("code"))?);
    let language = Language(header.take_u8().ok_or_else(short("language"))?);
    let version = i32::from(header.take_i16().ok_or_else(short("version"))?);
    let opaque = header.take_i32().ok_or_else(short("opaque"))?;
    let flag = header.take_i32().ok_or_else(short("flag"))?;
    let remark = long_block(&mut header).ok_or_else(short("remark"))?;
    let fields = fields(long_block(&mut header).ok_or_else(short("fields"))?)?;
    let remark = (!remark.is_empty()).then(|| text(&remark));
    Ok(Command { code, language, version, opaque, flag, remark, fields, body: Bytes::new() })
}

fn fields(mut block: Bytes) -> Result<Fields, FrameError> {
    let mut fields = Fields::default();
    while !block.is_empty() {
        if fields.len() == MAX_FIELDS {
            return Err(FrameError::Fields);
        }
        let length = block.take_u16().ok_or(FrameError::Binary("name of a field"))?;
        let name = block.take_bytes(length.into()).ok_or(FrameError::Binary("name of a field"))?;
        let value = long_block(&mut block).ok_or(FrameError::Binary("value of a field"))?;
        // An empty value is how this form writes a missing one.
        if !value.is_empty() {
            fields.push(text(&name), text(&value));
        }
    }
    Ok(fields)
}

/// A block behind its 32-bit length.
fn long_block(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(from.take_u32()?).ok()?;
    from.take_bytes(length)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
