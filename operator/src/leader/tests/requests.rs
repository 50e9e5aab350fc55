//! What goes over the wire, and what its answers mean.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, client::Body};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::api::{ApiError, InCluster, Leases};

/// Answers every request with this; keeps method, path and body.
fn answering(status: StatusCode, body: Value) -> (InCluster, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (keep, body) = (Arc::clone(&keep), body.to_string());
        async move {
            let (head, sent) = request.into_parts();
            let sent = sent.collect_bytes().await.unwrap();
            let sent = String::from_utf8(sent.to_vec()).unwrap();
            keep.lock().unwrap().push(format!("{} {} {sent}", head.method, head.uri));
            let answer = Response::builder().status(status).body(Body::from(body.into_bytes())).unwrap();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let api = Api::namespaced(kube::Client::new(service, "default"), "lockstep");
    (InCluster { api, name: "lockstep-operator".to_owned() }, asked)
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

fn lease() -> Lease {
    serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lockstep-operator", "resourceVersion": "7"},
        "spec": {"holderIdentity": "me"},
    }))
    .unwrap()
}

#[tokio::test]
async fn a_replacement_names_the_version_that_it_replaces() {
    let (leases, asked) = answering(StatusCode::OK, serde_json::to_value(lease()).unwrap());
    leases.replace(&lease()).await.unwrap();
    let asked = asked.lock().unwrap().join("\n");
    assert!(
        asked.starts_with("PUT /apis/coordination.k8s.io/v1/namespaces/lockstep/leases/lockstep-operator")
    );
    assert!(asked.contains(r#""resourceVersion":"7""#), "{asked}");
}

#[tokio::test]
async fn what_the_answers_mean() {
    let (leases, _) = answering(StatusCode::NOT_FOUND, failure(404, "NotFound"));
    assert!(leases.get().await.unwrap().is_none());
    assert!(matches!(leases.replace(&lease()).await, Err(ApiError::Conflict)));
    let (leases, _) = answering(StatusCode::CONFLICT, failure(409, "AlreadyExists"));
    assert!(matches!(leases.create(&lease()).await, Err(ApiError::Conflict)));
    assert!(matches!(leases.replace(&lease()).await, Err(ApiError::Conflict)));
    let (leases, _) = answering(StatusCode::FORBIDDEN, failure(403, "Forbidden"));
    assert!(matches!(leases.get().await, Err(ApiError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_fails_in_time() {
    let service = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
    });
    let api = Api::namespaced(kube::Client::new(service, "default"), "lockstep");
    let leases = InCluster { api, name: "lockstep-operator".to_owned() };
    let since = Instant::now();
    assert!(matches!(leases.get().await, Err(ApiError::Silent)));
    // Three of them fit into the time in which a leader must renew.
    assert!(since.elapsed() * 3 < super::RENEW_DEADLINE);
}
