//! Looks at a source without consuming from it, and says what will be in the way.

use lockstep_broker::{Finding, Severity};

use crate::{
    client::{Budget, Connection, Product},
    config::{Config, Queue},
    problem::{
        classic_dead_letters, no_dead_letter_address, not_exclusive, of_connection, of_consumer,
        of_credentials, unseen, unseen_dead_letters,
    },
    shared::open_config,
    view::{DeadLetters, Seen, View},
};

/// Asks every node whether it can be used, and one of them about the queues. Consumes nothing and changes nothing. Takes 5 s
/// for each node that does not answer. Empty when all is well.
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let open = match open_config(config, &Budget::default()).await {
        Ok(open) => open,
        Err(bad) => return vec![Finding::error(of_credentials(&bad))],
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
        let view = View::new(connection.clone());
        for queue in &config.queues {
            findings.extend(of_queue(config, &view, queue).await);
        }
        if connection.broker().product == Product::Classic && !config.block {
            findings.push(Finding::warning(classic_dead_letters()));
        }
        connection.close().await;
    }
    Finding::in_order(findings)
}

async fn of_queue(config: &Config, view: &View, queue: &Queue) -> Vec<Finding> {
    match view.look(&queue.name).await {
        Ok(seen) => of_seen(config, &queue.name, &seen),
        Err(error) => {
            let failure = of_consumer(&error, &queue.name, view.connection.broker().product);
            failure.problem.map(Finding::error).into_iter().collect()
        }
    }
}

/// What was seen of a queue that will be in the way.
fn of_seen(config: &Config, queue: &str, seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    if config.ordering.is_ordered() {
        let unverified = match (seen.blind(0), seen.product, seen.exclusive) {
            (Some(why), product, _) => Some(unseen(queue, product, &why)),
            (None, Product::Artemis, Some(false)) => Some(not_exclusive(queue)),
            // One that is not there yet is made as the address-setting says.
            (None, Product::Artemis, Some(true) | None) | (None, Product::Classic, _) => None,
        };
        findings.extend(unverified.map(Finding::warning));
    }
    if !config.block {
        let lost = match seen.dead_letters {
            DeadLetters::Nowhere => Some(no_dead_letter_address(queue)),
            DeadLetters::Unseen => Some(unseen_dead_letters(queue)),
            DeadLetters::ByRule | DeadLetters::To(_) => None,
        };
        findings.extend(lost.map(Finding::warning));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        client::{ClientError, Exception},
        config::{Ordering, tests::config},
        problem::reason,
    };

    fn seen(product: Product, exclusive: Option<bool>, dead_letters: DeadLetters) -> Seen {
        Seen { product, consumers: Ok(0), exclusive, dead_letters }
    }

    fn found(config: &Config, seen: &Seen) -> Vec<&'static str> {
        of_seen(config, "q", seen).into_iter().map(|finding| finding.problem.reason).collect()
    }

    #[tokio::test]
    async fn what_is_in_the_way_of_order_and_of_dead_letters_is_found() {
        let mut config = config();
        let to = || DeadLetters::To("DLQ".to_owned());
        assert_eq!(found(&config, &seen(Product::Classic, None, DeadLetters::ByRule)), [""; 0]);
        assert_eq!(found(&config, &seen(Product::Artemis, Some(true), to())), [""; 0]);
        let shared = seen(Product::Artemis, Some(false), DeadLetters::Nowhere);
        assert_eq!(found(&config, &shared), [reason::OWNERSHIP_UNVERIFIED]);
        config.block = false;
        let both = [reason::OWNERSHIP_UNVERIFIED, reason::DEAD_LETTER_UNSUPPORTED];
        assert_eq!(found(&config, &shared), both);
        let refused = ClientError::Security(Exception { class: "x".into(), message: "no".into() });
        let unseen = Seen { consumers: Err(refused), dead_letters: DeadLetters::Unseen, ..shared };
        assert_eq!(found(&config, &unseen), both);
        config.ordering = Ordering::Unordered;
        assert_eq!(found(&config, &unseen), [reason::DEAD_LETTER_UNSUPPORTED]);
    }
}
