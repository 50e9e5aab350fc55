//! A scenario's group with a topic of RocketMQ, and its history.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex},
    time::Duration,
};

use lockstep_history::{Event, Order, Rules, Verdict};
use lockstep_tests_support::{
    rocketmq::{Cluster, Outgoing, queue_name},
    time::{now_micros, pause},
};
use serde_json::Value;

use crate::{
    group::{Group, PATIENCE, Setting},
    site::{BROKER, LOCK_SECONDS, Site},
    worker::Worker,
};

/// Queues of a scenario's topic.
pub const QUEUES: u32 = 8;
/// How often committed positions are looked at.
const COMMITS_EVERY: Duration = Duration::from_millis(200);
/// How often the publisher gives each queue a message.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// A scenario's group, topic and history.
#[derive(Debug)]
pub struct World<'a> {
    /// The group.
    pub group: Group<'a>,
    /// A client of its broker.
    pub mq: Cluster,
    /// Its name server's address.
    pub name_server: String,
    /// Its group at the broker.
    pub broker_group: String,
    ends: Arc<Mutex<Vec<u64>>>,
    watch: Option<Worker>,
}

impl<'a> World<'a> {
    /// A new namespace, and a topic of [`QUEUES`] queues at the site's broker.
    pub fn new(site: &'a Site, name: &str) -> Self {
        Self::at(site, name, site.mq.clone(), site.servers.namesrv())
    }

    /// The same at another broker, which is called [`BROKER`] too.
    pub fn at(site: &'a Site, name: &str, mq: Cluster, name_server: String) -> Self {
        let group = Group::new(site, name, format!("{name}-topic"));
        let broker_group = format!("{name}-group");
        mq.create_topic(&group.topic, QUEUES);
        mq.create_group(&broker_group);
        let (client, of, topic, into) =
            (mq.clone(), broker_group.clone(), group.topic.clone(), group.events());
        let watch = Worker::start(COMMITS_EVERY, move || {
            let seen = client.commits(&of, &topic, QUEUES);
            into.lock().unwrap().extend(seen);
        });
        let ends = Arc::new(Mutex::new(vec![0; QUEUES as usize]));
        Self { group, mq, name_server, broker_group, ends, watch: Some(watch) }
    }

    /// Applies the group.
    pub fn apply(&self, setting: &Setting) {
        let topics = [std::slice::from_ref(&self.topic), &setting.topics].concat();
        let subscriptions: Vec<String> = topics.iter().map(|topic| format!("{{topic: {topic}}}")).collect();
        let source = format!(
            "    rocketmq:
      nameServers: [\"{}\"]
      consumerGroup: {}
      subscriptions: [{}]
      startPosition: {{type: Earliest}}
      lockLifetimeSeconds: {LOCK_SECONDS}
{}",
            self.name_server,
            self.broker_group,
            subscriptions.join(", "),
            setting.source
        );
        self.apply_source(setting, &source);
    }

    /// Publishes so many messages to each queue.
    pub fn publish(&self, count: usize) {
        publish(&self.mq, &self.topic, count, &self.ends, &self.events());
    }

    /// Publishes to all queues until it is stopped.
    pub fn publish_on(&mut self) {
        let (mq, topic, ends, events) =
            (self.mq.clone(), self.topic.clone(), Arc::clone(&self.ends), self.events());
        self.publish_by(PUBLISH_EVERY, move || publish(&mq, &topic, 1, &ends, &events));
    }

    /// Waits until all that was published is committed.
    pub fn await_end(&self) {
        let ends = self.ends.lock().unwrap().clone();
        let committed =
            |queue| self.mq.committed(&self.broker_group, &self.topic, BROKER, queue).unwrap_or(0);
        let mut seen = Vec::new();
        let since = now_micros();
        while now_micros() - since < u64::try_from(PATIENCE.as_micros()).unwrap() {
            seen = (0..QUEUES).map(committed).collect();
            if seen.iter().zip(&ends).all(|(committed, end)| committed >= end) {
                return;
            }
            pause(COMMITS_EVERY);
        }
        let status: Vec<Value> = self.pods().iter().map(|pod| self.sidecar_status(pod)).collect();
        panic!("published {ends:?}, committed {seen:?}: {status:#?}");
    }

    /// Ends the scenario: all must be delivered, in order, nothing dead-lettered, and duplicates only where a fault
    /// was noted.
    ///
    /// # Panics
    /// When it is not so.
    pub fn judge(&mut self) -> Verdict {
        self.stop_publishing();
        self.await_end();
        self.watch.take().map_or(Ok(()), Worker::stop).unwrap();
        let dead = self.mq.try_end_of(&format!("%DLQ%{}", self.broker_group), BROKER, 0);
        assert!(dead.is_none_or(|count| count == 0), "{dead:?} messages were dead-lettered");
        self.judge_history(&Rules::new(Order::PerQueue))
    }
}

impl<'a> Deref for World<'a> {
    type Target = Group<'a>;

    fn deref(&self) -> &Group<'a> {
        &self.group
    }
}

impl DerefMut for World<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.group
    }
}

fn publish(mq: &Cluster, topic: &str, count: usize, ends: &Mutex<Vec<u64>>, events: &Mutex<Vec<Event>>) {
    for queue in 0..QUEUES {
        let body = vec![b'x'; 200];
        let messages =
            vec![Outgoing { body, key: Some(format!("key-{queue}")), ..Outgoing::default() }; count];
        let positions = mq.publish(topic, BROKER, queue, &messages);
        if let Some(last) = positions.iter().max() {
            ends.lock().unwrap()[queue as usize] = last + 1;
        }
        let name: Arc<str> = queue_name(topic, BROKER, queue).into();
        let key = Some(Arc::from(format!("key-{queue}")));
        let published = positions.into_iter().map(|position| Event::Published {
            queue: Arc::clone(&name),
            position,
            key: key.clone(),
        });
        events.lock().unwrap().extend(published);
    }
}
