use super::*;

fn told(problem: Option<&Problem>, doubtful: bool) -> PodCondition {
    let state = if doubtful { QueueState::Doubtful } else { QueueState::Owned };
    let queues = [QueueStatus { name: "orders".to_owned(), state, ..QueueStatus::default() }];
    let all = conditions(&Status::default(), &queues, problem);
    all.into_iter().find(|condition| condition.kind == ConditionType::QueuesOwned).unwrap()
}

#[test]
fn what_is_to_be_known_of_owned_queues_is_told_with_their_ownership() {
    let problem = |reason| Problem { reason, message: "it is so".to_owned(), remedy: "do that".to_owned() };
    let unverified = problem(Problem::OWNERSHIP_UNVERIFIED);
    let idle = problem(Problem::MORE_REPLICAS_THAN_QUEUES);
    let table = [
        (None, false, ConditionStatus::True, Reason::Owned, ""),
        (Some(&unverified), false, ConditionStatus::True, Reason::OwnershipUnverified, "it is so; do that"),
        (Some(&idle), false, ConditionStatus::True, Reason::MoreReplicasThanQueues, "it is so"),
        (Some(&unverified), true, ConditionStatus::False, Reason::LeaseDoubtful, ""),
    ];
    for (problem, doubtful, status, reason, message) in table {
        let condition = told(problem, doubtful);
        assert_eq!(
            (condition.status, condition.reason, condition.message.as_str()),
            (status, reason, message)
        );
        assert!(problem.is_none_or(|problem| !problem.is_failure()), "it fails no session");
    }
}
