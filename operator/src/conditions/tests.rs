//! The truth table, a line a row.

mod documents;
mod messages;
mod table;
