//! One scenario's namespace, topic, group and history.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use lockstep_history::{Event, History, Order, Rules, Verdict, check};
use lockstep_tests_support::{
    rocketmq::{Cluster, Outgoing, queue_name},
    time::{now_micros, pause, wait_until},
};
use serde_json::{Value, json};

use crate::{
    api::{holds, paths},
    site::{BROKER, LOCK_SECONDS, SYSTEM, Site},
};

/// Queues of a scenario's topic.
pub const QUEUES: u32 = 8;
/// The group's name: the Deployment has it too.
pub const GROUP: &str = "orders";
/// How long a change of the cluster may take.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often committed positions are looked at.
const COMMITS_EVERY: Duration = Duration::from_millis(200);
/// How often the publisher gives each queue a message.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);

/// What a scenario's group is like.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `spec.replicas`.
    pub replicas: u32,
    /// The application's first rules.
    pub rules: String,
    /// Further lines of `spec`, indented by two blanks.
    pub spec: String,
    /// Further lines of the application's container, indented by eight blanks.
    pub container: String,
    /// A value of the pod template that another value of rolls the pods.
    pub version: u32,
}

impl Default for Setting {
    fn default() -> Self {
        let rules = "answer 200 delay=5000".to_owned();
        Self { replicas: 3, rules, spec: String::new(), container: String::new(), version: 1 }
    }
}

/// Something that goes on in a thread until it is stopped.
#[derive(Debug)]
struct Worker {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn start(every: Duration, mut work: impl FnMut() + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                work();
                thread::park_timeout(every);
            }
        });
        Self { over, thread }
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap();
    }
}

/// One scenario's namespace, topic, group and history.
#[derive(Debug)]
pub struct World<'a> {
    /// What all share.
    pub site: &'a Site,
    /// Its namespace, which enforces the restricted level.
    pub namespace: String,
    /// Its topic.
    pub topic: String,
    /// Its group at the broker.
    pub broker_group: String,
    events: Arc<Mutex<Vec<Event>>>,
    ends: Arc<Mutex<Vec<u64>>>,
    publisher: Option<Worker>,
    watch: Option<Worker>,
}

impl<'a> World<'a> {
    /// A new namespace, and a topic of [`QUEUES`] queues.
    pub fn new(site: &'a Site, name: &str) -> Self {
        let (topic, broker_group) = (format!("{name}-topic"), format!("{name}-group"));
        let restricted = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        site.api.create("/api/v1/namespaces", &restricted);
        site.mq.create_topic(&topic, QUEUES);
        site.mq.create_group(&broker_group);
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let (mq, group, of, into) =
            (site.mq.clone(), broker_group.clone(), topic.clone(), Arc::clone(&events));
        let watch = Worker::start(COMMITS_EVERY, move || {
            let seen = mq.commits(&group, &of, QUEUES);
            into.lock().unwrap().extend(seen);
        });
        Self {
            site,
            namespace: name.to_owned(),
            topic,
            broker_group,
            events,
            ends: Arc::new(Mutex::new(vec![0; QUEUES as usize])),
            publisher: None,
            watch: Some(watch),
        }
    }

    /// The group's manifest.
    pub fn manifest(&self, setting: &Setting) -> String {
        let Setting { replicas, rules, spec, container, version } = setting;
        let Self { namespace, topic, broker_group, .. } = self;
        let (name_server, collector) = (self.site.servers.namesrv(), self.site.collector.address());
        format!(
            "apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: {GROUP}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  source:
    rocketmq:
      nameServers: [\"{name_server}\"]
      consumerGroup: {broker_group}
      subscriptions: [{{topic: {topic}}}]
      startPosition: {{type: Earliest}}
      lockLifetimeSeconds: {LOCK_SECONDS}
{spec}  template:
    metadata: {{annotations: {{version: \"{version}\"}}}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 5
      securityContext: {{runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
      - name: app
        image: localhost/lockstep-test-app:test
        env:
        - {{name: COLLECTOR, value: \"{collector}\"}}
        - {{name: RULES, value: \"{rules}\"}}
        securityContext: {{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {{drop: [ALL]}}}}
{container}"
        )
    }

    /// Applies the group.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn apply(&self, setting: &Setting) {
        let manifest = self.manifest(setting);
        self.site.cluster.apply(&manifest).unwrap_or_else(|error| panic!("{error}\n{manifest}"));
    }

    /// The group as the API server has it.
    pub fn group(&self) -> Value {
        self.site.api.get(&self.group_path()).unwrap_or_default()
    }

    /// The group's path.
    pub fn group_path(&self) -> String {
        format!("{}/{GROUP}", paths::groups(&self.namespace))
    }

    /// The group's pods that are not ending.
    pub fn pods(&self) -> Vec<Value> {
        let mut pods = self.all_pods();
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The group's pods, ending ones among them.
    pub fn all_pods(&self) -> Vec<Value> {
        self.site.api.list(&paths::pods_of(&self.namespace, GROUP))
    }

    /// Waits until the group is settled: observed, Ready, not Reconciling, and with as many current and ready pods as
    /// it wants and no other.
    pub fn await_settled(&self, limit: Duration) -> Value {
        let settled = |group: &Value| {
            let status = &group["status"];
            let wanted = &group["spec"]["replicas"];
            let current = status["observedGeneration"] == group["metadata"]["generation"];
            let counts = ["replicas", "readyReplicas", "updatedReplicas"];
            current
                && holds(group, "Ready", "True")
                && !holds(group, "Reconciling", "True")
                && counts.iter().all(|count| status[count] == *wanted)
        };
        let start = now_micros();
        let group = self.site.api.await_object(&self.group_path(), "the group is settled", limit, settled);
        let left = limit.saturating_sub(Duration::from_micros(now_micros() - start));
        self.site.api.await_value("no other pods are left", left.max(Duration::from_secs(1)), |_| {
            (json!(self.all_pods().len()) == group["spec"]["replicas"]).then_some(())
        });
        group
    }

    /// What a pod's sidecar says of itself; null when it does not answer.
    pub fn sidecar_status(&self, pod: &Value) -> Value {
        let address = format!(
            "{}:{}",
            pod["status"]["podIP"].as_str().unwrap_or("none"),
            lockstep_contract::names::ADMIN_PORT
        );
        let answer = lockstep_tests_support::http::call(&address, "GET", "/status", b"");
        answer.ok().and_then(|(_, body)| serde_json::from_slice(&body).ok()).unwrap_or_default()
    }

    /// Runs kubectl in the namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.site.cluster.kubectl(&[&["--namespace", &self.namespace][..], arguments].concat())
    }

    /// Publishes so many messages to each queue.
    pub fn publish(&self, count: usize) {
        publish(&self.site.mq, &self.topic, count, &self.ends, &self.events);
    }

    /// Publishes to all queues until it is stopped.
    pub fn publish_on(&mut self) {
        let (mq, topic) = (self.site.mq.clone(), self.topic.clone());
        let (ends, events) = (Arc::clone(&self.ends), Arc::clone(&self.events));
        self.publisher = Some(Worker::start(PUBLISH_EVERY, move || publish(&mq, &topic, 1, &ends, &events)));
    }

    /// Publishes no more.
    pub fn stop_publishing(&mut self) {
        self.publisher.take().into_iter().for_each(Worker::stop);
    }

    /// Waits until so many more messages are done.
    pub fn await_more_done(&self, count: usize) {
        let before = self.site.collector.done(&self.topic);
        wait_until(&format!("{count} more messages are done"), PATIENCE, || {
            pause(COMMITS_EVERY);
            self.site.collector.done(&self.topic) >= before + count
        });
    }

    /// Notes a fault and what it may cost in each queue.
    pub fn fault(&self, name: &str, duplicates: u64, overlaps: u64) {
        let name = name.into();
        self.note(Event::Fault { at: now_micros(), name, queue: None, duplicates, overlaps });
    }

    /// Notes an event.
    pub fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    /// Waits until all that was published is committed.
    pub fn await_end(&self) {
        let ends = self.ends.lock().unwrap().clone();
        let committed =
            |queue| self.site.mq.committed(&self.broker_group, &self.topic, BROKER, queue).unwrap_or(0);
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
        self.watch.take().into_iter().for_each(Worker::stop);
        let dead = self.site.mq.try_end_of(&format!("%DLQ%{}", self.broker_group), BROKER, 0);
        assert!(dead.is_none_or(|count| count == 0), "{dead:?} messages were dead-lettered");
        let mut history = History::from(self.events.lock().unwrap().clone());
        history.extend(self.site.collector.history(&self.topic));
        let file = self.site.cluster.state().join(format!("{}.history", self.namespace));
        fs::write(&file, history.to_string()).unwrap();
        let verdict = check(&history, &Rules::new(Order::PerQueue));
        assert!(verdict.is_clean(), "{verdict}\nthe history is in {}", file.display());
        verdict
    }
}

impl World<'_> {
    /// Writes down how everything is, for whoever looks at a failure.
    fn dump(&self) {
        let file = self.site.cluster.state().join("log").join(format!("{}.dump", self.namespace));
        let selector = format!("--selector=lockstep.dev/consumergroup={GROUP}");
        let asked: [&[&str]; 5] = [
            &["get", "cgrp,deployments,replicasets,pods", "--output=wide"],
            &["get", "cgrp,pods", "--output=yaml"],
            &["get", "events", "--sort-by=.metadata.creationTimestamp"],
            &["logs", &selector, "--all-containers", "--prefix", "--tail=200"],
            &[
                "logs",
                "--namespace",
                SYSTEM,
                "--selector=app.kubernetes.io/name=lockstep",
                "--prefix",
                "--tail=400",
            ],
        ];
        let answers = asked.map(|arguments| {
            let answer =
                self.site.cluster.try_kubectl(&[&["--namespace", &self.namespace][..], arguments].concat());
            format!("# kubectl {}\n{}\n", arguments.join(" "), answer.unwrap_or_else(|error| error))
        });
        drop(fs::write(&file, answers.concat()));
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        self.stop_publishing();
        self.watch.take().into_iter().for_each(Worker::stop);
        if thread::panicking() {
            self.dump();
        }
        // A panic here would end the whole run.
        drop(self.site.cluster.try_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]));
    }
}

/// How often a pod's containers were restarted.
pub fn restarts(pod: &Value) -> u64 {
    let of = |list: &Value| -> u64 {
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|status| status["restartCount"].as_u64()).sum()
    };
    of(&pod["status"]["containerStatuses"]) + of(&pod["status"]["initContainerStatuses"])
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
