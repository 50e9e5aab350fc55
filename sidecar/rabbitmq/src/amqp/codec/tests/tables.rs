use bytes::{BufMut, Bytes, BytesMut};

use super::hex;
use crate::amqp::codec::{
    Fields, Table, TableError, Value,
    table::{DEPTH, ENTRIES},
};

fn table(bytes: &str) -> Table {
    Table::from_raw(hex(bytes))
}

/// Tables within each other, the innermost empty.
fn nested(levels: usize) -> Table {
    let mut lengths = Vec::new();
    let mut length = 0u32;
    for _ in 1..levels {
        lengths.push(length);
        // A name of one character, a type, and the inner table's length.
        length += 7;
    }
    let mut out = BytesMut::new();
    for inner in lengths.iter().rev() {
        out.extend_from_slice(b"\x01dF");
        out.put_u32(*inner);
    }
    Table::from_raw(out.freeze())
}

/// Every type, with its value and its JSON.
fn values() -> Vec<(&'static str, Value, &'static str)> {
    let text = Bytes::from_static;
    vec![
        ("74 01", Value::Bool(true), "true"),
        ("74 00", Value::Bool(false), "false"),
        ("62 ff", Value::Int(-1), "-1"),
        ("42 ff", Value::Uint(255), "255"),
        ("73 8000", Value::Int(-32768), "-32768"),
        ("55 8000", Value::Int(-32768), "-32768"),
        ("75 8000", Value::Uint(32768), "32768"),
        ("49 ffffffff", Value::Int(-1), "-1"),
        ("69 ffffffff", Value::Uint(u32::MAX), "4294967295"),
        ("6c 8000000000000000", Value::Int(i64::MIN), "-9223372036854775808"),
        ("4c 0000000000000001", Value::Int(1), "1"),
        ("66 3fc00000", Value::Float(1.5), "1.5"),
        ("64 bff8000000000000", Value::Float(-1.5), "-1.5"),
        ("44 02 00000007", Value::Decimal { scale: 2, digits: 7 }, "0.07"),
        ("44 00 00000007", Value::Decimal { scale: 0, digits: 7 }, "7"),
        ("44 01 0000007b", Value::Decimal { scale: 1, digits: 123 }, "12.3"),
        ("53 00000004 61220a00", Value::Text(text(b"a\"\n\0")), r#""a\"\n\u0000""#),
        ("53 00000001 ff", Value::Text(text(b"\xff")), "\"\u{fffd}\""),
        ("78 00000002 00ff", Value::Binary(text(b"\0\xff")), r#""AP8=""#),
        ("54 0000000000000009", Value::Timestamp(9), "9"),
        ("56", Value::Void, "null"),
        ("46 00000003 016156", Value::Table(table("016156")), r#"{"a":null}"#),
    ]
}

#[test]
fn every_type_is_read_and_rendered() {
    for (bytes, value, json) in values() {
        let table = table(&format!("01 61 {bytes}"));
        assert_eq!(table.get(b"a"), Some(value.clone()), "{bytes}");
        assert_eq!(table.json(1000).unwrap(), format!(r#"{{"a":{json}}}"#), "{bytes}");
        assert_eq!(value.json(1000).unwrap(), json, "{bytes}");
        assert_eq!(table.check(), Ok(()));
    }
}

#[test]
fn every_type_is_written_so_that_it_is_read() {
    for (_, value, _) in values() {
        let again = Fields::new().value("n", &value).into_table().get(b"n").unwrap();
        // Whole numbers are written in one width.
        let same = again == value || again.as_int().is_some_and(|number| Some(number) == value.as_int());
        assert!(same, "{value:?} became {again:?}");
    }
}

#[test]
fn a_table_cut_anywhere_is_an_error() {
    for (bytes, _, _) in values() {
        let whole = hex(&format!("01 61 {bytes}"));
        for length in 1..whole.len() {
            assert_eq!(
                Table::from_raw(whole.slice(..length)).check(),
                Err(TableError::Cut),
                "{bytes} to {length}"
            );
        }
    }
}

#[test]
fn a_length_beyond_what_is_there_is_an_error_at_every_level() {
    for bytes in [
        "ff 61",
        "01 61 53 00000005 61",
        "01 61 53 ffffffff",
        // The inner table is longer than the outer one.
        "01 61 46 00000004 01 62 74",
        "01 61 46 00000005 01 62 46 00000001",
        "01 61 41 00000003 53 0000",
    ] {
        assert_eq!(table(bytes).check(), Err(TableError::Cut), "{bytes}");
        assert!(table(bytes).json(1000).is_err(), "{bytes}");
    }
    assert_eq!(table("01 61 7a").check(), Err(TableError::Type(b'z')));
}

#[test]
fn entries_end_with_the_first_broken_one() {
    let found: Vec<_> = table("01 61 56 01 62 74 01 01 63 7a 01 64 56").entries().collect();
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], Err(TableError::Type(b'z')));
    assert_eq!(table("01 61 56 01 63 7a").get(b"b"), None);
}

#[test]
fn nesting_is_looked_into_as_deep_as_the_bound_and_no_deeper() {
    assert_eq!(nested(DEPTH).check(), Ok(()));
    assert!(nested(DEPTH).json(1000).unwrap().ends_with("{}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}"));
    assert_eq!(nested(DEPTH + 1).check(), Err(TableError::Depth));
}

#[test]
fn five_thousand_levels_are_neither_walked_nor_a_trouble() {
    for levels in [5_000, 140_000] {
        let deep = nested(levels);
        assert_eq!(deep.check(), Err(TableError::Depth));
        assert_eq!(deep.json(1 << 20), Err(TableError::Depth));
        // The level that is asked for can be had.
        assert!(matches!(deep.get(b"d"), Some(Value::Table(_))));
        assert_eq!(deep.entries().count(), 1);
    }
}

#[test]
fn arrays_are_walked_like_tables() {
    let array = table("01 61 41 0000000b 56 74 01 41 00000002 62 07 56");
    assert_eq!(array.json(100).unwrap(), r#"{"a":[null,true,[7],null]}"#);
    let Some(Value::Array(array)) = array.get(b"a") else { panic!() };
    assert_eq!(array.values().count(), 4);
}

#[test]
fn entries_are_counted_over_all_levels() {
    let many = |count: usize| Table::from_raw(Bytes::from(b"\x01aV".repeat(count)));
    assert_eq!(many(ENTRIES).check(), Ok(()));
    assert_eq!(many(ENTRIES + 1).check(), Err(TableError::Entries));
    assert_eq!(many(ENTRIES + 1).entries().last(), Some(Err(TableError::Entries)));
    let half = many(ENTRIES / 2 + 1);
    let two =
        Fields::new().value("x", &Value::Table(half.clone())).value("y", &Value::Table(half)).into_table();
    assert_eq!(two.check(), Err(TableError::Entries));
}

#[test]
fn the_text_form_is_bounded() {
    let long = Fields::new().text("a", &"x".repeat(100)).int("b", 1).into_table();
    let whole = long.json(1000).unwrap();
    assert_eq!(long.json(whole.len()).unwrap(), whole);
    assert_eq!(long.json(whole.len() - 1), Err(TableError::Length(whole.len() - 1)));
    assert_eq!(long.json(50), Err(TableError::Length(50)));
    let Some(text) = long.get(b"a") else { panic!() };
    assert_eq!(text.json(102).unwrap().len(), 102);
    assert_eq!(text.json(101), Err(TableError::Length(101)));
}

#[test]
fn a_copy_leaves_out_what_is_not_wanted() {
    let all =
        Fields::new().text("a", "1").table("b", &Fields::new().int("c", 2)).flag("d", true).into_table();
    let some = Fields::copy_of(&all, |name| name != b"b").unwrap().into_table();
    assert_eq!(some.json(100).unwrap(), r#"{"a":"1","d":true}"#);
    assert_eq!(Fields::copy_of(&all, |_| true).unwrap().into_table(), all);
    assert_eq!(Fields::copy_of(&table("01 61 7a"), |_| true).unwrap_err(), TableError::Type(b'z'));
}
