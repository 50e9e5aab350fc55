use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockstep_broker::Outbox;
use lockstep_model::Moment;

use super::{Driver, HALF_OPEN, Session, roles};
use crate::{
    Filter, Subscription,
    keeper::{
        driver::tests::config,
        machine::Action,
        topology::{Looked, Route},
    },
    problem::reason,
    protocol::MessageQueue,
    remoting::{Lost, Remoting, RemotingConfig},
    shared::Shared,
};

const NOW: Moment = Moment::from_millis(1_000_000);
const LONG: Session = Session { uptime: Some(Duration::from_secs(86_400)), honest: true };

fn queue() -> MessageQueue {
    MessageQueue { topic: Arc::from("t"), broker_name: Arc::from("b"), queue_id: 0 }
}

/// A member whose requests go nowhere: the test gives the answers.
fn driver() -> Driver {
    let (remoting, _) = Remoting::new(RemotingConfig::default());
    let subscriptions = vec![Subscription { topic: "t".to_owned(), filter: Filter::All }];
    let shared = Shared::new(crate::Config { subscriptions, ..config() }, remoting);
    let mut driver = Driver::new(Arc::new(shared), Arc::new(Outbox::default()));
    driver.joined = true;
    driver.machine.join();
    driver
}

/// The route says that the master is there; a session with it is being opened.
fn look(driver: &mut Driver, master: &str) -> Arc<str> {
    let brokers = [(Arc::from("b"), BTreeMap::from([(0, master.to_owned())]))].into();
    driver.topology.take(NOW, "t", Looked::Found(Route { queues: [queue()].into(), brokers }));
    driver.open_links(NOW);
    Arc::from(master)
}

/// Whether a queue that we never had is locked at once.
fn locks_at_once(driver: &mut Driver) -> bool {
    driver.machine.assign(NOW, &[queue()].into(), true);
    std::iter::from_fn(|| driver.machine.poll()).any(|action| matches!(action, Action::Lock { .. }))
}

#[tokio::test]
async fn a_broker_that_has_run_long_is_asked_for_locks_at_once() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.opened(NOW, &address, 1, Ok(LONG));
    assert!(locks_at_once(&mut driver));
}

#[tokio::test]
async fn a_broker_that_does_not_say_how_long_it_has_run_may_have_forgotten_locks() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.opened(NOW, &address, 1, Ok(Session { uptime: None, ..LONG }));
    assert!(!locks_at_once(&mut driver));
}

#[tokio::test]
async fn another_master_than_before_knows_no_locks_however_long_it_has_run() {
    let mut driver = driver();
    let before = look(&mut driver, "h1:1");
    driver.opened(NOW, &before, 1, Ok(LONG));
    let address = look(&mut driver, "h2:1");
    driver.opened(NOW, &address, 1, Ok(LONG));
    assert!(driver.shared.masters.get("b").is_some_and(|master| *master.address == *address));
    assert!(!locks_at_once(&mut driver));
}

#[tokio::test]
async fn the_word_of_a_session_that_was_given_up_is_not_heard() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.link_lost(NOW, &address, &Lost::Closed);
    driver.opened(NOW, &address, 1, Ok(LONG));
    assert!(driver.shared.masters.get("b").is_none());
}

/// Whether a broker that lists us twice makes us believe in a second process.
fn clash(driver: &mut Driver, now: Moment) -> bool {
    let listed = vec!["me".to_owned(), "me".to_owned()];
    driver.members_known(now, &Arc::from("t"), &Arc::from("b"), Ok(listed));
    let problem = driver.shared.problems.first();
    problem.is_some_and(|problem| problem.reason == reason::DUPLICATE_CLIENT_ID)
}

#[tokio::test]
async fn our_own_broken_connection_is_no_second_process_while_the_broker_may_still_know_it() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.opened(NOW, &address, 1, Ok(LONG));
    driver.link_lost(NOW, &address, &Lost::Closed);
    assert!(!clash(&mut driver, NOW + (HALF_OPEN - Duration::from_millis(1))));
    assert!(clash(&mut driver, NOW + HALF_OPEN));
}

/// A broker that stood still for minutes finds the connections of that time when it goes on.
#[tokio::test]
async fn a_broker_that_was_away_for_long_may_still_know_our_own_broken_connection() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.opened(NOW, &address, 1, Ok(LONG));
    driver.link_lost(NOW, &address, &Lost::Closed);
    let back = NOW + 2 * HALF_OPEN;
    let turn = driver.links.0[&address].turn;
    driver.opened(back, &address, turn, Ok(LONG));
    assert!(!clash(&mut driver, back + (HALF_OPEN - Duration::from_millis(1))));
    assert!(clash(&mut driver, back + HALF_OPEN));
}

/// A name server forgets a broker that stands still after two minutes, and the broker knows us when it goes on.
#[tokio::test]
async fn a_broker_that_comes_back_into_the_routes_is_one_that_we_are_a_member_of() {
    let mut driver = driver();
    let address = look(&mut driver, "h1:1");
    driver.opened(NOW, &address, 1, Ok(LONG));
    let elsewhere = MessageQueue { broker_name: Arc::from("c"), ..queue() };
    let without = |driver: &mut Driver, now| {
        let brokers = [(Arc::from("c"), BTreeMap::from([(0, "h3:1".to_owned())]))].into();
        driver.topology.take(now, "t", Looked::Found(Route { queues: [elsewhere.clone()].into(), brokers }));
        driver.open_links(now);
    };
    without(&mut driver, NOW);
    without(&mut driver, NOW + Duration::from_secs(61));
    assert!(!driver.links.0.contains_key(&address));
    look(&mut driver, "h1:1");
    assert!(driver.links.0[&address].registered, "its list of members would be taken for another process");
    // Who has left the group, or yielded to another process, asks first.
    without(&mut driver, NOW + Duration::from_secs(62));
    without(&mut driver, NOW + Duration::from_secs(123));
    driver.register_again(NOW);
    look(&mut driver, "h1:1");
    assert!(!driver.links.0[&address].registered);
}

#[test]
fn an_address_that_is_named_twice_is_the_masters() {
    let named = |broker: &str, id| (Arc::from(broker), id, "h:1".to_owned());
    for (a, b, master) in [(0, 1, "a"), (1, 0, "b")] {
        let addresses = [named("a", a), named("b", b)].into();
        let (broker, is_master) = roles(&addresses)["h:1"];
        assert_eq!((&**broker, is_master), (master, true));
    }
    assert!(!roles(&[named("a", 1)].into())["h:1"].1);
}
