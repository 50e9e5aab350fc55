//! One scenario's namespace, topic, group and history.

use std::{
    fmt, fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
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
/// How often pods and sidecars are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How late what an application saw may arrive.
const LATE: Duration = Duration::from_secs(5);
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
    /// Topics to subscribe to beside the world's own.
    pub topics: Vec<String>,
    /// Further lines of `spec.source.rocketmq`, indented by six blanks, and of `spec.source`, by four.
    pub source: String,
    /// Further lines of `spec`, indented by two blanks.
    pub spec: String,
    /// Further lines of the application's container, indented by eight blanks.
    pub container: String,
    /// A value of the pod template that another value of rolls the pods.
    pub version: u32,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            replicas: 3,
            rules: "answer 200 delay=5000".to_owned(),
            topics: Vec::new(),
            source: String::new(),
            spec: String::new(),
            container: String::new(),
            version: 1,
        }
    }
}

/// How long each step of a scenario took, for its report.
#[derive(Debug)]
pub struct Steps(Vec<String>, Instant);

impl Default for Steps {
    fn default() -> Self {
        Self(Vec::new(), Instant::now())
    }
}

impl Steps {
    /// Notes the step that has just ended.
    pub fn note(&mut self, what: &str) {
        self.0.push(format!("{what} {:.0} s", self.1.elapsed().as_secs_f32()));
        self.1 = Instant::now();
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
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

    /// Ends it; what it panicked with, if it did.
    fn stop(self) -> thread::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join()
    }
}

/// One scenario's namespace, topic, group and history.
#[derive(Debug)]
pub struct World<'a> {
    /// What all share.
    pub site: &'a Site,
    /// A client of its broker.
    pub mq: Cluster,
    /// Its name server's address.
    pub name_server: String,
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
    /// A new namespace, and a topic of [`QUEUES`] queues at the site's broker.
    pub fn new(site: &'a Site, name: &str) -> Self {
        Self::at(site, name, site.mq.clone(), site.servers.namesrv())
    }

    /// The same at another broker, which is called [`BROKER`] too.
    pub fn at(site: &'a Site, name: &str, mq: Cluster, name_server: String) -> Self {
        let (topic, broker_group) = (format!("{name}-topic"), format!("{name}-group"));
        let restricted = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        site.api.create("/api/v1/namespaces", &restricted);
        mq.create_topic(&topic, QUEUES);
        mq.create_group(&broker_group);
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let (client, group, of, into) =
            (mq.clone(), broker_group.clone(), topic.clone(), Arc::clone(&events));
        let watch = Worker::start(COMMITS_EVERY, move || {
            let seen = client.commits(&group, &of, QUEUES);
            into.lock().unwrap().extend(seen);
        });
        Self {
            site,
            mq,
            name_server,
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
        let Setting { replicas, rules, topics, source, spec, container, version } = setting;
        let Self { namespace, topic, broker_group, name_server, .. } = self;
        let collector = self.site.collector.address();
        let topics = [std::slice::from_ref(topic), topics].concat();
        let subscriptions: Vec<String> = topics.iter().map(|topic| format!("{{topic: {topic}}}")).collect();
        let subscriptions = subscriptions.join(", ");
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
      subscriptions: [{subscriptions}]
      startPosition: {{type: Earliest}}
      lockLifetimeSeconds: {LOCK_SECONDS}
{source}{spec}  template:
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
    /// it wants and no other. What the group's status says may be older than what just happened to its pods, so the
    /// Deployment and the pods are asked too.
    pub fn await_settled(&self, limit: Duration) -> Value {
        let settled = |group: &Value| {
            let (status, wanted) = (&group["status"], &group["spec"]["replicas"]);
            let counts = ["replicas", "readyReplicas", "updatedReplicas"];
            let complete = |object: &Value| {
                object["status"]["observedGeneration"] == object["metadata"]["generation"]
                    && counts.iter().all(|count| number(&object["status"][count]) == number(wanted))
            };
            status.is_object()
                && complete(group)
                && holds(group, "Ready", "True")
                && !holds(group, "Reconciling", "True")
                && complete(&self.deployment())
                && self.are_all_ready(number(wanted))
        };
        self.site.api.await_object(&self.group_path(), "the group is settled", limit, settled)
    }

    /// Whether there are so many pods and no other, each ready and none ending.
    fn are_all_ready(&self, wanted: u64) -> bool {
        let pods = self.all_pods();
        let ready =
            |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null() && holds(pod, "Ready", "True");
        pods.len() as u64 == wanted && pods.iter().all(ready)
    }

    /// The group's Deployment; null when it is not there.
    pub fn deployment(&self) -> Value {
        let path = format!("{}/{GROUP}", paths::deployments(&self.namespace));
        self.site.api.get(&path).unwrap_or_default()
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
        publish(&self.mq, &self.topic, count, &self.ends, &self.events);
    }

    /// Publishes to all queues until it is stopped.
    pub fn publish_on(&mut self) {
        let (mq, topic) = (self.mq.clone(), self.topic.clone());
        let (ends, events) = (Arc::clone(&self.ends), Arc::clone(&self.events));
        self.publisher = Some(Worker::start(PUBLISH_EVERY, move || publish(&mq, &topic, 1, &ends, &events)));
    }

    /// Publishes no more.
    ///
    /// # Panics
    /// When the broker did not take a message.
    pub fn stop_publishing(&mut self) {
        self.publisher.take().map_or(Ok(()), Worker::stop).unwrap();
    }

    /// Waits until so many more messages are done.
    pub fn await_more_done(&self, count: usize) {
        let before = self.site.collector.done(&self.topic);
        wait_until(&format!("{count} more messages are done"), PATIENCE, || {
            pause(COMMITS_EVERY);
            self.site.collector.done(&self.topic) >= before + count
        });
    }

    /// What the group's pods are in a few words, for sentences about what went wrong.
    pub fn summary(&self) -> String {
        let line = |pod: &Value| {
            let (metadata, status) = (&pod["metadata"], &pod["status"]);
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let wrong = conditions.iter().filter(|condition| condition["status"] != "True");
            let wrong: Vec<&Value> = wrong.map(|condition| &condition["type"]).collect();
            format!(
                "{} version={} ending={} phase={} not={wrong:?} restarts={}",
                metadata["name"],
                metadata["annotations"]["version"],
                !metadata["deletionTimestamp"].is_null(),
                status["phase"],
                restarts(pod)
            )
        };
        self.all_pods().iter().map(line).collect::<Vec<_>>().join("\n")
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
        let (history, verdict) = self.history();
        let file = self.site.cluster.state().join(format!("{}.history", self.namespace));
        fs::write(&file, history.to_string()).unwrap();
        assert!(verdict.is_clean(), "{verdict}\nthe history is in {}", file.display());
        verdict
    }
}

impl World<'_> {
    /// What happened, and the verdict. What applications saw comes by another way than the commits, and may come later:
    /// it can only make losses fewer.
    fn history(&self) -> (History, Verdict) {
        let since = Instant::now();
        loop {
            let mut history = History::from(self.events.lock().unwrap().clone());
            history.extend(self.site.collector.history(&self.topic));
            let verdict = check(&history, &Rules::new(Order::PerQueue));
            if verdict.is_clean() || since.elapsed() > LATE {
                return (history, verdict);
            }
            pause(COMMITS_EVERY);
        }
    }

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
        // A panic here would end the whole run, and leave its cluster.
        for worker in [self.publisher.take(), self.watch.take()].into_iter().flatten() {
            drop(worker.stop());
        }
        if thread::panicking() {
            self.dump();
        }
        drop(self.site.cluster.try_kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]));
    }
}

/// A count that may be absent.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
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
