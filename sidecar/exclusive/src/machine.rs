//! One queue's ownership as a state machine without I/O: inputs are what happened, commands what to do.
//!
//! A queue in order is looked at until nobody consumes it; then a consumer is opened, consumes and is the owner. Nobody stands
//! by as a second consumer: a quorum queue counts the active one only and tells nobody who that is, so that an idle
//! consumer could not know what it is. The broker's single active consumer stays the fence for those who look at the same
//! moment. The ownership ends with the consumer; a lost connection leaves it in doubt until its lease is over or a new
//! consumer consumes.

mod standing;
#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use lockstep_model::{Epoch, Moment};

pub(crate) use self::words::{Command, Context, Input};
use crate::{Pace, Pulse};

/// How often a queue that somebody else consumes is looked at by who wants it.
const STANDBY: Duration = Duration::from_millis(500);
/// How soon a consumer that is starved is looked at again.
const STARVED_LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row that find messages ready and none with us: the broker has another consumer.
const STARVED_MOST: u32 = 2;
/// How soon an unanswered proof of life is asked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often a queue that is another's is looked at.
const WATCH: Duration = Duration::from_secs(5);
/// How long a queue must be without any consumer before it is taken though it is another's.
const ORPHANED: Duration = Duration::from_secs(30);
/// How long an orphan is kept before it is offered to whom it belongs, who can't be seen waiting.
const ADOPTED_FOR: Duration = Duration::from_secs(20);
/// How long it is offered: who waits looks often enough.
const OFFERED_FOR: Duration = Duration::from_secs(2);
/// A consumer that lived so long was a good one: the next failure is the first.
const HEALTHY: Duration = Duration::from_secs(60);

/// One queue.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The broker makes one consumer active at a time.
    exclusive: bool,
    pulse: Pulse,
    joined: bool,
    connected: bool,
    hint: Option<bool>,
    /// Taken though it is another's, since nobody consumed it.
    adopted_until: Option<Moment>,
    orphan_since: Option<Moment>,
    orphan_wait: Duration,
    watch: Question,
    /// We gave it back to have it anew.
    ours: bool,
    link: Link,
    owned: Option<Owned>,
    /// Consumers opened so far; the last one's number.
    numbers: u64,
    failures: u32,
    retry_at: Moment,
    /// The last count was answered.
    seen: bool,
}

/// The queue's consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    None,
    Opening(u64),
    Consuming { number: u64, since: Moment, look: Question, starved: u32 },
    Closing(u64),
}

/// A question that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    at: Moment,
    asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    epoch: Epoch,
    deadline: Moment,
    /// The connection was lost.
    doubtful: bool,
    revoking: Option<Why>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It is another's to take.
    Hint,
    /// What is out has to come anew.
    Rewind,
}

impl Machine {
    pub(crate) fn new(exclusive: bool, pulse: Pulse) -> Self {
        Self {
            exclusive,
            pulse,
            joined: false,
            connected: false,
            hint: None,
            adopted_until: None,
            orphan_since: None,
            orphan_wait: ORPHANED,
            ours: false,
            watch: Question { at: Moment::ZERO, asked: false },
            link: Link::None,
            owned: None,
            numbers: 0,
            failures: 0,
            retry_at: Moment::ZERO,
            seen: false,
        }
    }

    /// The signs of life that were agreed on with the broker.
    pub(crate) fn agreed(&mut self, pulse: Pulse) {
        self.pulse = pulse;
    }

    /// Takes one input and answers what to do by commands.
    pub(crate) fn handle(&mut self, input: Input, context: &mut Context<'_>) {
        self.expire(context);
        match input {
            Input::Tick => {}
            Input::Joined(joined) => self.joined = joined,
            Input::Hinted(hint) => self.hinted(hint),
            Input::Connected(true) => self.connected = true,
            Input::Connected(false) => self.disconnected(context),
            Input::Opened { number, sent } => self.opened(number, sent, context),
            Input::Taken { number } if self.link == Link::Opening(number) => {
                self.link = Link::None;
                self.watch.at = context.now + STANDBY;
            }
            Input::Refused { number, pace } if self.link == Link::Opening(number) => {
                self.link = Link::None;
                self.failed(pace, context);
            }
            Input::Looked { number, sent, consumers, starved } => {
                self.looked(number, sent, consumers.filter(|consumers| *consumers > 0), starved, context);
            }
            Input::Ended { number, open, pace } => self.ended(number, open, pace, context),
            Input::Closed { number } if self.link == Link::Closing(number) => {
                self.link = Link::None;
                self.watch.at = context.now;
            }
            Input::Refused { .. } | Input::Taken { .. } | Input::Closed { .. } => {}
            Input::Counted(consumers) => self.counted(consumers, context),
            Input::Release(epoch) => self.release(epoch, context),
            Input::Rewind => self.revoke(Why::Rewind, context),
        }
        self.strive(context);
    }

    fn expire(&mut self, context: &mut Context<'_>) {
        self.adopted_until.take_if(|until| *until <= context.now);
        let Some(owned) = self.owned.filter(|owned| owned.deadline <= context.now) else { return };
        self.owned = None;
        context.commands.push(Command::Lost { epoch: owned.epoch });
        // A consumer that gives no sign of life may still have the queue at the broker.
        self.close(context);
    }

    fn hinted(&mut self, hint: Option<bool>) {
        self.hint = hint;
        self.adopted_until = None;
        self.orphan_since = None;
        self.orphan_wait = ORPHANED;
        // At once, since who had it may just have given it back.
        self.watch.at = Moment::ZERO;
    }

    fn disconnected(&mut self, context: &mut Context<'_>) {
        self.connected = false;
        self.link = Link::None;
        self.watch = Question { at: Moment::ZERO, asked: false };
        self.orphan_since = None;
        self.seen = false;
        self.ours = false;
        if let Some(owned) = self.owned.as_mut().filter(|owned| !owned.doubtful) {
            owned.doubtful = true;
            context.commands.push(Command::Doubtful { epoch: owned.epoch });
        }
    }

    fn opened(&mut self, number: u64, sent: Moment, context: &mut Context<'_>) {
        if self.link != Link::Opening(number) {
            return;
        }
        let look = Question { at: sent + self.pulse.look, asked: false };
        self.link = Link::Consuming { number, since: context.now, look, starved: 0 };
        // What was out on the old consumer is handed out again.
        if let Some(old) = self.owned.take() {
            context.commands.push(Command::Lost { epoch: old.epoch });
        }
        if !self.is_wanted() {
            self.close(context);
            return;
        }
        self.ours = false;
        let epoch = context.epochs.advance();
        let deadline = sent + self.pulse.lease;
        self.owned = Some(Owned { epoch, deadline, doubtful: false, revoking: None });
        context.commands.push(Command::Acquired { number, epoch, deadline });
    }

    fn looked(
        &mut self,
        number: u64,
        sent: Moment,
        consumers: Option<u32>,
        is_starved: bool,
        context: &mut Context<'_>,
    ) {
        let Link::Consuming { number: open, look, starved, .. } = &mut self.link else { return };
        if *open != number {
            return;
        }
        look.asked = false;
        // A broker that counts none has no way to the queue's leader: it can't vouch for our being its consumer.
        if consumers.is_none() {
            look.at = context.now + LOOK_AGAIN;
            return;
        }
        if !is_starved || !self.exclusive {
            *starved = 0;
            self.renew(sent, context);
            return;
        }
        *starved += 1;
        look.at = context.now + STARVED_LOOK;
        if *starved >= STARVED_MOST {
            self.failed(Pace::Quick, context);
            if let Some(owned) = self.owned.take() {
                context.commands.push(Command::Lost { epoch: owned.epoch });
            }
            self.close(context);
        }
    }

    fn renew(&mut self, sent: Moment, context: &mut Context<'_>) {
        let deadline = sent + self.pulse.lease;
        if let Link::Consuming { look, .. } = &mut self.link {
            look.at = look.at.max(sent + self.pulse.look);
        }
        if let Some(owned) = self.owned.as_mut().filter(|owned| owned.deadline < deadline) {
            owned.deadline = deadline;
            context.commands.push(Command::Renewed { epoch: owned.epoch, deadline });
        }
    }

    fn ended(&mut self, number: u64, open: bool, pace: Pace, context: &mut Context<'_>) {
        match self.link {
            Link::Consuming { number: consuming, since, .. } if consuming == number => {
                if context.now.since(since) >= HEALTHY {
                    self.failures = 0;
                }
                self.failed(pace, context);
                if let Some(owned) = self.owned.take() {
                    context.commands.push(Command::Lost { epoch: owned.epoch });
                }
                if open {
                    self.close(context);
                } else {
                    self.link = Link::None;
                }
            }
            Link::None | Link::Opening(_) | Link::Consuming { .. } | Link::Closing(_) => {}
        }
    }

    fn counted(&mut self, consumers: Result<u32, Pace>, context: &mut Context<'_>) {
        let now = context.now;
        let wanted = self.is_wanted();
        let pause = if wanted { STANDBY } else { WATCH.min(self.orphan_wait) };
        self.watch = Question { at: now + pause, asked: false };
        self.seen = consumers.is_ok();
        match consumers {
            Ok(0) if wanted => self.open(context),
            Ok(0) => {
                let since = *self.orphan_since.get_or_insert(now);
                if self.hint == Some(false) && now.since(since) >= self.orphan_wait {
                    self.orphan_wait = OFFERED_FOR;
                    self.orphan_since = None;
                    self.adopted_until = Some(now + ADOPTED_FOR);
                    self.open(context);
                }
            }
            Ok(_) => {
                self.orphan_since = None;
                self.orphan_wait = ORPHANED;
            }
            Err(pace) => {
                self.orphan_since = None;
                self.failed(pace, context);
                self.watch.at = self.watch.at.max(self.retry_at);
            }
        }
    }

    fn open(&mut self, context: &mut Context<'_>) {
        if self.link == Link::None && self.connected {
            self.numbers += 1;
            self.link = Link::Opening(self.numbers);
            let contested = self.exclusive && self.hint != Some(true) && !self.ours;
            context.commands.push(Command::Open { number: self.numbers, contested });
        }
    }

    fn release(&mut self, epoch: Epoch, context: &mut Context<'_>) {
        let Some(owned) = self.owned.take_if(|owned| owned.epoch == epoch) else { return };
        self.ours = owned.revoking == Some(Why::Rewind);
        // It ends before the broker reads of it, so that the next owner surely begins later. A consumer that is gone with
        // its connection needs no closing.
        context.commands.push(Command::Released { epoch });
        self.close(context);
    }

    fn revoke(&mut self, why: Why, context: &mut Context<'_>) {
        let Some(owned) = &mut self.owned else { return };
        if owned.revoking.is_none() && !owned.doubtful {
            owned.revoking = Some(why);
            context.commands.push(Command::Revoking { epoch: owned.epoch });
        }
    }

    fn close(&mut self, context: &mut Context<'_>) {
        if let Link::Consuming { number, .. } = self.link {
            self.link = Link::Closing(number);
            context.commands.push(Command::Close { number });
        }
    }

    fn failed(&mut self, pace: Pace, context: &Context<'_>) {
        let (first, longest) = match pace {
            Pace::Quick => (Duration::from_millis(200), Duration::from_secs(5)),
            Pace::Slow => (Duration::from_secs(2), Duration::from_secs(5)),
            Pace::Reconnect => return,
        };
        let full = first.saturating_mul(1 << self.failures.min(10)).min(longest);
        let share = full / 2 * u32::from(context.jitter) / u32::from(u16::MAX);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = context.now + full / 2 + share;
    }

    /// Brings the link nearer to what is wanted.
    fn strive(&mut self, context: &mut Context<'_>) {
        let (now, joined, exclusive) = (context.now, self.joined, self.exclusive);
        let (wanted, watched) = (self.is_wanted(), self.is_watched());
        match &mut self.link {
            Link::Consuming { .. } if self.owned.is_none() && !wanted => self.close(context),
            Link::Consuming { number, look, .. } => {
                if !look.asked && look.at <= now {
                    look.asked = true;
                    context.commands.push(Command::Look { number: *number });
                }
                // Who leaves is asked to release by the shell.
                if joined && !wanted {
                    self.revoke(Why::Hint, context);
                } else if wanted {
                    self.keep(context);
                }
            }
            Link::None if !self.connected || self.watch.asked => {}
            Link::None if wanted && !exclusive => {
                if self.retry_at <= now {
                    self.open(context);
                }
            }
            Link::None if (wanted && self.retry_at <= now || watched) && self.watch.at <= now => {
                self.watch.asked = true;
                context.commands.push(Command::Count);
            }
            Link::None | Link::Opening(_) | Link::Closing(_) => {}
        }
    }

    fn keep(&mut self, context: &mut Context<'_>) {
        let Some(owned) = &mut self.owned else { return };
        if owned.revoking == Some(Why::Hint) {
            owned.revoking = None;
            context.commands.push(Command::RevocationCancelled { epoch: owned.epoch });
        }
    }
}
