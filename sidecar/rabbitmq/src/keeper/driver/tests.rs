use std::{fs::File, time::Duration};

use futures_util::StreamExt as _;
use tokio::{sync::mpsc, time::advance};

use super::*;
use crate::{
    amqp::{
        Close,
        tests::{channel, connection},
    },
    config::{Config, CredentialsSource, tests::config},
    keeper::jobs::connect,
};

fn driver(config: Config) -> Driver {
    let shared = Arc::new(Shared::new(config, mpsc::unbounded_channel().0));
    let mut driver = Driver::new(shared, Arc::default());
    driver.joined = true;
    driver
}

/// How long it waits before the next try.
fn wait(driver: &Driver) -> Duration {
    let Link::None { retry_at } = driver.link else { panic!("{:?}", driver.link) };
    retry_at.since(driver.shared.now())
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_accepts_and_drops_is_left_alone_for_longer_and_longer() {
    let mut driver = driver(config());
    let stood = async |driver: &mut Driver, time: Duration| {
        driver.link = Link::Connecting;
        driver.connected(Ok(connection().await));
        advance(time).await;
        driver.disconnected(&AmqpError::ClosedByPeer);
        wait(driver)
    };
    assert!(stood(&mut driver, Duration::ZERO).await <= Duration::from_millis(200));
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        longest = longest.max(stood(&mut driver, Duration::from_secs(1)).await);
    }
    // Any share of 5 s each, by chance.
    assert!(longest > Duration::from_secs(1) && longest <= Duration::from_secs(5), "{longest:?}");
    assert!(stood(&mut driver, Duration::from_secs(60)).await <= Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_tried_again_slowly_and_at_once_when_they_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = CredentialsSource::Folder(folder.path().to_owned());
    let mut driver = driver(Config { credentials, ..config() });
    // There are none.
    let refuse = async |driver: &mut Driver| {
        driver.link = Link::Connecting;
        let done = connect(Arc::clone(&driver.shared), 0).await;
        driver.done(done);
        wait(driver)
    };
    for _ in 0..3 {
        refuse(&mut driver).await;
    }
    assert!(refuse(&mut driver).await >= Duration::from_secs(15));
    let touched = folder.path().join("password");
    File::create(&touched).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let begun = driver.shared.now();
    while wait(&driver) > Duration::ZERO {
        let done = driver.jobs.next().await.expect("the files must be looked at");
        driver.done(done);
    }
    assert!(driver.shared.now().since(begun) <= Duration::from_secs(2));
}

/// A channel of that number consumes from the queue.
async fn consuming(driver: &mut Driver, number: u64) {
    let channel = channel().await;
    let queue = &mut driver.queues[0];
    let consumer = Consumer::new((queue.id, Arc::clone(&queue.name)), number, channel, (false, false, false));
    queue.consumer = Some(Arc::new(consumer));
}

#[tokio::test]
async fn the_end_of_an_old_channel_takes_nothing_from_the_new_one() {
    let mut driver = driver(config());
    consuming(&mut driver, 2).await;
    let id = driver.queues[0].id;
    driver.done(Done::Closed { queue: id, channel: 1, sure: true });
    assert!(driver.queues[0].consumer.is_some());
    driver.done(Done::Closed { queue: id, channel: 2, sure: true });
    assert!(driver.queues[0].consumer.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_timeout_is_told_longer_than_the_moment_that_it_costs() {
    let mut driver = driver(Config { acknowledgement_timeout: Duration::from_secs(60), ..config() });
    let id = driver.queues[0].id;
    let timed_out = || {
        let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out".to_owned();
        End::Closed(AmqpError::ChannelClosed(Close { code: 406, text, class: 0, method: 0 }))
    };
    driver.ended(id, 1, &timed_out());
    let told = |driver: &Driver| driver.shared.problems.first().map(|problem| problem.reason);
    let looked =
        Done::Looked { queue: id, channel: 2, sent: Moment::ZERO, consumers: Some(1), starved: false };
    driver.done(Done::Counted { queue: id, consumers: Ok(0) });
    advance(TIMED_OUT_FOR - Duration::from_secs(1)).await;
    driver.forget_timeout(id);
    assert_eq!(told(&driver), Some(reason::ACKNOWLEDGEMENT_TIMEOUT));
    advance(Duration::from_secs(1)).await;
    driver.done(looked);
    assert_eq!(told(&driver), None);
    // Also when another has the queue by then.
    driver.ended(id, 1, &timed_out());
    advance(TIMED_OUT_FOR).await;
    driver.done(Done::Counted { queue: id, consumers: Ok(1) });
    assert_eq!(told(&driver), None);
}

#[tokio::test]
async fn what_can_never_work_is_told_after_a_pause_too() {
    let mut config = config();
    config.prefetch.timeout = config.acknowledgement_timeout;
    let mut driver = driver(config);
    driver.tell_prefetch();
    let told = driver.shared.problems.first();
    driver.done(Done::Left);
    assert!(told.is_some() && driver.shared.problems.first() == told);
}

#[tokio::test]
async fn what_keeps_from_consuming_is_told_until_something_is_consumed() {
    let mut driver = driver(config());
    driver.feed_all(Input::Joined(true));
    let id = driver.queues[0].id;
    let refused = Close { code: 403, text: "ACCESS_REFUSED".to_owned(), class: 0, method: 0 };
    let refused = of_channel(&AmqpError::ChannelClosed(refused), "q", &driver.shared.config);
    driver.done(Done::Opened { queue: id, channel: 1, result: Err(refused) });
    // A queue that can be counted may be one that can't be consumed.
    driver.done(Done::Counted { queue: id, consumers: Ok(0) });
    assert!(driver.shared.problems.first().is_some());
    driver.done(Done::Counted { queue: id, consumers: Ok(1) });
    assert_eq!(driver.shared.problems.first(), None);
}
