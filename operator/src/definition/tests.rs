use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::*;

fn own() -> Value {
    serde_json::to_value(lockstep_crds::crd()).unwrap()
}

/// The definition as an API server answers it: with what it sets by itself.
fn installed() -> Value {
    let mut crd = own();
    crd["metadata"] = json!({
        "name": "consumergroups.lockstep.dev", "uid": "a-uid", "generation": 1, "resourceVersion": "7",
        "creationTimestamp": "2026-11-30T08:00:00Z", "annotations": {"helm.sh/resource-policy": "keep"},
        "managedFields": [{"manager": "helm", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
    });
    crd["spec"]["conversion"] = json!({"strategy": "None"});
    crd["spec"]["preserveUnknownFields"] = json!(false);
    crd["spec"]["names"]["listKind"] = json!("ConsumerGroupList");
    crd["status"] = json!({
        "acceptedNames": crd["spec"]["names"], "storedVersions": ["v1alpha1"],
        "conditions": [{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}],
    });
    crd
}

/// The difference of a definition that was changed below the schema's `spec`.
fn changed(change: impl FnOnce(&mut Value)) -> Difference {
    let mut crd = installed();
    change(&mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]);
    difference(crd)
}

fn difference(crd: Value) -> Difference {
    compare(&serde_json::from_value(crd).unwrap(), &serde_json::from_str(lockstep_crds::OUTLINE).unwrap())
}

fn lacks(paths: &[&str]) -> Difference {
    Difference { lacks: paths.iter().map(|path| (*path).to_owned()).collect(), adds: Vec::new() }
}

fn adds(paths: &[&str]) -> Difference {
    Difference { adds: lacks(paths).lacks, lacks: Vec::new() }
}

fn remove(node: &mut Value, name: &str) {
    node.as_object_mut().unwrap().remove(name).expect(name);
}

#[test]
fn what_an_api_server_adds_is_no_difference() {
    assert_eq!(difference(installed()), Difference::default());
}

#[test]
fn bounds_rules_defaults_and_words_for_people_may_differ() {
    let same = changed(|spec| {
        spec["replicas"]["maximum"] = json!(5);
        remove(&mut spec["replicas"], "default");
        spec["retry"]["description"] = json!("other words");
        remove(&mut spec["source"], "x-kubernetes-validations");
    });
    assert_eq!(same, Difference::default());
}

#[test]
fn fields_that_an_older_one_lacks_are_named() {
    assert_eq!(changed(|spec| remove(spec, "drain")), lacks(&["spec.drain"]));
    let below = changed(|spec| remove(&mut spec["retry"]["properties"], "onDataLoss"));
    assert_eq!(below, lacks(&["spec.retry.onDataLoss"]));
    let member = changed(|spec| {
        let rocketmq = &mut spec["source"]["properties"]["rocketmq"]["properties"];
        remove(&mut rocketmq["subscriptions"]["items"]["properties"], "sql");
    });
    assert_eq!(member, lacks(&["spec.source.rocketmq.subscriptions[].sql"]));
    let value = changed(|spec| {
        remove(
            &mut spec["source"]["properties"]["rocketmq"]["properties"]["addressOverrides"],
            "additionalProperties",
        );
    });
    assert_eq!(value, lacks(&["spec.source.rocketmq.addressOverrides{}"]));
}

#[test]
fn words_and_types_that_an_older_one_refuses_are_named() {
    let word = changed(|spec| spec["state"]["enum"] = json!(["Running"]));
    assert_eq!(word, lacks(&["spec.state: Paused"]));
    let kind = changed(|spec| spec["replicas"]["type"] = json!("string"));
    assert_eq!(kind, lacks(&["the type of spec.replicas"]));
    let amount = changed(|spec| spec["delivery"]["properties"]["port"] = json!({"type": "integer"}));
    assert_eq!(amount, lacks(&["the type of spec.delivery.port"]));
}

#[test]
fn an_opaque_field_keeps_everything() {
    let opaque = changed(|spec| {
        spec["template"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    });
    assert_eq!(opaque, Difference::default());
}

#[test]
fn what_a_newer_one_knows_more_is_named() {
    let more = changed(|spec| {
        spec["novelty"] = json!({"type": "string"});
        spec["state"]["enum"].as_array_mut().unwrap().push(json!("Dreaming"));
        spec["retry"]["properties"]["mood"] = json!({"type": "string"});
    });
    let mut found = more.adds.clone();
    found.sort();
    assert_eq!(found, ["spec.novelty", "spec.retry.mood", "spec.state: Dreaming"]);
    assert_eq!(more.lacks, [""; 0]);
    // A free list of words takes all of them.
    let free = changed(|spec| remove(&mut spec["state"], "enum"));
    assert_eq!(free, Difference::default());
    assert_eq!(changed(|spec| spec["a"] = json!({})), adds(&["spec.a"]));
}

#[test]
fn a_version_that_is_not_served_and_missing_subresources_are_named() {
    let mut crd = installed();
    crd["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(difference(crd), lacks(&["the version v1alpha1"]));
    let mut crd = installed();
    crd["spec"]["versions"][0]["name"] = json!("v1");
    assert_eq!(difference(crd), lacks(&["the version v1alpha1"]));
    let mut crd = installed();
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    assert_eq!(difference(crd), lacks(&["the subresource scale"]));
    let mut crd = installed();
    crd["spec"]["versions"][0]["subresources"] = json!({});
    assert_eq!(difference(crd), lacks(&["the subresource status", "the subresource scale"]));
}

/// An API server that answers with one code and one body, and writes down what it was asked for.
fn server(code: u16, body: &Value) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let (log, body) = (Arc::clone(&asked), body.to_string());
    let service = tower::service_fn(move |request: Request<Body>| {
        let accept = request.headers().get("accept").map(|value| value.to_str().unwrap().to_owned());
        let partial = accept.is_some_and(|accept| accept.contains("PartialObjectMetadata"));
        log.lock().unwrap().push(format!(
            "{}{}",
            request.uri().path(),
            if partial { " in short" } else { "" }
        ));
        let response = Response::builder().status(code).body(Body::from(body.clone().into_bytes())).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    (Client::new(service, "default"), asked)
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "No", "code": code})
}

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/consumergroups.lockstep.dev";

#[tokio::test]
async fn the_whole_definition_is_read_once_for_each_of_its_generations() {
    let (client, asked) = server(200, &installed());
    let first = look(&client, &Known::Nothing).await;
    let Known::Compared { which, difference } = &first else { panic!("{first:?}") };
    assert_eq!((which.0.as_str(), which.1, difference), ("a-uid", 1, &Difference::default()));
    assert!(!first.is_outdated());
    assert_eq!(look(&client, &first).await, first);
    let short = format!("{PATH} in short");
    assert_eq!(*asked.lock().unwrap(), [short.as_str(), PATH, short.as_str()]);

    let mut older = installed();
    older["metadata"]["generation"] = json!(2);
    remove(&mut older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"], "status");
    let (client, _) = server(200, &older);
    let second = look(&client, &first).await;
    assert!(second.is_outdated() && second != first, "{second:?}");
}

#[tokio::test]
async fn a_definition_that_is_missing_or_hidden_or_can_not_be_read_now_is_told_apart() {
    let (client, _) = server(404, &refusal(404));
    assert_eq!(look(&client, &Known::Nothing).await, Known::Missing);
    assert!(Known::Missing.is_outdated());
    let (client, _) = server(403, &refusal(403));
    assert_eq!(look(&client, &Known::Missing).await, Known::Hidden);
    assert!(!Known::Hidden.is_outdated());
    for (code, body) in [(500, refusal(500)), (200, json!({"metadata": {}, "spec": "nonsense"}))] {
        let (client, _) = server(code, &body);
        assert_eq!(look(&client, &Known::Missing).await, Known::Missing, "{code}");
        assert_eq!(look(&client, &Known::Nothing).await, Known::Nothing, "{code}");
    }
}
