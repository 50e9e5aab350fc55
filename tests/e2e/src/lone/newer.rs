//! A resource that is newer than the operator, with fields and words that it does not know.

use std::time::Duration;

use http::Method;
use lockstep_tests_support::time::wait_until;
use serde_json::{Value, json};

use super::{LoneSite, crowd, operator::Operator};
use crate::{
    api::{condition, holds, paths},
    plan::Plan,
};

const JUDGED_WITHIN: Duration = Duration::from_secs(60);
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/consumergroups.lockstep.dev";

/// An unknown field is kept and changes nothing; a group with an unknown word says so, and holds up no other.
pub(super) fn definition(site: &LoneSite, _: &Plan) -> String {
    let before = site.api.get(DEFINITION).unwrap();
    let mut newer = before.clone();
    let spec = &mut newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["novelty"] = json!({"type": "string"});
    let words = spec["properties"]["state"]["enum"].as_array_mut().unwrap();
    words.push(json!("Dreaming"));
    site.api.merge(DEFINITION, &json!({"spec": newer["spec"]}));

    let namespace = site.namespace("newer");
    let groups = paths::groups(&namespace);
    let mut novel = crowd::group("novel", "newer-1", site.fakes.port());
    novel["spec"]["novelty"] = json!("new");
    // The API server takes a new definition up after a moment; until then it drops what it does not know.
    site.api.await_value("the new field is known", JUDGED_WITHIN, |api| {
        // While a definition changes, requests for its objects may be refused.
        let stored = api.request(Method::POST, &format!("{groups}?dryRun=All"), Some(&novel)).ok()?;
        (stored["spec"]["novelty"] == "new").then_some(())
    });
    site.api.create(&groups, &novel);
    let mut dreaming = crowd::group("dreaming", "newer-2", site.fakes.port());
    dreaming["spec"]["state"] = json!("Dreaming");
    site.api.create(&groups, &dreaming);
    site.api.create(&groups, &crowd::group("plain", "newer-3", site.fakes.port()));

    let operator = site.alone("newer");
    let of = |name: &str| format!("{groups}/{name}");
    let ready = |name: &str| {
        let ready = |group: &Value| holds(group, "Ready", "True");
        site.api.await_object(&of(name), &format!("{name} is ready"), JUDGED_WITHIN, ready)
    };
    let kept = ready("novel");
    assert_eq!(kept["spec"]["novelty"], "new", "the operator dropped what it does not know");
    ready("plain");
    let stalled = site.api.await_object(&of("dreaming"), "it is stalled", JUDGED_WITHIN, |group| {
        holds(group, "Stalled", "True")
    });
    let (_, reason, message) = condition(&stalled, "Stalled").unwrap();
    assert_eq!(reason, "InvalidSpec", "{message}");
    assert!(message.contains("Dreaming"), "{message}");
    assert_eq!(stalled["spec"]["state"], "Dreaming");
    let (message, generation) = (message.to_owned(), &stalled["metadata"]["generation"]);
    assert_eq!(stalled["status"]["observedGeneration"], *generation, "{stalled:#}");

    site.api.merge(&of("dreaming"), &json!({"spec": {"state": "Running"}}));
    ready("dreaming");
    assert_eq!(operator.get("/live").0, 200);
    told(&operator, "newer than this operator", "spec.novelty", 0);
    older(site, &before);
    site.api.merge(DEFINITION, &json!({"spec": before["spec"]}));
    message
}

/// A definition without a field that the operator knows is told from the start on.
fn older(site: &LoneSite, before: &Value) {
    let mut older = before["spec"].clone();
    let spec = &mut older["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"].as_object_mut().unwrap().remove("podDisruptionBudget").unwrap();
    site.api.merge(DEFINITION, &json!({"spec": older}));
    told(&site.operator("older"), "older than this operator", "spec.podDisruptionBudget", 1);
    site.api.merge(DEFINITION, &json!({"spec": before["spec"]}));
    told(&site.operator("equal"), "the installed definition is this operator's", "", 0);
}

fn told(operator: &Operator, words: &str, field: &str, outdated: u8) {
    wait_until(&format!("{words}: {field}"), JUDGED_WITHIN, || {
        let said = operator.process.output();
        said.lines().any(|line| line.contains(words) && line.contains(field))
    });
    let (_, metrics) = operator.get("/metrics");
    assert!(metrics.contains(&format!("\nlockstep_operator_crd_outdated {outdated}\n")), "{metrics}");
}
