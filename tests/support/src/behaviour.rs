//! What the recording application does with a message, and the one-line text that programs it at run time.

use std::{fmt, str::FromStr, time::Duration};

/// A rule: for these messages, so often, do that. The first rule that fits a message holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Only messages whose body contains this text.
    pub body: Option<String>,
    /// Only messages at this position.
    pub position: Option<u64>,
    /// Only requests to this path, without its slash.
    pub path: Option<String>,
    /// Only so many requests; afterwards the rule is gone.
    pub times: Option<u32>,
    /// How long the application works first.
    pub delay: Duration,
    /// What it does then.
    pub act: Act,
}

/// What is done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Answer with this status.
    Answer(u16),
    /// Answer with this status and `Retry-After` in seconds.
    RetryAfter(u16, u64),
    /// Answer with this status and this `Lockstep-Verdict`.
    Verdict(u16, String),
    /// Answer 302 to another place.
    Redirect(String),
    /// Keep the connection and say nothing.
    Never,
    /// Close without an answer.
    Close,
    /// Close after half of the answer.
    Half,
    /// Answer 200 with a body of so many bytes.
    Huge(u64),
    /// Close with the request unread, which resets the connection.
    Reset,
    /// Answer something that is no HTTP.
    Garbage,
    /// End the whole process at once, as a crash does.
    Crash,
}

impl Default for Act {
    fn default() -> Self {
        Self::Answer(200)
    }
}

impl Rule {
    /// A rule for all messages.
    pub fn always(act: Act) -> Self {
        Self { act, ..Self::default() }
    }

    /// A rule for messages whose body contains a text.
    pub fn body(text: &str, act: Act) -> Self {
        Self { body: Some(text.to_owned()), act, ..Self::default() }
    }

    /// The same rule with work before it.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same rule for so many requests only.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Takes one from a rule that holds only so often.
    pub(crate) fn used(&mut self) {
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
    }

    /// Whether it holds for a request.
    pub(crate) fn fits(&self, path: &str, position: Option<u64>, body: &[u8]) -> bool {
        let has =
            |text: &String| text.is_empty() || body.windows(text.len()).any(|part| part == text.as_bytes());
        self.path.as_deref().is_none_or(|wanted| wanted == path)
            && self.position.is_none_or(|wanted| Some(wanted) == position)
            && self.body.as_ref().is_none_or(has)
            && self.times != Some(0)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            Act::Answer(status) => write!(f, "answer {status}")?,
            Act::RetryAfter(status, seconds) => write!(f, "retry-after {status},{seconds}")?,
            Act::Verdict(status, verdict) => write!(f, "verdict {status},{verdict}")?,
            Act::Redirect(to) => write!(f, "redirect {to}")?,
            Act::Never => write!(f, "never -")?,
            Act::Close => write!(f, "close -")?,
            Act::Half => write!(f, "half -")?,
            Act::Huge(bytes) => write!(f, "huge {bytes}")?,
            Act::Reset => write!(f, "reset -")?,
            Act::Garbage => write!(f, "garbage -")?,
            Act::Crash => write!(f, "crash -")?,
        }
        write!(f, " delay={}", self.delay.as_micros())?;
        let mut field =
            |name: &str, value: Option<String>| value.map_or(Ok(()), |value| write!(f, " {name}={value}"));
        field("body", self.body.clone())?;
        field("path", self.path.clone())?;
        field("position", self.position.map(|position| position.to_string()))?;
        field("times", self.times.map(|times| times.to_string()))
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("no rule: {line}");
        let mut words = line.split_whitespace();
        let act = act(words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?).ok_or_else(wrong)?;
        let mut rule = Self::always(act);
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match name {
                "delay" => rule.delay = Duration::from_micros(value.parse().map_err(|_| wrong())?),
                "body" => rule.body = Some(value.to_owned()),
                "path" => rule.path = Some(value.to_owned()),
                "position" => rule.position = Some(value.parse().map_err(|_| wrong())?),
                "times" => rule.times = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(rule)
    }
}

fn act(name: &str, value: &str) -> Option<Act> {
    let pair = || value.split_once(',');
    Some(match name {
        "answer" => Act::Answer(value.parse().ok()?),
        "retry-after" => Act::RetryAfter(pair()?.0.parse().ok()?, pair()?.1.parse().ok()?),
        "verdict" => Act::Verdict(pair()?.0.parse().ok()?, pair()?.1.to_owned()),
        "redirect" => Act::Redirect(value.to_owned()),
        "never" => Act::Never,
        "close" => Act::Close,
        "half" => Act::Half,
        "huge" => Act::Huge(value.parse().ok()?),
        "reset" => Act::Reset,
        "garbage" => Act::Garbage,
        "crash" => Act::Crash,
        _ => return None,
    })
}
