//! Plays the Deployment controller, the scheduler, the kubelet and the sidecars: every Deployment of the operator gets
//! its pods at once, each with a loopback address of its own, where a sidecar's `/status` is served.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use http::Method;
use lockstep_contract::{
    ApplicationStatus, ConfigStatus, Health, LimitStatus, Phase, SourceStatus, Status, Totals, config_hash,
    names::{files, labels},
};
use lockstep_tests_support::{ports::free_port, time::pause};
use serde_json::{Value, json};

pub(super) use super::players::Step;
use super::players::{follow, place};
use crate::api::Api;

/// How often the API server is asked for what changed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the fakes know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pods: Mutex<BTreeMap<IpAddr, Pod>>,
    /// The hot configuration of each group, by namespace and name.
    hot: Mutex<BTreeMap<(String, String), Hot>>,
    /// Namespaces in which nothing happens by itself.
    held: Mutex<BTreeSet<String>>,
    backlog: AtomicBool,
    polls: AtomicU64,
    addresses: AtomicU32,
}

impl Shared {
    /// A new pod's address; 127.0.0.0/16 is left to everybody else.
    pub(super) fn start(&self, pod: Pod) -> IpAddr {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) + 1;
        let address = IpAddr::V4(Ipv4Addr::from_bits(0x7f01_0000 + number));
        lock(&self.pods).insert(address, pod);
        address
    }
}

/// A pod whose sidecar is played.
#[derive(Debug, Clone)]
pub(super) struct Pod {
    pub(super) group: (String, String),
    pub(super) uid: String,
    pub(super) cold_hash: String,
}

#[derive(Debug, Clone, Default)]
struct Hot {
    hash: String,
    paused: bool,
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
        let mut controller =
            Controller { api: Api::new(kubeconfig), shared: Arc::clone(&shared), seen: BTreeMap::new() };
        thread::spawn(move || {
            loop {
                controller.look();
                pause(LOOK_EVERY);
            }
        });
        Self { shared, port }
    }

    /// What `spec.sidecar.adminPort` must be, so that the operator finds the fake sidecars.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Does nothing by itself in a namespace any more: the scenario plays step by step.
    pub fn hold(&self, namespace: &str) {
        lock(&self.shared.held).insert(namespace.to_owned());
    }

    /// Plays in a namespace again by itself.
    pub fn release(&self, namespace: &str) {
        lock(&self.shared.held).remove(namespace);
    }

    /// Plays a Deployment up to a step.
    ///
    /// # Panics
    /// When the API server refuses.
    pub fn play(&self, api: &Api, deployment: &Value, until: Step) {
        follow(api, &self.shared, deployment, until)
            .unwrap_or_else(|refusal| panic!("{until:?}: {refusal:?}"));
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
    let Hot { hash: hot_hash, paused } = lock(&shared.hot).get(&pod.group).cloned().unwrap_or_default();
    let polls = shared.polls.fetch_add(1, Ordering::Relaxed);
    let backlog = if shared.backlog.load(Ordering::Relaxed) { polls * 100 } else { 0 };
    Some(Status {
        format: lockstep_contract::STATUS_FORMAT,
        version: "fake".to_owned(),
        group: pod.group.1,
        client_id: pod.uid,
        config: ConfigStatus { cold_hash: pod.cold_hash, hot_hash, ..ConfigStatus::default() },
        phase: if paused { Phase::Paused } else { Phase::Running },
        ready: true,
        application: ApplicationStatus { health: Health::Healthy, ..ApplicationStatus::default() },
        source: SourceStatus { connected: true, ..SourceStatus::default() },
        totals: Totals {
            known: Some(1),
            owned: u32::from(!paused),
            backlog: Some(backlog),
            ..Totals::default()
        },
        limit: LimitStatus { current: 1, max: 1, ..LimitStatus::default() },
        ..Status::default()
    })
}

/// Does what a cluster's controllers and kubelets would do, except in namespaces that are held.
#[derive(Debug)]
struct Controller {
    api: Api,
    shared: Arc<Shared>,
    /// The generation up to which a Deployment was followed, by its UID.
    seen: BTreeMap<String, i64>,
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
                let config: Value = serde_yaml::from_str(text).unwrap_or_default();
                let paused = config["spec"]["state"] == "Paused";
                let hot = Hot { hash: config_hash(text), paused };
                lock(&self.shared.hot).insert((namespace, group.to_owned()), hot);
            }
        }
        let deployments = list(format!("/apis/apps/v1/deployments?{ours}"));
        for deployment in deployments["items"].as_array().into_iter().flatten() {
            let uid = deployment["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let generation = deployment["metadata"]["generation"].as_i64().unwrap_or(0);
            if self.seen.get(&uid) == Some(&generation)
                || lock(&self.shared.held).contains(&place(deployment).0)
            {
                continue;
            }
            // An error means that something changed meanwhile: the next look sees it.
            if follow(&self.api, &self.shared, deployment, Step::LAST).is_ok() {
                self.seen.insert(uid, generation);
            }
        }
    }
}
