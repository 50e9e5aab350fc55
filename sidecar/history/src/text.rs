//! Histories as lines of text: `kind name=value ...`, values percent-encoded. One line is one event, so that several
//! processes can append to files and a kill loses at most the line being written.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use crate::{Event, History, How, Outcome};

/// A line that is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the history is no event: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for History {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let parse = |(index, line): (usize, &str)| {
            line.parse::<Event>().map_err(|reason| ParseError { line: index + 1, reason })
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        Ok(Self { events: lines.map(parse).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published { queue, position, key } => {
                write!(f, "published queue={} position={position}", Escaped(queue))?;
                optional(f, "key", key.as_deref())
            }
            Self::Start { at, post, queue, position, attempt, consumer, epoch } => {
                write!(f, "start at={at} post={} queue={}", Escaped(post), Escaped(queue))?;
                write!(f, " position={position} attempt={attempt} consumer={}", Escaped(consumer))?;
                epoch.map_or(Ok(()), |epoch| write!(f, " epoch={epoch}"))
            }
            Self::End { at, post, outcome: Outcome::Answered(status) } => {
                write!(f, "end at={at} post={} outcome={status}", Escaped(post))
            }
            Self::End { at, post, outcome: Outcome::Broken } => {
                write!(f, "end at={at} post={} outcome=broken", Escaped(post))
            }
            Self::Commit { at, queue, position } => {
                write!(f, "commit at={at} queue={} position={position}", Escaped(queue))
            }
            Self::Final { at, queue, position, how } => {
                let how = match how {
                    How::DeadLetter => "dead-letter",
                    How::Skip => "skip",
                };
                write!(f, "final at={at} queue={} position={position} how={how}", Escaped(queue))
            }
            Self::Fault { at, name, queue, duplicates, overlaps } => {
                write!(
                    f,
                    "fault at={at} name={} duplicates={duplicates} overlaps={overlaps}",
                    Escaped(name)
                )?;
                optional(f, "queue", queue.as_deref())
            }
        }
    }
}

fn optional(f: &mut fmt::Formatter<'_>, name: &str, value: Option<&str>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {name}={}", Escaped(value)))
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let kind = words.next().ok_or("it is empty")?;
        let mut fields = Fields::read(words)?;
        let event = match kind {
            "published" => Self::Published {
                queue: fields.text("queue")?,
                position: fields.number("position")?,
                key: fields.key()?,
            },
            "start" => Self::Start {
                at: fields.number("at")?,
                post: fields.text("post")?,
                queue: fields.text("queue")?,
                position: fields.number("position")?,
                attempt: fields.number("attempt")?,
                consumer: fields.text("consumer")?,
                epoch: if fields.has("epoch") { Some(fields.number("epoch")?) } else { None },
            },
            "end" => {
                Self::End { at: fields.number("at")?, post: fields.text("post")?, outcome: fields.outcome()? }
            }
            "commit" => Self::Commit {
                at: fields.number("at")?,
                queue: fields.text("queue")?,
                position: fields.number("position")?,
            },
            "final" => Self::Final {
                at: fields.number("at")?,
                queue: fields.text("queue")?,
                position: fields.number("position")?,
                how: fields.how()?,
            },
            "fault" => Self::Fault {
                at: fields.number("at")?,
                name: fields.text("name")?,
                queue: if fields.has("queue") { Some(fields.text("queue")?) } else { None },
                duplicates: fields.number("duplicates")?,
                overlaps: fields.number("overlaps")?,
            },
            other => return Err(format!("kind {other} is unknown")),
        };
        fields.end().map(|()| event)
    }
}

/// The fields of a line that were not read yet.
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut fields = BTreeMap::new();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} has no value"))?;
            if fields.insert(name.to_owned(), unescape(value)?).is_some() {
                return Err(format!("{name} comes twice"));
            }
        }
        Ok(Self(fields))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn take(&mut self, name: &str) -> Result<String, String> {
        self.0.remove(name).ok_or_else(|| format!("{name} is missing"))
    }

    fn text(&mut self, name: &str) -> Result<Arc<str>, String> {
        self.take(name).map(Arc::from)
    }

    fn number<T: FromStr>(&mut self, name: &str) -> Result<T, String> {
        let value = self.take(name)?;
        value.parse().map_err(|_| format!("{name}={value} is no number"))
    }

    fn key(&mut self) -> Result<Option<Arc<str>>, String> {
        if self.has("key") { self.text("key").map(Some) } else { Ok(None) }
    }

    fn outcome(&mut self) -> Result<Outcome, String> {
        if self.0.get("outcome").is_some_and(|outcome| outcome == "broken") {
            self.take("outcome").map(|_| Outcome::Broken)
        } else {
            self.number("outcome").map(Outcome::Answered)
        }
    }

    fn how(&mut self) -> Result<How, String> {
        match self.take("how")?.as_str() {
            "dead-letter" => Ok(How::DeadLetter),
            "skip" => Ok(How::Skip),
            other => Err(format!("how={other} is unknown")),
        }
    }

    fn end(self) -> Result<(), String> {
        self.0.into_keys().next().map_or(Ok(()), |name| Err(format!("{name} is unknown")))
    }
}

/// A value without blanks, line ends and percent signs.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character == '%' || character.is_whitespace() || character.is_control() {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    write!(f, "%{byte:02X}")?;
                }
            } else {
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let wrong = || format!("{value} has a wrong percent sign");
        let (code, rest) = part.split_at_checked(2).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| wrong())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| format!("{value} is no UTF-8"))
}
