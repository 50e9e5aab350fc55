use std::{fs::File, time::Duration};

use futures_util::StreamExt as _;
use tokio::{sync::mpsc, time::advance};

use super::*;
use crate::{
    amqp::tests::connection,
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
