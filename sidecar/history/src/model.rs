use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{Anomaly, Event, History, Order, Outcome, Rules, Verdict};

/// A published message and what became of it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) position: u64,
    pub(crate) key: Option<Arc<str>>,
    /// The end of the first request that was answered 2xx.
    pub(crate) done_at: Option<u64>,
    /// Whether it has a final verdict other than a 2xx.
    pub(crate) excused: bool,
    /// The start of its first request.
    pub(crate) first_start: Option<u64>,
    /// Its requests by start: indices of `Model::posts`.
    pub(crate) posts: Vec<usize>,
}

/// A queue's messages by position, and its commits by time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) messages: Vec<Message>,
    pub(crate) commits: Vec<(u64, u64)>,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) queue: Arc<str>,
    /// Index of its message in the queue.
    pub(crate) message: usize,
    pub(crate) position: u64,
    pub(crate) start: u64,
    /// `None` while it was still running at the end of the history.
    pub(crate) end: Option<(u64, Outcome)>,
    pub(crate) attempt: u32,
    pub(crate) consumer: Arc<str>,
    pub(crate) epoch: Option<u64>,
}

/// A fault and what it may cost.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) name: Arc<str>,
    queue: Option<Arc<str>>,
    pub(crate) duplicates: u64,
    pub(crate) overlaps: u64,
}

impl Fault {
    fn touches(&self, queue: &str) -> bool {
        self.queue.as_deref().is_none_or(|name| name == queue)
    }
}

/// The history, put in order.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) queues: BTreeMap<Arc<str>, Queue>,
    /// By start.
    pub(crate) posts: Vec<Post>,
    /// By time.
    pub(crate) faults: Vec<Fault>,
}

/// What deliveries must be in order within: a queue, and a key where the order is per key.
pub(crate) type Line = (Arc<str>, Option<Arc<str>>);

impl Post {
    pub(crate) fn is_done(&self) -> bool {
        self.end.is_some_and(|(_, outcome)| outcome.is_done())
    }

    pub(crate) fn name(&self) -> String {
        format!("{}@{} from {} at {}", self.queue, self.position, self.consumer, self.start)
    }
}

impl Model {
    pub(crate) fn build(history: &History, rules: &Rules, verdict: &mut Verdict) -> Self {
        let mut model = Self::default();
        model.take_messages(history, verdict);
        let posts = Self::pair_posts(history, verdict);
        model.place_posts(posts, verdict);
        for event in &history.events {
            model.take_other(event, verdict);
        }
        model.faults.sort_by_key(|fault| fault.at);
        for queue in model.queues.values_mut() {
            queue.commits.sort_unstable();
        }
        model.count(rules, verdict);
        model
    }

    /// The last fault before `at` that may touch `queue`, by its index.
    pub(crate) fn fault_before(&self, queue: &str, at: u64) -> Option<(usize, &Fault)> {
        let earlier = self.faults.partition_point(|fault| fault.at <= at);
        self.faults.iter().enumerate().take(earlier).rev().find(|(_, fault)| fault.touches(queue))
    }

    /// How many faults that may touch `queue` came after `since` and not after `until`.
    pub(crate) fn faults_between(&self, queue: &str, since: u64, until: u64) -> usize {
        let within = |fault: &&Fault| (since + 1..=until).contains(&fault.at) && fault.touches(queue);
        self.faults.iter().filter(within).count()
    }

    pub(crate) fn message(&self, post: &Post) -> Option<&Message> {
        self.queues.get(&post.queue)?.messages.get(post.message)
    }

    /// The line of a request; `None` where nothing has an order.
    pub(crate) fn line(&self, post: &Post, order: Order) -> Option<Line> {
        match order {
            Order::PerQueue => Some((Arc::clone(&post.queue), None)),
            Order::PerKey => Some((Arc::clone(&post.queue), self.message(post)?.key.clone())),
            Order::Unordered => None,
        }
    }

    fn take_messages(&mut self, history: &History, verdict: &mut Verdict) {
        for event in &history.events {
            if let Event::Published { queue, position, key } = event {
                let message = Message {
                    position: *position,
                    key: key.clone(),
                    done_at: None,
                    first_start: None,
                    excused: false,
                    posts: Vec::new(),
                };
                self.queues.entry(Arc::clone(queue)).or_default().messages.push(message);
            }
        }
        for (name, queue) in &mut self.queues {
            queue.messages.sort_by_key(|message| message.position);
            let before = queue.messages.len();
            queue.messages.dedup_by_key(|message| message.position);
            if queue.messages.len() < before {
                verdict.found(Anomaly::Malformed, || format!("{name}: a position was published twice"));
            }
        }
    }

    fn pair_posts(history: &History, verdict: &mut Verdict) -> Vec<Post> {
        let mut posts: Vec<Post> = Vec::new();
        let mut by_name: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for event in &history.events {
            if let Event::Start { at, post, queue, position, attempt, consumer, epoch } = event {
                if by_name.insert(Arc::clone(post), posts.len()).is_some() {
                    verdict.found(Anomaly::Malformed, || format!("request {post} started twice"));
                }
                posts.push(Post {
                    queue: Arc::clone(queue),
                    message: 0,
                    position: *position,
                    start: *at,
                    end: None,
                    attempt: *attempt,
                    consumer: Arc::clone(consumer),
                    epoch: *epoch,
                });
            }
        }
        for event in &history.events {
            if let Event::End { at, post, outcome } = event {
                match by_name.get(post).and_then(|index| posts.get_mut(*index)) {
                    Some(open) if open.end.is_none() && open.start <= *at => open.end = Some((*at, *outcome)),
                    _ => {
                        verdict.found(Anomaly::Malformed, || format!("request {post} ended without a start"))
                    }
                }
            }
        }
        posts.sort_by_key(|post| post.start);
        posts
    }

    /// Gives each request its message, and each message its requests.
    fn place_posts(&mut self, posts: Vec<Post>, verdict: &mut Verdict) {
        for mut post in posts {
            let index = self.posts.len();
            match self.find_mut(&post.queue, post.position) {
                Some((at, message)) => {
                    message.posts.push(index);
                    message.first_start.get_or_insert(post.start);
                    if let Some((end, outcome)) = post.end
                        && outcome.is_done()
                    {
                        message.done_at = Some(message.done_at.map_or(end, |done| done.min(end)));
                    }
                    post.message = at;
                    self.posts.push(post);
                }
                None => verdict.found(Anomaly::Unknown, || format!("{} was never published", post.name())),
            }
        }
    }

    fn take_other(&mut self, event: &Event, verdict: &mut Verdict) {
        match event {
            Event::Published { .. } | Event::Start { .. } | Event::End { .. } => {}
            Event::Commit { at, queue, position } => {
                self.queues.entry(Arc::clone(queue)).or_default().commits.push((*at, *position));
            }
            Event::Final { queue, position, .. } => match self.find_mut(queue, *position) {
                Some((_, message)) => message.excused = true,
                None => verdict.found(Anomaly::Unknown, || format!("{queue}@{position} was never published")),
            },
            Event::Fault { at, name, queue, duplicates, overlaps } => self.faults.push(Fault {
                at: *at,
                name: Arc::clone(name),
                queue: queue.clone(),
                duplicates: *duplicates,
                overlaps: *overlaps,
            }),
        }
    }

    fn find_mut(&mut self, queue: &str, position: u64) -> Option<(usize, &mut Message)> {
        let messages = &mut self.queues.get_mut(queue)?.messages;
        let index = messages.binary_search_by_key(&position, |message| message.position).ok()?;
        Some((index, messages.get_mut(index)?))
    }

    fn count(&self, rules: &Rules, verdict: &mut Verdict) {
        let length = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        verdict.counts.posts = length(self.posts.len());
        for (name, queue) in &self.queues {
            verdict.counts.published += length(queue.messages.len());
            verdict.counts.commits += length(queue.commits.len());
            for message in &queue.messages {
                verdict.counts.done += u64::from(message.done_at.is_some());
                verdict.counts.finals += u64::from(message.excused);
                if rules.complete && message.done_at.is_none() && !message.excused {
                    let posts = message.posts.len();
                    verdict.found(Anomaly::Loss, || {
                        format!("{name}@{} was never answered 2xx, in {posts} requests", message.position)
                    });
                }
            }
        }
    }

    /// The consumers of our own make whose request was done before `post` for the same message, or `None` when it
    /// is no duplicate. An empty set means that only others had done it. The retry of a duplicate is not another one.
    pub(crate) fn done_before(&self, index: usize, post: &Post, rules: &Rules) -> Option<BTreeSet<&str>> {
        let earlier = self.message(post)?.posts.iter().take_while(|other| **other != index);
        let earlier: Vec<&Post> = earlier.filter_map(|other| self.posts.get(*other)).collect();
        if !earlier.last()?.is_done() {
            return None;
        }
        let done = earlier.into_iter().filter(|other| other.is_done()).map(|other| &*other.consumer);
        Some(done.filter(|name| !rules.apart.contains(*name)).collect())
    }
}
