//! Plays the Deployment controller, the scheduler, the kubelet and the sidecars: every Deployment of the operator gets
//! its pods at once, each with a loopback address of its own, where a sidecar's `/status` is served.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use http::Method;
use lockstep_contract::{
    ApplicationStatus, ConfigStatus, Health, LimitStatus, Phase, SourceStatus, Status, Totals, config_hash,
    names::{annotations, files, labels},
};
use lockstep_tests_support::ports::free_port;
use serde_json::{Value, json};

use crate::api::{Api, paths};

/// How often the API server is asked for what changed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Shared {
    pods: Mutex<BTreeMap<IpAddr, Pod>>,
    /// The hot hash of each group, by namespace and name.
    hot: Mutex<BTreeMap<(String, String), String>>,
    backlog: AtomicBool,
    polls: AtomicU64,
}

#[derive(Debug, Clone)]
struct Pod {
    group: (String, String),
    uid: String,
    cold_hash: String,
}

/// Running fakes. Their threads end with the process.
#[derive(Debug)]
pub struct Fakes {
    shared: Arc<Shared>,
    port: u16,
}

impl Fakes {
    /// Starts them.
    ///
    /// # Panics
    /// When the port is taken.
    pub fn start(kubeconfig: &Path) -> Self {
        let shared = Arc::<Shared>::default();
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&served);
                thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        let mut controller = Controller {
            api: Api::new(kubeconfig),
            shared: Arc::clone(&shared),
            seen: BTreeMap::new(),
            addresses: 0,
        };
        thread::spawn(move || {
            loop {
                controller.look();
                thread::sleep(LOOK_EVERY);
            }
        });
        Self { shared, port }
    }

    /// What `spec.sidecar.adminPort` must be, so that the operator finds the fake sidecars.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether each answer tells of another backlog.
    pub fn change_backlog(&self, changes: bool) {
        self.shared.backlog.store(changes, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let address = stream.local_addr()?.ip();
    let mut lines = BufReader::new(stream).lines();
    loop {
        let mut asked = false;
        for line in lines.by_ref() {
            if line?.is_empty() {
                asked = true;
                break;
            }
        }
        if !asked {
            return Ok(());
        }
        let body = status(address, shared).map_or_else(String::new, |status| json!(status).to_string());
        let code = if body.is_empty() { 404 } else { 200 };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {code} -\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    }
}

/// What a healthy sidecar says of itself.
fn status(address: IpAddr, shared: &Shared) -> Option<Status> {
    let pod = lock(&shared.pods).get(&address).cloned()?;
    let hot_hash = lock(&shared.hot).get(&pod.group).cloned().unwrap_or_default();
    let polls = shared.polls.fetch_add(1, Ordering::Relaxed);
    let backlog = if shared.backlog.load(Ordering::Relaxed) { polls * 100 } else { 0 };
    Some(Status {
        format: lockstep_contract::STATUS_FORMAT,
        version: "fake".to_owned(),
        group: pod.group.1,
        client_id: pod.uid,
        config: ConfigStatus { cold_hash: pod.cold_hash, hot_hash, ..ConfigStatus::default() },
        phase: Phase::Running,
        ready: true,
        application: ApplicationStatus { health: Health::Healthy, ..ApplicationStatus::default() },
        source: SourceStatus { connected: true, ..SourceStatus::default() },
        totals: Totals { known: Some(1), owned: 1, backlog: Some(backlog), ..Totals::default() },
        limit: LimitStatus { current: 1, max: 1, ..LimitStatus::default() },
        ..Status::default()
    })
}

/// Does what a cluster's controllers and kubelets would do.
#[derive(Debug)]
struct Controller {
    api: Api,
    shared: Arc<Shared>,
    /// The generation up to which a Deployment was followed, by its UID.
    seen: BTreeMap<String, i64>,
    addresses: u32,
}

impl Controller {
    fn look(&mut self) {
        let ours = format!("labelSelector={}%3Dlockstep-operator", labels::MANAGED_BY.replace('/', "%2F"));
        let list = |path: String| self.api.request(Method::GET, &path, None).unwrap_or_default();
        let maps = list(format!("/api/v1/configmaps?{ours}"));
        for map in maps["items"].as_array().into_iter().flatten() {
            let (namespace, name) = place(map);
            if let (Some(group), Some(text)) =
                (name.strip_suffix("-hot"), map["data"][files::CONFIG_KEY].as_str())
            {
                lock(&self.shared.hot).insert((namespace, group.to_owned()), config_hash(text));
            }
        }
        let deployments = list(format!("/apis/apps/v1/deployments?{ours}"));
        for deployment in deployments["items"].as_array().into_iter().flatten() {
            let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let generation = deployment["metadata"]["generation"].as_i64().unwrap_or(0);
            if self.seen.get(&uid) != Some(&generation) && self.follow(deployment).is_ok() {
                self.seen.insert(uid, generation);
            }
        }
    }

    /// Makes a Deployment's pods what it wants. An error means that something changed meanwhile: the next look sees it.
    fn follow(&mut self, deployment: &Value) -> Result<(), crate::api::Refusal> {
        let (namespace, name) = place(deployment);
        let template = &deployment["spec"]["template"];
        let hash = config_hash(&template.to_string()).split_at(10).0.to_owned();
        let set = format!("{name}-{hash}");
        let mut labels = template["metadata"]["labels"].clone();
        labels["pod-template-hash"] = json!(hash);
        let sets = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        let owned = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": set, "labels": labels, "ownerReferences": owner("Deployment", deployment)},
            "spec": {
                "replicas": deployment["spec"]["replicas"], "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": template["metadata"]["annotations"]}, "spec": template["spec"]},
            },
        });
        match self.api.request(Method::POST, &sets, Some(&owned)) {
            Err(refusal) if refusal.code != 409 => return Err(refusal),
            _ => {}
        }
        let owned = self.api.request(Method::GET, &format!("{sets}/{set}"), None)?;
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        let names: Vec<String> = (0..wanted).map(|number| format!("{set}-{number}")).collect();
        let pods = self.api.list(&paths::pods_of(&namespace, &name));
        let all = paths::core(&namespace, "pods");
        for pod in &pods {
            let (_, pod) = place(pod);
            if !names.contains(&pod) {
                self.api.delete(&format!("{all}/{pod}"), &json!({"gracePeriodSeconds": 0}));
            }
        }
        for pod in &names {
            if !pods.iter().any(|there| place(there).1 == *pod) {
                self.start_pod(&namespace, &name, pod, &owned)?;
            }
        }
        let count = json!(wanted);
        let counts = json!({
            "observedGeneration": owned["metadata"]["generation"], "replicas": count, "readyReplicas": count,
            "availableReplicas": count, "fullyLabeledReplicas": count,
        });
        self.api.request(Method::PATCH, &format!("{sets}/{set}/status"), Some(&json!({"status": counts})))?;
        let now = "2026-01-01T00:00:00Z";
        let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now, "lastUpdateTime": now});
        let status = json!({
            "observedGeneration": deployment["metadata"]["generation"], "replicas": count, "readyReplicas": count,
            "updatedReplicas": count, "availableReplicas": count,
            "conditions": [
                condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable"),
            ],
        });
        let path = format!("{}/{name}/status", paths::deployments(&namespace));
        self.api.request(Method::PATCH, &path, Some(&json!({"status": status}))).map(drop)
    }

    fn start_pod(
        &mut self,
        namespace: &str,
        group: &str,
        name: &str,
        set: &Value,
    ) -> Result<(), crate::api::Refusal> {
        let template = &set["spec"]["template"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"], "ownerReferences": owner("ReplicaSet", set),
            },
            "spec": template["spec"],
        });
        let all = paths::core(namespace, "pods");
        let made = self.api.request(Method::POST, &all, Some(&pod))?;
        self.addresses += 1;
        // 127.0.0.0/16 is left to everybody else.
        let address = Ipv4Addr::from_bits(0x7f01_0000 + self.addresses);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let known = Pod {
            group: (namespace.to_owned(), group.to_owned()),
            uid: text(&made["metadata"]["uid"]),
            cold_hash: text(&made["metadata"]["annotations"][annotations::COLD_HASH]),
        };
        lock(&self.shared.pods).insert(IpAddr::V4(address), known);
        let now = "2026-01-01T00:00:00Z";
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
        let conditions =
            conditions.map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now}));
        let running = |list: &Value| -> Vec<Value> {
            let containers = list.as_array().cloned().unwrap_or_default();
            let status = |container: Value| {
                json!({
                    "name": container["name"], "ready": true, "started": true, "restartCount": 0,
                    "image": container["image"], "imageID": "fake", "state": {"running": {"startedAt": now}},
                })
            };
            containers.into_iter().map(status).collect()
        };
        let status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "startTime": now, "conditions": conditions,
            "containerStatuses": running(&template["spec"]["containers"]),
            "initContainerStatuses": running(&template["spec"]["initContainers"]),
        });
        self.api
            .request(Method::PATCH, &format!("{all}/{name}/status"), Some(&json!({"status": status})))
            .map(drop)
    }
}

/// An object's namespace and name.
fn place(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true,
        "blockOwnerDeletion": true,
    }])
}
