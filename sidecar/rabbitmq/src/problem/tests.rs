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
    let gone = of_channel(&AmqpError::ClosedByPeer, "q", &config);
    assert!(gone.problem.is_none() && gone.pace == Pace::Quick);
    let missing = of_channel(&closed(404, ""), "q", &config).problem.unwrap();
    assert!(
        missing.remedy.contains(r#"name='q' durable=true arguments='{"x-queue-type":"quorum""#),
        "{missing}"
    );
}

#[tokio::test]
async fn what_keeps_from_connecting_has_a_reason_and_a_cure() {
    let config = config();
    let io = || std::sync::Arc::new(std::io::Error::other("x"));
    for (error, reason) in [
        (AmqpError::AuthRefused { text: String::new() }, reason::WRONG_CREDENTIALS),
        (AmqpError::Mechanism { wanted: "EXTERNAL", offered: String::new() }, reason::WRONG_CREDENTIALS),
        (AmqpError::VhostRefused { vhost: "/".into(), text: String::new() }, reason::VHOST_NOT_FOUND),
        (AmqpError::Tls { host: "h".into(), cause: io() }, reason::TLS_FAILED),
        (AmqpError::TlsFile { path: "ca.crt".into(), reason: String::new() }, reason::TLS_FAILED),
        (AmqpError::Connect { address: "h:1".into(), cause: io() }, reason::UNREACHABLE),
        (AmqpError::Dns { host: "h".into(), cause: io() }, reason::UNREACHABLE),
    ] {
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
