//! The tools of the tests do what they say.

#[cfg(test)]
mod tools;
