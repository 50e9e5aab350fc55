use std::fs::File;

use lockstep_exclusive::Report;
use lockstep_model::{Moment, QueueId};
use tokio::{
    sync::mpsc,
    time::{advance, timeout},
};

use super::*;
use crate::{
    amqp::Close,
    config::{Config, CredentialsSource, tests::config},
    keeper::Awaited,
};

const QUEUE: QueueId = QueueId(0);

fn shared(config: Config) -> Arc<Shared> {
    Arc::new(Shared::new(config, mpsc::unbounded_channel::<Report>().0))
}

fn closed(code: u16, text: &str) -> End {
    End::Closed(AmqpError::ChannelClosed(Close { code, text: text.to_owned(), class: 0, method: 0 }))
}

#[test]
fn an_ownership_lasts_for_two_heartbeats_less_a_second() {
    let lasts = |seconds| pulse(Duration::from_secs(seconds)).lease.as_secs();
    assert_eq!((lasts(10), lasts(5)), (19, 9));
    assert_eq!(pulse(Duration::from_secs(10)).look, Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_looked_at_until_they_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = CredentialsSource::Folder(folder.path().to_owned());
    // There are none.
    let refused = shared(Config { credentials, ..config() }).connect(0).await.unwrap_err();
    assert_eq!((refused.problem.reason, refused.pace), (reason::WRONG_CREDENTIALS, Pace::Slow));
    let mut changed = refused.changed.unwrap();
    assert!(timeout(Duration::from_secs(60), &mut changed).await.is_err());
    let touched = folder.path().join("password");
    File::create(&touched).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    timeout(Duration::from_secs(2), changed).await.unwrap();
    // Fixed ones don't change.
    assert!(shared(config()).connect(0).await.unwrap_err().changed.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_timeout_is_told_longer_than_the_moment_that_it_costs() {
    let shared = shared(Config { acknowledgement_timeout: Duration::from_secs(60), ..config() });
    let text = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out";
    let told = || shared.problems.first().map(|problem| problem.reason);
    let meaning = shared.meaning(QUEUE, "q", &closed(406, text));
    assert!(matches!(
        meaning,
        Meaning::Over { open: false, failure: Failure { pace: Pace::Quick, problem: None } }
    ));
    advance(TIMED_OUT_FOR - Duration::from_secs(1)).await;
    shared.looked(QUEUE, "q");
    assert_eq!(told(), Some(reason::ACKNOWLEDGEMENT_TIMEOUT));
    advance(Duration::from_secs(1)).await;
    shared.looked(QUEUE, "q");
    assert_eq!(told(), None);
    // A second one is told for as long.
    shared.meaning(QUEUE, "q", &closed(406, text));
    advance(TIMED_OUT_FOR).await;
    shared.looked(QUEUE, "q");
    assert_eq!(told(), None);
}

#[tokio::test]
async fn what_can_never_work_is_told_whenever_troubles_were_forgotten() {
    let mut config = config();
    config.prefetch.timeout = config.acknowledgement_timeout;
    let shared = shared(config);
    shared.left();
    let told = shared.problems.first();
    shared.problems.clear_all();
    shared.left();
    assert!(told.is_some() && shared.problems.first() == told);
}

#[tokio::test]
async fn an_end_means_what_it_says() {
    let shared = shared(config());
    let meaning = |end| shared.meaning(QUEUE, "q", &end);
    // Asked for; the connection's own end tells the rest.
    for error in [AmqpError::ClosedByUs, AmqpError::ClosedByPeer] {
        assert!(matches!(meaning(End::Closed(error)), Meaning::Nothing));
    }
    for end in [End::Cancelled, End::Nonsense] {
        assert!(matches!(meaning(end), Meaning::Over { open: true, failure: Failure { problem: None, .. } }));
    }
    let Meaning::Over { open: false, failure } = meaning(closed(403, "ACCESS_REFUSED")) else { panic!() };
    assert_eq!(
        (failure.pace, failure.problem.map(|problem| problem.reason)),
        (Pace::Slow, Some(reason::ACCESS_REFUSED))
    );
}

#[tokio::test]
async fn what_was_verified_holds_for_its_connection_and_until_a_channel_ends() {
    let shared = shared(config());
    let verify = || shared.with_kept(QUEUE, |kept| kept.verified = Some(Default::default()));
    let is_verified = || shared.with_kept(QUEUE, |kept| kept.verified.is_some());
    verify();
    shared.meaning(QUEUE, "q", &End::Closed(AmqpError::ClosedByPeer));
    assert!(is_verified());
    shared.disconnected();
    assert!(!is_verified());
    verify();
    shared.meaning(QUEUE, "q", &End::Cancelled);
    assert!(!is_verified());
}

#[tokio::test]
async fn an_awaited_body_is_remembered_until_something_else_is_awaited() {
    let (sender, mut reports) = mpsc::unbounded_channel();
    let shared = Shared::new(config(), sender);
    let channel = crate::amqp::tests::channel().await;
    let consumer = Consumer::new((QUEUE, "q".into()), 7, channel, (false, false, false));
    let awaited = |size| Some(Awaited { size, held_up: false });
    for (asked, kept) in [(awaited(3), awaited(3)), (None, awaited(3)), (awaited(5), awaited(5))] {
        shared.rewind(&consumer, asked);
        assert_eq!(shared.with_kept(QUEUE, |kept| kept.awaited), kept);
        assert_eq!(reports.recv().await, Some(Report::Rewind { queue: QUEUE, number: 7 }));
    }
    assert_eq!(consumer.oldest(), None::<Moment>);
}
