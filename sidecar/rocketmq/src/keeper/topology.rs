//! Topics, their queues and their brokers' addresses as the name servers told them, and what a change means.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use lockstep_model::Moment;

use crate::protocol::MessageQueue;

/// How long a queue that vanished together with its broker (or with its whole topic) counts as there: a name server
/// forgets a broker the moment its connection breaks, and a restarted one knows a broker only after the broker's next
/// registration (30 s).
const VANISHED_GRACE: Duration = Duration::from_secs(60);

/// One topic's route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// The readable queues.
    pub(crate) queues: BTreeSet<MessageQueue>,
    /// The addresses of each broker by its id; 0 is the master.
    pub(crate) brokers: BTreeMap<Arc<str>, BTreeMap<i64, String>>,
}

/// What a look at the name servers brought for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Its route.
    Found(Route),
    /// No such topic.
    Missing,
    /// A kind of topic that is not served; why.
    Unsupported(String),
}

#[derive(Debug, Default)]
struct Topic {
    route: Option<Route>,
    /// Every queue of the first route, which start by the setting, and later ones once they were seen to begin.
    first: Option<BTreeSet<MessageQueue>>,
    /// Queues that are not in the route any more and not given up yet.
    vanished: BTreeMap<MessageQueue, Moment>,
    missing: bool,
    unsupported: Option<String>,
}

/// The subscribed topics. Bounded by the subscriptions and the brokers' queues.
#[derive(Debug)]
pub(crate) struct Topology {
    topics: BTreeMap<Arc<str>, Topic>,
}

impl Topology {
    pub(crate) fn new(topics: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { topics: topics.into_iter().map(|topic| (topic, Topic::default())).collect() }
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// Takes one topic's look-up and answers the queues that do not exist any more. A look-up that failed is not
    /// taken: it changes nothing.
    pub(crate) fn take(&mut self, now: Moment, name: &str, looked: Looked) -> BTreeSet<MessageQueue> {
        let Some(topic) = self.topics.get_mut(name) else { return BTreeSet::new() };
        topic.missing = looked == Looked::Missing;
        topic.unsupported = None;
        let before = topic.route.take();
        match looked {
            Looked::Found(route) => topic.route = Some(route),
            Looked::Missing => {}
            Looked::Unsupported(why) => topic.unsupported = Some(why),
        }
        topic.note_vanished(now, before.as_ref())
    }

    /// A topic's queues in allocation order. Empty before its route is known.
    pub(crate) fn queues(&self, topic: &str) -> Vec<MessageQueue> {
        let route = self.topics.get(topic).and_then(|topic| topic.route.as_ref());
        route.map(|route| route.queues.iter().cloned().collect()).unwrap_or_default()
    }

    /// Queues that vanished with their broker a short while ago: whoever has them keeps them.
    pub(crate) fn vanished(&self) -> impl Iterator<Item = &MessageQueue> {
        self.topics.values().flat_map(|topic| topic.vanished.keys())
    }

    /// Whether a queue appeared after its topic's first route, so that it starts at its beginning.
    pub(crate) fn is_new(&self, queue: &MessageQueue) -> bool {
        let first = self.topics.get(&queue.topic).and_then(|topic| topic.first.as_ref());
        first.is_some_and(|first| !first.contains(queue))
    }

    /// The brokers of a topic, any of which knows the group's members.
    pub(crate) fn brokers_of(&self, topic: &str) -> Vec<Arc<str>> {
        let route = self.topics.get(topic).and_then(|topic| topic.route.as_ref());
        route.map(|route| route.brokers.keys().cloned().collect()).unwrap_or_default()
    }

    /// Every advertised address: broker, id, address.
    pub(crate) fn addresses(&self) -> BTreeSet<(Arc<str>, i64, String)> {
        let routes = self.topics.values().filter_map(|topic| topic.route.as_ref());
        let mut all = BTreeSet::new();
        for (broker, addresses) in routes.flat_map(|route| &route.brokers) {
            all.extend(addresses.iter().map(|(id, address)| (Arc::clone(broker), *id, address.clone())));
        }
        all
    }

    /// Queues of the group over all members, those of one topic not counted.
    pub(crate) fn total(&self, but: &str) -> usize {
        let counted = self.topics.iter().filter(|(name, _)| ***name != *but);
        counted.filter_map(|(_, topic)| topic.route.as_ref()).map(|route| route.queues.len()).sum()
    }

    /// Topics that the name servers do not know.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.iter().filter(|(_, topic)| topic.missing).map(|(name, _)| name)
    }

    /// Topics of a kind that is not served, and why.
    pub(crate) fn unsupported(&self) -> impl Iterator<Item = (&Arc<str>, &str)> {
        self.topics.iter().filter_map(|(name, topic)| Some((name, topic.unsupported.as_deref()?)))
    }

    /// Brokers with queues whose master has no address in the route.
    pub(crate) fn without_master(&self) -> BTreeSet<Arc<str>> {
        let routes = self.topics.values().filter_map(|topic| topic.route.as_ref());
        let mut brokers = BTreeSet::new();
        for route in routes {
            for queue in &route.queues {
                if !route.brokers.get(&queue.broker_name).is_some_and(|addresses| addresses.contains_key(&0))
                {
                    brokers.insert(Arc::clone(&queue.broker_name));
                }
            }
        }
        brokers
    }
}

impl Topic {
    /// Tells queues that vanished for a while from those that are gone, and answers the latter.
    fn note_vanished(&mut self, now: Moment, before: Option<&Route>) -> BTreeSet<MessageQueue> {
        let empty = Route::default();
        let current = self.route.as_ref().unwrap_or(&empty);
        if self.first.is_none() && self.route.is_some() {
            self.first = Some(current.queues.clone());
        }
        self.vanished.retain(|queue, _| !current.queues.contains(queue));
        let mut gone = BTreeSet::new();
        let brokers: BTreeSet<&str> = current.queues.iter().map(|queue| &*queue.broker_name).collect();
        for queue in before.into_iter().flat_map(|route| &route.queues) {
            if !current.queues.contains(queue) {
                self.vanished.entry(queue.clone()).or_insert(now);
            }
        }
        let unsupported = self.unsupported.is_some();
        self.vanished.retain(|queue, since| {
            let keep =
                !unsupported && !brokers.contains(&*queue.broker_name) && now.since(*since) < VANISHED_GRACE;
            if !keep {
                gone.insert(queue.clone());
            }
            keep
        });
        gone
    }
}

#[cfg(test)]
mod tests;
