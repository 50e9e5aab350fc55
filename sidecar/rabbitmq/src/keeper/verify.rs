//! How a queue was declared, asked of the broker, and what follows from it.

use lockstep_broker::Problem;
use lockstep_exclusive::{Failure, Pace};

use crate::{
    amqp::{AmqpError, Connection, Fields, OpenConfig},
    config::Config,
    declaration::{Declaration, Learned, Probe, Value, Version, Wanted},
    management::{self, ManagementError},
    problem::{of_channel, permissions, reason},
};

/// What is known of a queue's declaration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verified {
    /// Where a rejected message goes is known: it is not dropped.
    pub(crate) may_reject: bool,
    /// What somebody should know of it, the gravest first.
    pub(crate) warnings: Vec<Problem>,
    /// Why it is not known whether the queue has one consumer at a time.
    pub(crate) unverified: Option<Problem>,
}

/// Finds out how a queue was declared, and judges it.
///
/// # Errors
/// It must not be consumed, or the connection failed.
pub(crate) async fn verify(
    config: &Config,
    open: &OpenConfig,
    connection: &Connection,
    queue: &str,
) -> Result<Verified, Failure> {
    let wanted = Wanted { queue, config, version: Version::of(&connection.server().version) };
    let mut trouble = None;
    let mut found = None;
    if let Some(url) = &config.management {
        match management::queue(url, &config.vhost, queue, open).await {
            Ok(declaration) => found = declaration,
            Err(error) => trouble = Some(management_failed(url, &error)),
        }
    }
    if found.is_none() {
        found = probe(config, connection, queue).await?;
    }
    let mut verified = Verified::default();
    match found {
        Some(found) => {
            let judgement = wanted.judge(&found);
            if let Some(problem) = judgement.refused {
                return Err(Failure { pace: Pace::Slow, problem: Some(problem) });
            }
            verified.may_reject = found.dead_letter_exchange;
            verified.warnings = judgement.warnings;
        }
        None => {
            verified.warnings.extend(wanted.dead_letters(None));
            if config.ordering.is_ordered() && !config.assumed {
                let dead_letters = !verified.warnings.is_empty();
                verified.unverified = Some(unverified(config, queue, trouble.as_ref(), dead_letters));
            }
        }
    }
    verified.warnings.extend(trouble);
    Ok(verified)
}

/// Learns a queue's arguments by declaring it until the broker agrees. `None` where that is not permitted or leads nowhere.
async fn probe(
    config: &Config,
    connection: &Connection,
    queue: &str,
) -> Result<Option<Declaration>, Failure> {
    let failed = |error: AmqpError| of_channel(&error, queue, config);
    let mut probe = Probe::new();
    loop {
        let (channel, _) = connection.open_channel().await.map_err(failed)?;
        // A queue that does not exist must not be made by the question.
        channel.declare_passive(queue).await.map_err(failed)?;
        let arguments = probe.arguments().fold(Fields::new(), |fields, (name, value)| match value {
            Value::Bool(value) => fields.flag(name, *value),
            Value::Int(value) => fields.int(name, *value),
            Value::Text(value) => fields.text(name, value),
        });
        match channel.declare(queue, probe.durable(), &arguments).await {
            Ok(_) => {
                // What became of it changes nothing.
                let _: Result<(), AmqpError> = channel.close().await;
                return Ok(Some(probe.agreed()));
            }
            Err(error) => match error.close() {
                Some(close) if close.code == 406 && probe.learn(&close.text) == Learned::Something => {}
                Some(close) if matches!(close.code, 403 | 405 | 406) => return Ok(None),
                Some(_) | None => return Err(failed(error)),
            },
        }
    }
}

/// One notice is shown of a source, so that this one tells all that has the same cause and the same cure.
fn unverified(config: &Config, queue: &str, trouble: Option<&Problem>, dead_letters: bool) -> Problem {
    let also = if dead_letters {
        ", nor whether it has a dead-letter exchange, without which messages that are given up wait"
    } else {
        ""
    };
    let why = trouble.map_or("there is no management API to ask", |trouble| &trouble.message);
    Problem {
        reason: reason::OWNERSHIP_UNVERIFIED,
        message: format!(
            "it can't be verified that queue {queue} hands its messages to one consumer at a time{also}: {why}, and \
             declaring the queue shows nothing to this user"
        ),
        remedy: format!(
            "set management.url to one that answers, or permit declaring: {}; or, when you are sure, set ownership: Assumed",
            permissions(config, true)
        ),
    }
}

fn management_failed(url: &str, error: &ManagementError) -> Problem {
    Problem {
        reason: reason::MANAGEMENT_FAILED,
        message: format!("the management API at {url} can't be used: {error}"),
        remedy: "correct management.url, or give the user the tag monitoring or management: rabbitmqctl set_user_tags USER \
                 monitoring"
            .to_owned(),
    }
}
