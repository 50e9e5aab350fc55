//! The `/status` document and the words of conditions.

use std::collections::BTreeSet;

use crate::{
    BlockedMessage, ConditionStatus, ConditionType, Gap, Phase, PodCondition, QueueState, QueueStatus,
    Reason, STATUS_FORMAT, Status,
};

fn full() -> Status {
    let mut status = Status { format: STATUS_FORMAT, phase: Phase::Running, ..Status::default() };
    status.application.reason = Reason::CallbackMisconfigured;
    status.totals.backlog = Some(7);
    status.queues.push(QueueStatus {
        name: "orders/broker-a/3".to_owned(),
        epoch: 1_700_000_000_000,
        state: QueueState::Doubtful,
        lag: Some(7),
        blocked_lanes: 1,
        blocked: vec![BlockedMessage {
            message_id: "0A0B".to_owned(),
            hold: Reason::AttemptsExhausted,
            ..BlockedMessage::default()
        }],
        ..QueueStatus::default()
    });
    status.gaps.push(Gap { queue: "orders/broker-a/3".to_owned(), from: 5, to: 9, seen_ms: 1 });
    status.conditions.push(PodCondition {
        kind: ConditionType::Blocked,
        status: ConditionStatus::True,
        reason: Reason::AttemptsExhausted,
        message: "orders/broker-a/3 waits".to_owned(),
    });
    status
}

#[test]
fn the_document_is_read_as_it_was_written() {
    let text = serde_json::to_string(&full()).unwrap();
    assert!(text.contains(r#""hold":"AttemptsExhausted""#), "{text}");
    assert!(text.contains(r#""type":"Blocked","status":"True""#), "{text}");
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), full());
}

#[test]
fn another_version_is_understood() {
    assert_eq!(serde_json::from_str::<Status>("{}").unwrap(), Status::default());
    let newer = r#"{
        "format": 1, "phase": "Dancing", "new": {"a": [1]}, "application": {"health": "Dizzy", "reason": "Wine"},
        "queues": [{"name": "q", "state": "Sideways", "moon": 3, "blocked": [{"hold": "Tide", "of": {}}]}],
        "config": {"hotHash": "h", "warnings": ["w"], "more": 1}, "source": {}, "totals": {"known": null},
        "conditions": [{"type": "Moonlit", "status": "Perhaps", "reason": "Full"}, {"type": "Ready", "dusk": 1}, {}]
    }"#;
    let status: Status = serde_json::from_str(newer).unwrap();
    assert_eq!(status.phase, Phase::Unknown);
    assert_eq!(status.application.reason, Reason::Unknown);
    assert_eq!(status.queues[0].state, QueueState::Unknown);
    assert_eq!(status.queues[0].blocked[0].hold, Reason::Unknown);
    assert_eq!((status.config.hot_hash.as_str(), status.config.warnings.len()), ("h", 1));
    let unknown = PodCondition::default();
    let ready = PodCondition { kind: ConditionType::Ready, ..PodCondition::default() };
    assert_eq!(status.conditions, [unknown.clone(), ready, unknown]);
}

#[test]
fn words_are_fit_for_kubernetes() {
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    let types = ConditionType::ALL.iter().map(|kind| kind.as_str());
    for word in reasons.chain(types) {
        assert!(word.starts_with(|c: char| c.is_ascii_uppercase()), "{word}");
        assert!(word.chars().all(|c| c.is_ascii_alphanumeric()) && word.len() <= 64, "{word}");
    }
    let written: BTreeSet<String> = Reason::ALL.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    assert_eq!(written.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
    }
}
