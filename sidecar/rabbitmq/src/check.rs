//! Looks at a source without consuming from it, and says what will be in the way.

use lockstep_broker::{Finding, Severity};

use crate::{
    amqp::{AmqpError, Budget, Connection},
    config::{Config, DeadLetter},
    dead_letter,
    keeper::verify::verify,
    problem::{hopeless, of_channel, of_connection, of_credentials},
    shared::open_config,
};

/// Asks every node whether it can be used, and one of them how the queues were declared. Consumes nothing and changes
/// nothing. Takes 5 s for each node that does not answer. Empty when all is well.
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut findings: Vec<_> = prefetch(config).into_iter().collect();
    let open = match open_config(config, &format!("{} check", config.name), &Budget::default()).await {
        Ok(open) => open,
        Err(bad) => {
            findings.push(Finding::error(of_credentials(&bad)));
            return findings;
        }
    };
    let mut good = None;
    let mut bad = Vec::new();
    for node in &config.nodes {
        match Connection::open(node, &open).await {
            Ok(connection) => good = good.or(Some(connection)),
            Err(error) => bad.push(of_connection(&error, config)),
        }
    }
    let severity = if good.is_some() { Severity::Warning } else { Severity::Error };
    findings.extend(bad.into_iter().map(|problem| Finding { severity, problem }));
    if let Some(connection) = good {
        for queue in &config.queues {
            findings.extend(of_queue(config, &connection, &open, queue).await);
        }
        findings.extend(of_dead_letters(config, &connection).await);
        connection.close().await;
    }
    Finding::in_order(findings)
}

async fn of_queue(
    config: &Config,
    connection: &Connection,
    open: &crate::amqp::OpenConfig,
    queue: &str,
) -> Vec<Finding> {
    match verify(config, open, connection, queue).await {
        Ok(verified) => {
            verified.unverified.into_iter().chain(verified.warnings).map(Finding::warning).collect()
        }
        Err(failure) => failure.problem.map(Finding::error).into_iter().collect(),
    }
}

async fn of_dead_letters(config: &Config, connection: &Connection) -> Option<Finding> {
    let DeadLetter::Queue(target) = &config.dead_letter else { return None };
    let look = async {
        let (channel, _) = connection.open_channel().await?;
        channel.declare_passive(target).await
    };
    let error: AmqpError = look.await.err()?;
    let missing = error.close().is_some_and(|close| close.code == 404);
    let problem = if missing {
        Some(dead_letter::not_found(config, target))
    } else {
        of_channel(&error, target, config).problem
    };
    problem.map(Finding::error)
}

/// Whether the acknowledgement timeout can be kept.
fn prefetch(config: &Config) -> Option<Finding> {
    config.prefetch().hopeless.then(|| Finding::warning(hopeless(config)))
}
