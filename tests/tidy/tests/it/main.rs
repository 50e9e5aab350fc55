//! The repository keeps the house rules, and each rule finds an offender that is planted.

#[cfg(test)]
mod planted;
#[cfg(test)]
mod repository;
