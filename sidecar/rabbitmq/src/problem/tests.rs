use super::*;
use crate::{amqp::Close, config::tests::config};

fn closed(code: u16, text: &str) -> AmqpError {
    AmqpError::ChannelClosed(Close { code, text: text.to_owned(), class: 60, method: 20 })
}

#[tokio::test]
async fn the_end_of_a_channel_tells_what_to_do_and_how_soon_to_try_again() {
    let config = config();
    for (code, text, reason, pace) in [
        (404, "NOT_FOUND - no queue 'q' in vhost '/'", Some(reason::QUEUE_NOT_FOUND), Pace::Slow),
        (
            404,
            "NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible",
            Some(reason::UNEXPECTED_ANSWER),
            Pace::Slow,
        ),
        (403, "ACCESS_REFUSED - read access to queue 'q' refused", Some(reason::ACCESS_REFUSED), Pace::Slow),
        (403, "ACCESS_REFUSED - queue 'q' in exclusive use", Some(reason::ACCESS_REFUSED), Pace::Slow),
        (405, "RESOURCE_LOCKED - cannot obtain exclusive access", Some(reason::ACCESS_REFUSED), Pace::Slow),
        (
            406,
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 20000 ms",
            Some(reason::ACKNOWLEDGEMENT_TIMEOUT),
            Pace::Quick,
        ),
        (541, "INTERNAL_ERROR", None, Pace::Quick),
    ] {
        let failure = of_channel(&closed(code, text), "q", &config);
        assert_eq!(failure.problem.as_ref().map(|problem| problem.reason), reason, "{text}");
        assert_eq!(failure.pace, pace, "{text}");
        assert!(
            failure
                .problem
                .is_none_or(|problem| problem.message.contains("queue q") && !problem.remedy.is_empty())
        );
    }
    // With the connection, whoever closed it, now or before: nothing that the queue has to do with.
    let forced = Close { code: 320, text: "CONNECTION_FORCED".to_owned(), class: 0, method: 0 };
    let nonsense = AmqpError::Protocol(crate::amqp::Malformed::Order("answer"));
    for error in [AmqpError::ClosedByPeer, AmqpError::ClosedByServer(forced), nonsense] {
        for error in [error.clone(), AmqpError::NotOpen(std::sync::Arc::new(error))] {
            let gone = of_channel(&error, "q", &config);
            assert!(gone.problem.is_none() && gone.pace == Pace::Reconnect, "{error}");
        }
    }
    let late = AmqpError::Timeout { what: "queue.declare", after: std::time::Duration::ZERO };
    assert_eq!(of_channel(&late, "q", &config).pace, Pace::Quick);
    let missing =
        of_channel(&closed(404, "NOT_FOUND - no queue 'q' in vhost '/'"), "q", &config).problem.unwrap();
    assert!(
        missing.remedy.contains(r#"name='q' durable=true arguments='{"x-queue-type":"quorum""#),
        "{missing}"
    );
}

#[tokio::test]
async fn permissions_are_given_for_all_that_the_group_needs() {
    let refused = |queue: &str| format!("ACCESS_REFUSED - read access to queue '{queue}' refused");
    let mut config = config();
    config.queues = vec!["exclusive-a".to_owned(), "b.c+".to_owned()];
    config.dead_letter = DeadLetter::Queue("dead".to_owned());
    config.assumed = true;
    let expected = r"rabbitmqctl set_permissions -p '/' USER '^$' '^amq\.default$' '^(exclusive-a|b\.c\+)$'";
    for queue in &config.queues {
        let problem = of_channel(&closed(403, &refused(queue)), queue, &config).problem.unwrap();
        assert!(
            problem.message.contains("may not be read") && problem.remedy.contains(expected),
            "{problem}"
        );
    }
    assert!(permissions(&config, true).contains(r"USER '^(exclusive-a|b\.c\+)$' "));
    // Nothing else would show how the queues were declared.
    config.assumed = false;
    assert_eq!(permissions(&config, false), permissions(&config, true));
    config.assumed = true;
    config.queues.pop();
    config.dead_letter = DeadLetter::Broker;
    assert!(permissions(&config, false).ends_with("USER '^$' '^$' '^exclusive-a$'"));
}

#[tokio::test]
async fn what_keeps_from_connecting_has_a_reason_and_a_cure() {
    let config = config();
    let io = || std::sync::Arc::new(std::io::Error::other("x"));
    for (error, reason, pace) in [
        (AmqpError::AuthRefused { text: String::new() }, reason::WRONG_CREDENTIALS, Pace::Slow),
        (
            AmqpError::Mechanism { wanted: "EXTERNAL", offered: String::new() },
            reason::WRONG_CREDENTIALS,
            Pace::Slow,
        ),
        (
            AmqpError::VhostRefused { vhost: "/".into(), text: String::new() },
            reason::VHOST_NOT_FOUND,
            Pace::Slow,
        ),
        (
            AmqpError::VhostRefused {
                vhost: "/".into(),
                text: "refused for user 'credit-limits'".to_owned(),
            },
            reason::VHOST_NOT_FOUND,
            Pace::Slow,
        ),
        (
            AmqpError::VhostRefused { vhost: "/".into(), text: "connection limit (5) is reached".to_owned() },
            reason::CONNECTION_LIMIT,
            Pace::Slow,
        ),
        (AmqpError::Tls { host: "h".into(), cause: io() }, reason::TLS_FAILED, Pace::Quick),
        (AmqpError::TlsFile { path: "ca.crt".into(), reason: String::new() }, reason::TLS_FAILED, Pace::Slow),
        (AmqpError::Connect { address: "h:1".into(), cause: io() }, reason::UNREACHABLE, Pace::Quick),
        (AmqpError::Dns { host: "h".into(), cause: io() }, reason::UNREACHABLE, Pace::Quick),
    ] {
        assert_eq!(pace_of_connection(&error), pace, "{error}");
        let problem = of_connection(&error, &config);
        assert_eq!(problem.reason, reason);
        assert!(!problem.remedy.is_empty(), "{problem:?}");
    }
    assert_eq!(of_connection(&AmqpError::ClosedByPeer, &config).reason, reason::CONNECTION_LOST);
    let bad = BadCredentials { path: "/etc/x/password".into(), reason: "it is empty".to_owned() };
    let problem = of_credentials(&bad);
    assert_eq!(problem.reason, reason::WRONG_CREDENTIALS);
    assert!(problem.message.contains("/etc/x/password") && problem.remedy.contains("key password"));
}
