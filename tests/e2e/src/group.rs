//! One scenario's namespace with the group in it, whatever broker the group consumes from.

use std::{
    fmt, fs,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use lockstep_history::{Event, History, Rules, Verdict, check};
use lockstep_tests_support::time::{now_micros, pause, wait_until};
use serde_json::{Value, json};

use crate::{
    api::{holds, paths},
    site::{SYSTEM, Site},
    worker::Worker,
};

/// The group's name: the Deployment has it too.
pub const GROUP: &str = "orders";
/// How long a change of the cluster may take.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often pods and sidecars are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How late what an application saw may arrive.
const LATE: Duration = Duration::from_secs(5);
/// How often what applications have done is looked at.
const DONE_EVERY: Duration = Duration::from_millis(200);

/// What a scenario's group is like.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `spec.replicas`.
    pub replicas: u32,
    /// The application's first rules.
    pub rules: String,
    /// RocketMQ's topics to subscribe to beside the world's own.
    pub topics: Vec<String>,
    /// Further lines of the broker's part of `spec.source`, indented by six blanks, and of `spec.source`, by four.
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

/// One scenario's namespace, the group in it, and what happened to its messages.
#[derive(Debug)]
pub struct Group<'a> {
    /// What all share.
    pub site: &'a Site,
    /// Its namespace, which enforces the restricted level.
    pub namespace: String,
    /// What its queues' names begin with.
    pub topic: String,
    events: Arc<Mutex<Vec<Event>>>,
    publisher: Option<Worker>,
}

impl<'a> Group<'a> {
    /// A new namespace.
    pub fn new(site: &'a Site, namespace: &str, topic: String) -> Self {
        let restricted = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        site.api.create("/api/v1/namespaces", &restricted);
        Self { site, namespace: namespace.to_owned(), topic, events: Arc::default(), publisher: None }
    }

    /// Applies the group's manifest, with these lines of `spec.source`.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub fn apply_source(&self, setting: &Setting, source: &str) {
        let manifest = self.manifest(setting, source);
        self.site.cluster.apply(&manifest).unwrap_or_else(|error| panic!("{error}\n{manifest}"));
    }

    fn manifest(&self, setting: &Setting, source: &str) -> String {
        let Setting { replicas, rules, spec, container, version, .. } = setting;
        let namespace = &self.namespace;
        let collector = self.site.collector.address();
        format!(
            "apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: {GROUP}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  source:
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

    /// Publishes by this work, again and again, until it is stopped.
    pub fn publish_by(&mut self, every: Duration, work: impl FnMut() + Send + 'static) {
        self.publisher = Some(Worker::start(every, work));
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
            pause(DONE_EVERY);
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

    /// Where the scenario's events go.
    pub fn events(&self) -> Arc<Mutex<Vec<Event>>> {
        Arc::clone(&self.events)
    }

    /// No attempt has failed in the pods that are there.
    ///
    /// # Panics
    /// When one has.
    pub fn assert_not_charged(&self, what: &str) {
        let charged = self.pods().iter().find_map(|pod| {
            let status = self.sidecar_status(pod);
            let failed = status["counters"]["failedAttempts"].as_u64().unwrap_or(0);
            (failed > 0).then_some(status)
        });
        assert!(charged.is_none(), "{what} was charged: {charged:#?}");
    }

    /// What happened so far, and the verdict.
    pub fn history(&self, rules: &Rules) -> (History, Verdict) {
        let mut history = History::from(self.events.lock().unwrap().clone());
        history.extend(self.site.collector.history(&self.topic));
        let verdict = check(&history, rules);
        (history, verdict)
    }

    /// Judges what happened. What applications saw comes by another way than what the broker says, and may come later: it
    /// can only make losses fewer.
    ///
    /// # Panics
    /// When a promise was broken.
    pub fn judge_history(&self, rules: &Rules) -> Verdict {
        let since = Instant::now();
        let (history, verdict) = loop {
            let seen = self.history(rules);
            if seen.1.is_clean() || since.elapsed() > LATE {
                break seen;
            }
            pause(DONE_EVERY);
        };
        let file = self.site.cluster.state().join(format!("{}.history", self.namespace));
        fs::write(&file, history.to_string()).unwrap();
        assert!(verdict.is_clean(), "{verdict}\nthe history is in {}", file.display());
        verdict
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

impl Drop for Group<'_> {
    fn drop(&mut self) {
        drop(self.publisher.take());
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
