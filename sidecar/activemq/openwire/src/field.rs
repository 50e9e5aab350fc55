//! Fields, objects, and structures made of them: what a field is on the wire follows from its type.

use bytes::Bytes;

use crate::{DecodeError, EncodeError, Text, reader::Reader, writer::Writer};

/// A value in a fixed place of a structure. `what` names it in errors.
pub(crate) trait Field: Sized {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError>;
    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError>;
}

/// A structure that is told by its type's number when it stands in a field.
pub(crate) trait Object: Sized {
    fn kind(&self) -> u8;
    fn read_as(kind: u8, from: &mut Reader, what: &'static str) -> Result<Self, DecodeError>;
    fn write_body(&self, to: &mut Writer<'_>) -> Result<(), EncodeError>;
}

macro_rules! number {
    ($type:ty, $get:ident) => {
        impl Field for $type {
            fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
                from.$get(what)
            }
            fn write(&self, to: &mut Writer<'_>, _: &'static str) -> Result<(), EncodeError> {
                to.$get(*self);
                Ok(())
            }
        }
    };
}

number!(bool, bool);
number!(u8, u8);
number!(i32, i32);
number!(i64, i64);

impl Field for Option<Text> {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        from.bool(what)?.then(|| from.text(what)).transpose()
    }

    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError> {
        to.bool(self.is_some());
        self.as_ref().map_or(Ok(()), |text| to.text(text, what))
    }
}

impl Field for Text {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        Option::read(from, what)?.ok_or(DecodeError::Missing(what))
    }

    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError> {
        to.bool(true);
        to.text(self, what)
    }
}

impl Field for Option<Bytes> {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        from.bool(what)?.then(|| from.long(what)).transpose()
    }

    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError> {
        to.bool(self.is_some());
        self.as_ref().map_or(Ok(()), |bytes| to.long(bytes, what))
    }
}

impl<T: Object> Field for Option<T> {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        if !from.bool(what)? {
            return Ok(None);
        }
        let kind = from.u8(what)?;
        T::read_as(kind, from, what).map(Some)
    }

    fn write(&self, to: &mut Writer<'_>, _: &'static str) -> Result<(), EncodeError> {
        to.bool(self.is_some());
        self.as_ref().map_or(Ok(()), |object| write_object(object, to))
    }
}

impl<T: Object> Field for Vec<T> {
    fn read(from: &mut Reader, what: &'static str) -> Result<Self, DecodeError> {
        if !from.bool(what)? {
            return Ok(Self::new());
        }
        // None is shorter than the byte that says that it is absent, so that no more are read than there are bytes.
        let count = from.u16(what)?;
        let mut all = Self::new();
        for _ in 0..count {
            all.push(Option::read(from, what)?.ok_or(DecodeError::Missing(what))?);
        }
        Ok(all)
    }

    fn write(&self, to: &mut Writer<'_>, what: &'static str) -> Result<(), EncodeError> {
        to.bool(!self.is_empty());
        if self.is_empty() {
            return Ok(());
        }
        to.i16(i16::try_from(self.len()).map_err(|_| EncodeError { what, length: self.len() })?);
        self.iter().try_for_each(|object| {
            to.bool(true);
            write_object(object, to)
        })
    }
}

fn write_object(object: &impl Object, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    to.u8(object.kind());
    object.write_body(to)
}

/// Reads an object that has to be there.
pub(crate) fn required<T: Object>(from: &mut Reader, what: &'static str) -> Result<T, DecodeError> {
    Option::read(from, what)?.ok_or(DecodeError::Missing(what))
}

/// A structure whose fields stand on the wire in the order of the declaration.
macro_rules! structure {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            pub(crate) fn read(from: &mut $crate::reader::Reader) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $($field: $crate::field::Field::read(
                        from,
                        concat!(stringify!($name), ".", stringify!($field)),
                    )?,)*
                })
            }

            pub(crate) fn write(
                &self,
                to: &mut $crate::writer::Writer<'_>,
            ) -> Result<(), $crate::EncodeError> {
                $($crate::field::Field::write(
                    &self.$field,
                    to,
                    concat!(stringify!($name), ".", stringify!($field)),
                )?;)*
                Ok(())
            }
        }
    };
}

/// A structure that stands in fields, absent or with its type's number.
macro_rules! object {
    ($(#[$about:meta])* $name:ident = $kind:literal { $($fields:tt)* }) => {
        $crate::field::structure! { $(#[$about])* $name { $($fields)* } }

        impl $crate::field::Object for $name {
            fn kind(&self) -> u8 {
                $kind
            }

            fn read_as(
                kind: u8,
                from: &mut $crate::reader::Reader,
                what: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                if kind == $kind { Self::read(from) } else { Err($crate::DecodeError::Type { what, kind }) }
            }

            fn write_body(&self, to: &mut $crate::writer::Writer<'_>) -> Result<(), $crate::EncodeError> {
                self.write(to)
            }
        }

        /// Where it has to be there.
        impl $crate::field::Field for $name {
            fn read(
                from: &mut $crate::reader::Reader,
                what: &'static str,
            ) -> Result<Self, $crate::DecodeError> {
                $crate::field::required(from, what)
            }

            fn write(
                &self,
                to: &mut $crate::writer::Writer<'_>,
                _: &'static str,
            ) -> Result<(), $crate::EncodeError> {
                to.bool(true);
                to.u8($kind);
                $name::write(self, to)
            }
        }
    };
}

pub(crate) use {object, structure};
