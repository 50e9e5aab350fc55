use std::{collections::BTreeMap, str::FromStr};

use crate::Result;

/// `name=value` arguments.
#[derive(Debug, Default)]
pub(crate) struct Args(BTreeMap<String, String>);

impl Args {
    /// Reads what is left of the command line.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut args = BTreeMap::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is not name=value"))?;
            args.insert(name.to_owned(), value.to_owned());
        }
        Ok(Self(args))
    }

    /// The value of a name, or a default.
    pub(crate) fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => {
                value.parse().map_err(|_| format!("{name}={value} is not of the right kind").into())
            }
        }
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
