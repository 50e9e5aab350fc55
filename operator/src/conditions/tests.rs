//! The truth table, a line a row.

mod cases;
mod documents;
mod messages;
mod table;
