//! Conditions by a truth table.
