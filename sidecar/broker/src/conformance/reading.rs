use std::time::Duration;

use bytes::Bytes;
use lockstep_model::{DeadLetterBy, Message, PropertiesBuilder, Settlement as Kind};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Checked, Harness, Outcome, QUIET, Source, ensure,
    member::{Member, bodies, identities, numbers},
    message, publish_numbers,
};
use crate::{FetchRequest, Fetched, Reader, Settlement};

/// Positions rise and bodies keep the order in which they were published.
pub(super) async fn deliveries_come_in_order<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..40).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let read = member.consume(&owned, 40).await?;
    ensure!(bodies(&read) == numbers(0..40), "the order is {:?}", bodies(&read));
    let rising = read.iter().zip(read.iter().skip(1)).all(|(one, next)| one.position < next.position);
    ensure!(rising, "the positions do not rise: {:?}", read.iter().map(|d| d.position).collect::<Vec<_>>());
    ensure!(read.iter().all(|delivery| delivery.queue == owned.queue), "a delivery names another queue");
    member.sound()?;
    Ok(Outcome::Passed)
}

/// No fetch brings more than was asked for, and the next one goes on behind it.
pub(super) async fn a_fetch_keeps_to_count_and_bytes<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    for _ in 0..8 {
        source.publish(0, message(vec![b'x'; 1_000])).await;
    }
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let (mut from, mut read) = (owned.cursor, 0);
    let end = Instant::now() + member.patience;
    while read < 8 {
        ensure!(Instant::now() < end, "only {read} of 8 messages came");
        // A body alone is larger than the first bound; the second one has room for two bodies.
        let (count, bytes) = if read < 2 { (5, 10) } else { (3, 2_900) };
        let (deliveries, next, _) = member.fetch(&owned, from, count, bytes).await?;
        let most = if read < 2 { 1 } else { 2 };
        let found = deliveries.len();
        ensure!(
            found <= most,
            "a fetch of {count} deliveries and {bytes} bytes brought {found} of 1,000 bytes"
        );
        let after = deliveries.last().map_or(from, |last| last.position.next());
        ensure!(next >= after, "the fetch goes on at {next}, before {after}");
        member.finish(owned.epoch, &deliveries).await?;
        (from, read) = (next, read + found);
    }
    Ok(Outcome::Passed)
}

/// How long a message may lie in a queue that a fetch waits on. Long polls are told of it; a hold that has to end first
/// is longer.
const WAKE: Duration = Duration::from_secs(5);

/// A fetch that waits brings what is published meanwhile, at once.
pub(super) async fn a_fetch_wakes_for_a_new_message<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let publish = async {
        sleep(QUIET).await;
        source.publish(0, message("0")).await;
        Instant::now()
    };
    let read = async { (member.read(&owned, owned.cursor, 1).await, Instant::now()) };
    let ((read, came), published) = tokio::join!(read, publish);
    ensure!(bodies(&read?) == ["0"], "another message came");
    let late = came.saturating_duration_since(published);
    ensure!(late <= WAKE, "the waiting fetch brought it after {late:?}");
    Ok(Outcome::Passed)
}

/// A log hands over the same deliveries when a position is asked for again.
pub(super) async fn a_position_can_be_read_again<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..6).await;
    let member = Member::joined(&source, "a").await;
    if !member.capabilities.reread {
        return Ok(Outcome::NotApplicable("the source does not reread"));
    }
    let owned = member.own(&source.queue_name(0)).await?;
    let first = member.read(&owned, owned.cursor, 6).await?;
    let again = member.read(&owned, owned.cursor, 6).await?;
    ensure!(identities(&first) == identities(&again), "other identities: {first:?} and {again:?}");
    let Some(middle) = first.get(3) else { return Err("three messages are missing".into()) };
    let part = member.read(&owned, middle.position, 3).await?;
    ensure!(bodies(&part) == numbers(3..6), "from the middle came {:?}", bodies(&part));
    Ok(Outcome::Passed)
}

/// Fetches that are dropped at any moment take nothing with them.
pub(super) async fn a_cancelled_fetch_loses_nothing<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let (mut from, mut read) = (owned.cursor, Vec::new());
    for number in 0..30u32 {
        source.publish(0, message(number.to_string())).await;
        let request = FetchRequest { queue: owned.queue, epoch: owned.epoch, from, count: 4, bytes: 1_000 };
        let patience = Duration::from_micros(u64::from(number) * 137);
        if let Ok(Ok(Fetched::Deliveries { deliveries, next, .. })) =
            timeout(patience, member.reader.fetch(request)).await
        {
            member.finish(owned.epoch, &deliveries).await?;
            read.extend(deliveries);
            from = next;
        }
    }
    while read.len() < 30 {
        let part = member.read(&owned, from, member.holdable(30 - read.len())).await?;
        member.finish(owned.epoch, &part).await?;
        from = part.last().map_or(from, |last| last.position.next());
        read.extend(part);
    }
    ensure!(bodies(&read) == numbers(0..30), "after cancelled fetches came {:?}", bodies(&read));
    Ok(Outcome::Passed)
}

/// A fetch that waits on one queue does not keep another from bringing something.
pub(super) async fn an_empty_queue_holds_up_no_other<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(2).await;
    publish_numbers(&source, 1, 0..1).await;
    let member = Member::joined(&source, "a").await;
    let empty = member.own(&source.queue_name(0)).await?;
    let full = member.own(&source.queue_name(1)).await?;
    let waiting = member.read(&empty, empty.cursor, 1);
    tokio::select! {
        biased;
        read = waiting => Err(super::Failure(format!("the empty queue brought {read:?}"))),
        read = member.read(&full, full.cursor, 1) => {
            ensure!(bodies(&read?) == ["0"], "another message came");
            Ok(Outcome::Passed)
        }
    }
}

/// Bodies of any size and content, keys and properties arrive as they were sent.
pub(super) async fn bodies_keys_and_properties_are_untouched<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let large: Bytes =
        (0..source.large_body()).map(|at| at.to_le_bytes().first().copied().unwrap_or(0)).collect();
    let sent = [Bytes::new(), large, Bytes::from_static(b"\0\r\n\xff\xfe")];
    for body in &sent {
        let mut properties = PropertiesBuilder::default();
        for (name, value) in source.properties() {
            properties.push(name, value);
        }
        let key = Some("a key".into());
        let message =
            Message { body: body.clone(), key, properties: properties.build(), ..Message::default() };
        source.publish(0, message).await;
    }
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let read = member.consume(&owned, sent.len()).await?;
    let mut ids = Vec::new();
    for (delivery, body) in read.iter().zip(&sent) {
        let length = body.len();
        ensure!(delivery.undecodable.is_none(), "a message of {length} bytes can't be decoded: {delivery:?}");
        ensure!(delivery.message.body == *body, "a body of {length} bytes came changed");
        let key = delivery.message.key.as_deref();
        ensure!(key == Some("a key") && delivery.key.is_some(), "the key came as {key:?}");
        ensure!(!delivery.message.id.is_empty(), "a message has no id");
        ids.push(delivery.message.id.clone());
        for (name, value) in source.properties() {
            let found = delivery.message.properties.get(name);
            ensure!(found == Some(value), "the property {name:?} came as {found:?}, not {value:?}");
        }
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == sent.len(), "two messages share an id");
    Ok(Outcome::Passed)
}

/// Where a source tells its end, it lies behind the last message.
pub(super) async fn the_end_of_the_queue_is_told<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    publish_numbers(&source, 0, 0..7).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let until = Instant::now() + member.patience;
    loop {
        let (deliveries, _, end) = member.fetch(&owned, owned.cursor, 1, 1_000).await?;
        let Some(end) = end else {
            let log = member.capabilities.settlement == Kind::Cumulative;
            ensure!(!log, "a log has an end, and the fetch did not tell it");
            return Ok(Outcome::NotApplicable("the source does not tell its end"));
        };
        if let Some(first) = deliveries.first() {
            let backlog = end.0.saturating_sub(first.position.0);
            ensure!(backlog == 7, "with 7 messages the end lies {backlog} behind the first");
            return Ok(Outcome::Passed);
        }
        ensure!(Instant::now() < until, "no message came");
    }
}

/// What can't be decoded is handed over in its place as its raw bytes, and dead-lettered as these.
pub(super) async fn what_can_not_be_decoded_keeps_its_place<H: Harness>(harness: &H) -> Checked {
    let source = harness.source(1).await;
    let raw = Bytes::from_static(b"\xff\x00 not a message");
    source.publish(0, message("before")).await;
    if !source.publish_undecodable(0, raw.clone()).await {
        return Ok(Outcome::NotApplicable("the harness can't store what can't be decoded"));
    }
    source.publish(0, message("after")).await;
    let member = Member::joined(&source, "a").await;
    let owned = member.own(&source.queue_name(0)).await?;
    let read = member.consume(&owned, 1).await?;
    ensure!(bodies(&read) == ["before"], "first came {read:?}");
    let from = read.last().map_or(owned.cursor, |last| last.position.next());
    let read = member.read(&owned, from, 1).await?;
    let Some((delivery, undecodable)) =
        read.first().and_then(|delivery| Some((delivery, delivery.undecodable.as_ref()?)))
    else {
        return Err(super::Failure(format!("in its place came {read:?}")));
    };
    ensure!(undecodable.raw == raw, "its bytes came as {:?}", undecodable.raw);
    if member.capabilities.dead_letter == DeadLetterBy::Broker {
        member.settle(owned.epoch, delivery, Settlement::DeadLetter).await?;
        let dead = member.dead_letters(&source).await?;
        ensure!(dead.iter().all(|found| *found == raw), "the dead letters are {dead:?}");
    }
    let next = member.read(&owned, delivery.position.next(), 1).await?;
    ensure!(bodies(&next) == ["after"], "behind it came {next:?}");
    Ok(Outcome::Passed)
}
