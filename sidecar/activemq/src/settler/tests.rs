use lockstep_model::{Delivery, Epoch, Identity, Message, PropertiesBuilder, QueueId};

use super::*;

const NOW: Moment = Moment::from_millis(1000);

fn settle(settlement: Settlement) -> Settle {
    let delivery = Delivery {
        queue: QueueId(0),
        position: Position(1),
        identity: Identity::None,
        key: None,
        redeliveries: 0,
        message: Message::default(),
        undecodable: None,
    };
    Settle { epoch: Epoch(1), delivery: Arc::new(delivery), settlement, attempts: 3, not_after: None }
}

fn rules<'a>(product: Product, queue: &'a str, dead_letters: &'a DeadLetters) -> Rules<'a> {
    Rules { queue, group: "g", is_ordered: true, product, dead_letters }
}

fn classic() -> Rules<'static> {
    rules(Product::Classic, "orders", &DeadLetters::ByRule)
}

/// What is done, or the reason and class of a refusal.
fn judged(rules: &Rules<'_>, settle: &Settle, standing: Option<Standing<Told>>) -> String {
    match judge(rules, settle, standing, NOW) {
        Progress::Due(AckVerdict::Done) => "done".to_owned(),
        Progress::Due(AckVerdict::Poison { cause }) => format!("poison: {cause}"),
        Progress::GiveBack => "give back".to_owned(),
        Progress::Written(_) => "written".to_owned(),
        Progress::Over(Ok(())) => "ok".to_owned(),
        Progress::Over(Err(error)) => {
            assert_eq!(error.certainty, Certainty::NotDone);
            format!("{} {:?}", error.problem.reason, error.class)
        }
    }
}

fn out(rules: &Rules<'_>, settlement: Settlement) -> String {
    judged(rules, &settle(settlement), Some(Standing::Out))
}

#[test]
fn what_is_out_is_acknowledged_and_what_is_settled_stays_so() {
    let accept = settle(Settlement::Accept);
    assert_eq!(judged(&classic(), &accept, Some(Standing::Out)), "done");
    assert_eq!(judged(&classic(), &accept, Some(Standing::Settled)), "ok");
    assert_eq!(judged(&classic(), &accept, Some(Standing::Unknown)), "NotOwned Transient");
    assert_eq!(judged(&classic(), &accept, None), "NotOwned Transient");
    assert_eq!(judged(&classic(), &accept, Some(Standing::GivenBack)), "done");
}

#[test]
fn nothing_is_begun_after_its_moment() {
    let late = Settle { not_after: Some(NOW), ..settle(Settlement::Accept) };
    assert_eq!(judged(&classic(), &late, Some(Standing::Out)), "TimedOut Transient");
    let in_time = Settle { not_after: Some(Moment::from_millis(1001)), ..late };
    assert_eq!(judged(&classic(), &in_time, Some(Standing::Out)), "done");
}

#[test]
fn only_what_has_no_order_is_given_back_and_only_at_the_end() {
    let release = settle(Settlement::Release);
    assert_eq!(judged(&classic(), &release, Some(Standing::Out)), "NotSupported Permanent");
    let unordered = Rules { is_ordered: false, ..classic() };
    assert_eq!(judged(&unordered, &release, Some(Standing::Out)), "give back");
    assert_eq!(judged(&unordered, &release, Some(Standing::GivenBack)), "ok");
}

#[test]
fn what_classic_would_delete_is_not_dead_lettered() {
    let dead = |queue| out(&rules(Product::Classic, queue, &DeadLetters::ByRule), Settlement::DeadLetter);
    assert_eq!(dead("orders"), "poison: 3 attempts of group g are spent");
    assert_eq!(dead("ActiveMQ.DLQS"), "poison: 3 attempts of group g are spent");
    for queue in ["ActiveMQ.DLQ", "ActiveMQ.DLQ.Queue.orders", "DLQ.orders"] {
        assert_eq!(dead(queue), "DeadLetterUnsupported Permanent", "{queue}");
    }
    let mut again = settle(Settlement::DeadLetter);
    let mut properties = PropertiesBuilder::default();
    properties.push(b"dlqDeliveryFailureCause", b"java.lang.Exception: x");
    Arc::get_mut(&mut again.delivery).unwrap().message.properties = properties.build();
    assert_eq!(judged(&classic(), &again, Some(Standing::Out)), "DeadLetterUnsupported Permanent");
}

#[test]
fn what_artemis_would_drop_is_not_dead_lettered() {
    let dead = |dead_letters| out(&rules(Product::Artemis, "orders", &dead_letters), Settlement::DeadLetter);
    assert_eq!(dead(DeadLetters::To("DLQ".to_owned())), "poison: 3 attempts of group g are spent");
    for nowhere in [DeadLetters::Nowhere, DeadLetters::Unseen, DeadLetters::To("orders".to_owned())] {
        assert_eq!(dead(nowhere), "DeadLetterUnsupported Permanent");
    }
}
