//! An API server in this process: lists, watches, server-side apply as a merge, the status' own door, deletions, and
//! faults on request.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::store::{Change, Store, selected};

/// A write that the server saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) code: u16,
}

/// What goes wrong.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// Of the request.
    pub(crate) method: Method,
    /// What the path holds.
    pub(crate) path: &'static str,
    /// How often.
    pub(crate) times: usize,
    /// The answer.
    pub(crate) code: u16,
    /// The answer's reason.
    pub(crate) reason: &'static str,
    /// The answer's cause.
    pub(crate) cause: &'static str,
    /// The answer's words.
    pub(crate) message: &'static str,
}

impl Fault {
    pub(crate) fn new(method: Method, path: &'static str, times: usize, code: u16) -> Self {
        Self { method, path, times, code, reason: "", cause: "", message: "" }
    }
}

#[derive(Debug, Default)]
struct Inner {
    store: Store,
    writes: Vec<Write>,
    faults: Vec<Fault>,
    held: Option<&'static str>,
}

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    inner: Arc<Mutex<Inner>>,
    turn: watch::Sender<u64>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self { inner: Arc::default(), turn: watch::Sender::new(0) }
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let fake = fake.clone();
            async move { Ok::<_, Infallible>(fake.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Changes objects behind the operator's back.
    pub(crate) fn edit<R>(&self, change: impl FnOnce(&mut Store) -> R) -> R {
        let result = change(&mut self.inner.lock().unwrap().store);
        self.turn.send_modify(|turn| *turn += 1);
        result
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.get_in(plural, "shop", name)
    }

    pub(crate) fn get_in(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.inner.lock().unwrap().store.get(plural, namespace, name).cloned()
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.inner.lock().unwrap().faults.push(fault);
    }

    /// Keeps what happens to objects of that kind from watches for now.
    pub(crate) fn hold(&self, plural: Option<&'static str>) {
        self.inner.lock().unwrap().held = plural;
        self.turn.send_modify(|turn| *turn += 1);
    }

    /// The writes since the last call.
    pub(crate) fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.inner.lock().unwrap().writes)
    }

    /// Waits until something holds, looking after each change and each request.
    pub(crate) async fn until<R>(&self, mut holds: impl FnMut(&Self) -> Option<R>) -> R {
        let mut turns = self.turn.subscribe();
        loop {
            turns.mark_unchanged();
            if let Some(result) = holds(self) {
                return result;
            }
            // An hour of the paused clock: what has not come by then never comes.
            let change = tokio::time::timeout(Duration::from_secs(3600), turns.changed()).await;
            change.expect("something should have happened by now").unwrap();
        }
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let query: BTreeMap<String, String> =
            parts.uri.query().unwrap_or_default().split('&').filter_map(pair).collect();
        let path = parts.uri.path().to_owned();
        let response = match self.fault(&parts.method, &path) {
            Some(fault) => failure(&fault),
            None => self.serve(&parts.method, &path, &query, &body),
        };
        if parts.method != Method::GET {
            let code = response.status().as_u16();
            self.inner.lock().unwrap().writes.push(Write { method: parts.method, path, code });
        }
        self.turn.send_modify(|turn| *turn += 1);
        response
    }

    fn fault(&self, method: &Method, path: &str) -> Option<Fault> {
        let faults = &mut self.inner.lock().unwrap().faults;
        let fault = faults
            .iter_mut()
            .find(|fault| fault.times > 0 && fault.method == *method && path.contains(fault.path))?;
        fault.times -= 1;
        Some(fault.clone())
    }

    fn serve(
        &self,
        method: &Method,
        path: &str,
        query: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Response<Body> {
        // /api/v1/... or /apis/<group>/<version>/...
        let skipped = if path.starts_with("/api/") { 2 } else { 3 };
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').skip(skipped).collect();
        let (namespace, plural, name, door) = match parts.as_slice() {
            ["namespaces", namespace, plural] => (Some(*namespace), *plural, None, None),
            ["namespaces", namespace, plural, name] => (Some(*namespace), *plural, Some(*name), None),
            ["namespaces", namespace, plural, name, door] => {
                (Some(*namespace), *plural, Some(*name), Some(*door))
            }
            [plural] => (None, *plural, None, None),
            other => panic!("an unknown path {other:?}"),
        };
        let selector = query.get("labelSelector").map(String::as_str);
        if method == Method::GET && name.is_none() && query.contains_key("watch") {
            let from = query["resourceVersion"].parse().unwrap();
            return self.watch(
                plural.to_owned(),
                namespace.map(str::to_owned),
                selector.map(str::to_owned),
                from,
            );
        }
        let store = &mut self.inner.lock().unwrap().store;
        let ns = namespace.unwrap_or_default();
        match (method.as_str(), name) {
            ("GET", None) => list(store, plural, namespace, selector),
            ("GET", Some(name)) => found(store.get(plural, ns, name).cloned()),
            ("DELETE", Some(name)) => found(store.delete(plural, ns, name)),
            ("POST", None) => {
                let object: Value = serde_json::from_slice(body).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                found(Some(store.put(plural, ns, &name, object)))
            }
            ("PATCH", Some(name)) => {
                let mut patch: Value = serde_json::from_slice(body).unwrap();
                let live = store.get(plural, ns, name);
                let uid = patch["metadata"].as_object_mut().unwrap().remove("uid");
                match (live, door) {
                    (None, Some(_)) => status(404, "NotFound", ""),
                    (None, None) if plural == "pods" => status(404, "NotFound", ""),
                    (Some(live), _) if uid.is_some_and(|uid| live["metadata"]["uid"] != uid) => {
                        status(409, "Conflict", "")
                    }
                    (_, Some("status")) => {
                        // All of the status is its one writer's.
                        let mut object = live.cloned().unwrap();
                        object["status"] = patch["status"].clone();
                        found(Some(store.put(plural, ns, name, object)))
                    }
                    (_, _) => found(Some(store.apply(plural, ns, name, &patch))),
                }
            }
            other => panic!("an unknown request {other:?} {path}"),
        }
    }

    fn watch(
        &self,
        plural: String,
        namespace: Option<String>,
        selector: Option<String>,
        from: u64,
    ) -> Response<Body> {
        let begin = (self.clone(), self.turn.subscribe(), from);
        let lines = stream::unfold(begin, move |(fake, mut turns, seen)| {
            let (plural, namespace, selector) = (plural.clone(), namespace.clone(), selector.clone());
            async move {
                loop {
                    turns.mark_unchanged();
                    let next = {
                        let inner = fake.inner.lock().unwrap();
                        let held = inner.held == Some(plural.as_str());
                        let changes = &inner.store.changes;
                        let first = changes.partition_point(|change| change.version <= seen);
                        let mut later =
                            changes[first..].iter().filter(|change| !held && change.plural == plural);
                        later.find_map(|change| {
                            let line = line(change, namespace.as_deref(), selector.as_deref())?;
                            Some((change.version, line))
                        })
                    };
                    if let Some((version, line)) = next {
                        return Some((Ok::<_, Infallible>(line), (fake, turns, version)));
                    }
                    turns.changed().await.unwrap();
                }
            }
        });
        Response::new(Body::from_stream(lines))
    }
}

/// A change as a watch with a selector shows it: an object that loses the label is deleted for it.
fn line(change: &Change, namespace: Option<&str>, selector: Option<&str>) -> Option<Bytes> {
    if namespace.is_some_and(|namespace| change.object["metadata"]["namespace"] != namespace) {
        return None;
    }
    let was = change.before.as_ref().is_some_and(|before| selected(before, selector));
    let is = selected(&change.object, selector);
    let kind = match (change.kind, was, is) {
        ("DELETED", true, _) => "DELETED",
        ("DELETED", false, _) | (_, false, false) => return None,
        (_, true, false) => "DELETED",
        (_, false, true) => "ADDED",
        (_, true, true) => "MODIFIED",
    };
    // What is out of sight is shown as it was last seen.
    let mut object =
        change.before.clone().filter(|_| kind == "DELETED").unwrap_or_else(|| change.object.clone());
    object["metadata"]["resourceVersion"] = json!(change.version.to_string());
    let mut line = json!({"type": kind, "object": object}).to_string();
    line.push('\n');
    Some(line.into())
}

fn list(store: &Store, plural: &str, namespace: Option<&str>, selector: Option<&str>) -> Response<Body> {
    let of = |place: &(String, String, String)| {
        place.0 == plural && namespace.is_none_or(|given| given == place.1)
    };
    let objects = store.objects.iter().filter(|(place, object)| of(place) && selected(object, selector));
    let items: Vec<&Value> = objects.map(|(_, object)| object).collect();
    let version = store.version().to_string();
    found(Some(
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items}),
    ))
}

fn found(object: Option<Value>) -> Response<Body> {
    match object {
        Some(object) => Response::new(Body::from(object.to_string())),
        None => status(404, "NotFound", ""),
    }
}

fn status(code: u16, reason: &'static str, cause: &'static str) -> Response<Body> {
    failure(&Fault { reason, cause, ..Fault::new(Method::GET, "", 0, code) })
}

fn failure(fault: &Fault) -> Response<Body> {
    let Fault { code, reason, cause, message, .. } = *fault;
    let causes: Vec<Value> =
        [cause].iter().filter(|cause| !cause.is_empty()).map(|cause| json!({"reason": cause})).collect();
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the test's answer {code} {reason}: {message}"), "details": {"causes": causes},
    });
    Response::builder().status(code).body(Body::from(body.to_string())).unwrap()
}

fn pair(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.to_owned(), value.replace("%2F", "/").replace("%3D", "=")))
}
