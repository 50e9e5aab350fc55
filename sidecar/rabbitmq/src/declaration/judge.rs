//! Whether a declaration does for what is wanted, and which one would.

use lockstep_broker::Problem;

use super::{Declaration, Kind, Version};
use crate::{
    config::{Config, DeadLetter},
    problem::{quoted, reason},
};

/// What is wanted of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) queue: &'a str,
    pub(crate) config: &'a Config,
    /// `None` when the server names none that can be read.
    pub(crate) version: Option<Version>,
}

/// What is wrong with a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Judgement {
    /// It must not be consumed.
    pub(crate) refused: Option<Problem>,
    /// It may, and somebody should know.
    pub(crate) warnings: Vec<Problem>,
}

impl Wanted<'_> {
    /// Judges a declaration.
    pub(crate) fn judge(&self, found: &Declaration) -> Judgement {
        let mut judgement = Judgement::default();
        let refused =
            self.kind(found, &mut judgement.warnings).or_else(|| self.limit(found, &mut judgement.warnings));
        judgement.refused = refused;
        if let Some(setting) = found.overtaking.filter(|_| self.config.ordering.is_ordered()) {
            let message = format!("has {setting}, by which messages are handed out before older ones");
            judgement.warnings.push(self.problem(reason::MESSAGES_OVERTAKE, &message, self.anew()));
        }
        judgement.warnings.extend(self.dead_letters(Some(found)));
        judgement
    }

    /// What becomes of messages that are given up by rejecting them. With `Block` that is none but by hand, and who does that
    /// is told then.
    pub(crate) fn dead_letters(&self, found: Option<&Declaration>) -> Option<Problem> {
        let by_broker = self.config.dead_letter == DeadLetter::Broker;
        if !by_broker || self.config.block || found.is_some_and(|found| found.dead_letter_exchange) {
            return None;
        }
        let named = "write deadLetter: {policy: Queue, name: QUEUE}";
        if found.is_some_and(|found| found.with_policies) {
            return Some(self.problem(
                reason::DEAD_LETTER_UNSUPPORTED,
                "has no dead-letter exchange, so that the broker would drop what is dead-lettered; such messages wait",
                format!("set one by a policy (dead-letter-exchange), or {named}"),
            ));
        }
        Some(self.problem(
            reason::DEAD_LETTER_UNSUPPORTED,
            "is not seen to have a dead-letter exchange, without which the broker would drop what is dead-lettered; such \
             messages wait",
            format!("set management.url, which alone shows the exchange of a policy, or {named}"),
        ))
    }

    fn kind(&self, found: &Declaration, warnings: &mut Vec<Problem>) -> Option<Problem> {
        let ordered = self.config.ordering.is_ordered();
        match &found.kind {
            Kind::Stream => {
                let remedy = "consume an ordinary queue that is bound to the same exchange".to_owned();
                return Some(self.problem(
                    reason::STREAM_UNSUPPORTED,
                    "is a stream, which is not served",
                    remedy,
                ));
            }
            Kind::Other(kind) if ordered => {
                let message = format!("is of the type {kind}, whose order nobody vouches for");
                return Some(self.problem(reason::QUEUE_TYPE_UNSUPPORTED, &message, self.anew()));
            }
            Kind::Other(_) | Kind::Classic | Kind::Quorum => {}
        }
        if !ordered {
            return None;
        }
        if !found.single_active {
            let message = "has no single active consumer, so that two pods may consume it at once";
            return Some(self.problem(reason::NOT_SINGLE_ACTIVE, message, self.anew()));
        }
        if found.kind != Kind::Classic {
            return None;
        }
        if self.version.is_none_or(Version::crashes_on_hand_over) {
            let message = "is a classic queue, whose process crashes in this release when its single active consumer \
                           changes (fixed in 3.10.13 and 3.11.5)";
            return Some(self.problem(reason::CLASSIC_QUEUE, message, self.anew()));
        }
        let message = "is a classic queue, which one node keeps: it is lost or away with that node";
        warnings.push(self.problem(reason::CLASSIC_QUEUE, message, self.anew()));
        None
    }

    fn limit(&self, found: &Declaration, warnings: &mut Vec<Problem>) -> Option<Problem> {
        if found.kind != Kind::Quorum {
            return None;
        }
        let limits_all = self.version.is_none_or(|version| version >= Version::LIMITS_ALL);
        // 20 by default from 4.0 on.
        let limit = found.limit.or_else(|| limits_all.then_some(20)).filter(|limit| *limit >= 0)?;
        let ordered = self.config.ordering.is_ordered();
        let has = if found.limit.is_some() || found.with_policies {
            format!("has a delivery limit of {limit}")
        } else {
            format!(
                "has this release's delivery limit of {limit}, unless a policy that is not seen lifts it,"
            )
        };
        if found.dead_letter_exchange {
            if ordered || self.config.block {
                let message = format!(
                    "{has}: a message that was given back more often leaves its place for the dead-letter exchange, also \
                     when it never reached the application"
                );
                warnings.push(self.problem(
                    reason::DELIVERY_LIMIT_FINITE,
                    &message,
                    self.unlimited(limits_all),
                ));
            }
            return None;
        }
        let exchange = if found.with_policies {
            "no dead-letter exchange"
        } else {
            "no dead-letter exchange among its arguments (a policy's is not seen)"
        };
        let message = format!(
            "{has} and {exchange}: a message that was given back more often is lost, also when it never reached the \
             application"
        );
        let problem = self.problem(reason::DELIVERY_LIMIT_FINITE, &message, self.unlimited(limits_all));
        if ordered && found.with_policies {
            return Some(problem);
        }
        warnings.push(problem);
        None
    }

    fn unlimited(&self, limits_all: bool) -> String {
        if limits_all {
            format!(
                "lift it by a policy: rabbitmqctl set_policy -p '{}' --apply-to queues unlimited '^{}$' \
                 '{{\"delivery-limit\":-1}}' (and remove the argument x-delivery-limit), or {}",
                self.config.vhost,
                quoted(self.queue),
                self.anew()
            )
        } else {
            self.anew()
        }
    }

    fn anew(&self) -> String {
        let right = right(self.config, self.queue, self.version);
        format!(
            "arguments of a queue can't be changed: when it is empty, delete it and declare it anew: {right}"
        )
    }

    fn problem(&self, reason: &'static str, what: &str, remedy: String) -> Problem {
        Problem { reason, message: format!("queue {} {what}", self.queue), remedy }
    }
}

/// The command that declares the queue as it should be. Which one that is for a release that is not known is said in words:
/// before 4.0 a limit of -1 drops messages.
pub(crate) fn right(config: &Config, queue: &str, version: Option<Version>) -> String {
    let mut arguments = "\"x-queue-type\":\"quorum\"".to_owned();
    if config.ordering.is_ordered() {
        arguments.push_str(",\"x-single-active-consumer\":true");
    }
    let limits_all = version.map(|version| version >= Version::LIMITS_ALL);
    let unlimited = config.block || config.ordering.is_ordered();
    if unlimited && limits_all == Some(true) {
        arguments.push_str(",\"x-delivery-limit\":-1");
    }
    let from_then_on = if unlimited && limits_all.is_none() {
        "; on RabbitMQ 4.0 and later with \"x-delivery-limit\":-1 among the arguments"
    } else {
        ""
    };
    format!(
        "rabbitmqadmin -V '{}' declare queue name='{queue}' durable=true arguments='{{{arguments}}}'{from_then_on}",
        config.vhost
    )
}
