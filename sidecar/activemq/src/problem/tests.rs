use std::sync::Arc;

use super::*;
use crate::config::tests::config;

fn exception(class: &str, message: &str) -> Exception {
    Exception { class: class.into(), message: message.into() }
}

fn of(error: &ClientError, product: Product) -> (&'static str, String) {
    let failure = of_consumer(error, "orders", product);
    assert_eq!(failure.pace, Pace::Slow);
    let problem = failure.problem.unwrap();
    assert!(problem.message.starts_with("queue orders "), "{}", problem.message);
    (problem.reason, problem.remedy)
}

#[test]
fn what_a_broker_refuses_is_told_with_its_cure() {
    let read = "User me is not authorized to read from: queue://orders";
    let security = ClientError::Security(exception("java.lang.SecurityException", read));
    let (reason, remedy) = of(&security, Product::Classic);
    assert_eq!(reason, reason::ACCESS_REFUSED);
    assert!(remedy.contains("<authorizationEntry queue=\"orders\" read="), "{remedy}");
    let (reason, remedy) = of(&security, Product::Artemis);
    assert_eq!(reason, reason::ACCESS_REFUSED);
    assert!(remedy.contains("<permission type=\"consume\""), "{remedy}");
    let create = "User me is not authorized to create: queue://orders";
    let create = ClientError::Security(exception("java.lang.SecurityException", create));
    assert_eq!(of(&create, Product::Classic).0, reason::QUEUE_NOT_FOUND);
    for class in ["javax.jms.InvalidSelectorException", "jakarta.jms.InvalidSelectorException"] {
        let selector = ClientError::Exception(exception(class, "a = "));
        assert_eq!(of(&selector, Product::Classic).0, reason::SELECTOR_INVALID);
    }
    let missing = ClientError::Exception(exception("javax.jms.InvalidDestinationException", "no"));
    let (reason, remedy) = of(&missing, Product::Artemis);
    assert_eq!(reason, reason::QUEUE_NOT_FOUND);
    assert!(remedy.contains("artemis queue create --name orders"), "{remedy}");
    let many = exception("java.lang.IllegalStateException", "Can't add consumer: at maximum limit: 1");
    assert_eq!(of(&ClientError::Exception(many), Product::Classic).0, reason::CONNECTION_LIMIT);
    let other = ClientError::Exception(exception("java.lang.Exception", "boo"));
    assert_eq!(of(&other, Product::Classic).0, reason::UNEXPECTED_ANSWER);
}

#[test]
fn the_end_of_a_connection_is_no_trouble_of_a_queue() {
    let lost = ClientError::NotOpen(Arc::new(ClientError::ClosedByPeer));
    for error in [ClientError::ClosedByPeer, lost] {
        let failure = of_consumer(&error, "orders", Product::Classic);
        assert_eq!((failure.pace, failure.problem), (Pace::Reconnect, None));
    }
    let late = ClientError::Timeout { what: "a consumer", after: std::time::Duration::from_secs(5) };
    let failure = of_consumer(&late, "orders", Product::Classic);
    assert_eq!((failure.pace, failure.problem), (Pace::Quick, None));
}

#[tokio::test]
async fn a_failure_to_connect_has_a_reason_and_a_pace() {
    let mut config = config();
    let security = || {
        ClientError::Security(exception("java.lang.SecurityException", "User name or password is invalid."))
    };
    let nobody = of_connection(&security(), &config);
    assert_eq!(nobody.reason, reason::WRONG_CREDENTIALS);
    assert!(nobody.remedy.contains("name a secret"), "{}", nobody.remedy);
    config.credentials = CredentialsSource::Folder("secret".into());
    assert!(of_connection(&security(), &config).remedy.contains("correct the secret"));
    assert_eq!(pace_of_connection(&security()), Pace::Slow);
    let limit = exception(
        "org.apache.activemq.x.ExceededMaximumConnectionsException",
        "Exceeded the maximum number of allowed client connections: 1",
    );
    assert_eq!(of_connection(&ClientError::Exception(limit), &config).reason, reason::CONNECTION_LIMIT);
    let taken = ClientError::InvalidClientId(exception("javax.jms.InvalidClientIDException", "in use"));
    assert_eq!(of_connection(&taken, &config).reason, reason::CLIENT_ID_TAKEN);
    let old = ClientError::RefusedVersion { offered: 9, least: 10 };
    assert_eq!(
        (of_connection(&old, &config).reason, pace_of_connection(&old)),
        (reason::VERSION_UNSUPPORTED, Pace::Slow)
    );
    let lost = ClientError::NotOpen(Arc::new(ClientError::ClosedByPeer));
    assert_eq!(
        (of_connection(&lost, &config).reason, pace_of_connection(&lost)),
        (reason::CONNECTION_LOST, Pace::Quick)
    );
}

#[test]
fn a_settlement_that_failed_says_whether_it_may_have_been_done() {
    let failed = |error| {
        let error = failed("settle", error);
        (error.problem.reason, error.certainty)
    };
    let unmatched = exception(
        "javax.jms.JMSException",
        "Unmatched acknowledge: MessageAck {}; Could not find Message-ID",
    );
    assert_eq!(failed(ClientError::Exception(unmatched)), (reason::NOT_OWNED, Certainty::NotDone));
    assert_eq!(failed(ClientError::ClosedByPeer), (reason::CONNECTION_LOST, Certainty::Unknown));
    let unsent = ClientError::NotOpen(Arc::new(ClientError::ClosedByPeer));
    assert_eq!(failed(unsent), (reason::CONNECTION_LOST, Certainty::NotDone));
    let late = ClientError::Timeout { what: "an acknowledgement", after: std::time::Duration::from_secs(5) };
    assert_eq!(failed(late), (reason::TIMED_OUT, Certainty::Unknown));
}

#[test]
fn notices_are_no_failures_and_name_the_cure() {
    let unseen = unseen("orders", Product::Classic, "refused");
    assert!(!unseen.is_failure() && unseen.remedy.contains("ActiveMQ.Advisory.>"));
    let open = not_exclusive("orders");
    assert!(!open.is_failure() && open.remedy.contains("artemis queue update --name orders --exclusive"));
    assert!(shared("orders", Product::Artemis, 2).is_failure());
    assert!(slow_consumer("orders").remedy.contains("maxTimeSinceLastAck"));
}
