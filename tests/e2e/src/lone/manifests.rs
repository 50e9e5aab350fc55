//! Every rule of the resource, kept and broken, against the real API server and the real operator.

use std::time::Duration;

use http::Method;
use lockstep_crds::cases::{Case, Refused};
use serde_json::Value;

use super::LoneSite;
use crate::{
    api::{Refusal, condition, holds, paths},
    plan::Plan,
};

/// Within what time the operator must have judged a group.
const JUDGED_WITHIN: Duration = Duration::from_secs(120);

/// Each manifest that breaks a rule is refused, by the API server or by the operator, in words that name the field;
/// each that keeps it is taken.
pub(super) fn kept_and_broken(site: &LoneSite, _: &Plan) -> String {
    let operator = site.alone("manifests");
    let mut judged = Vec::new();
    let (mut by_server, mut count) = (0, 0);
    for (number, case) in Case::all().enumerate() {
        count += 1;
        let (good, bad) = (format!("keeps-{number}"), format!("breaks-{number}"));
        // What the API server holds needs no operator to look at it.
        let dry = case.refused == Refused::ByApiServer && case.before().is_none();
        write(site, &good, case, case.keeping(), dry)
            .unwrap_or_else(|refusal| panic!("{case} kept: {refusal:?}"));
        let refused = write(site, &bad, case, case.breaking(), false);
        match (case.refused, refused) {
            (Refused::ByApiServer, Err(refusal)) => {
                says(case, &refusal.message);
                by_server += 1;
            }
            (Refused::ByOperator(reason), Ok(path)) => judged.push((case, format!("{reason:?}"), path)),
            (_, outcome) => panic!("{case} broken: {outcome:?}"),
        }
    }
    for (case, reason, path) in &judged {
        let group = site.api.await_object(path, &format!("{case} is stalled"), JUDGED_WITHIN, |group| {
            group["status"]["observedGeneration"] == group["metadata"]["generation"]
                && holds(group, "Stalled", "True")
        });
        let (_, found, message) = condition(&group, "Stalled").unwrap();
        assert_eq!(found, reason, "{case}: {message}");
        assert!(holds(&group, "Ready", "False"), "{case} is stalled and not unready: {group:#}");
        says(case, message);
    }
    // The good ones are served though bad ones are beside them; other sources come later.
    let served = |case: &Case| {
        case.refused != Refused::ByApiServer && case.keeping()["spec"]["source"]["rocketmq"].is_object()
    };
    for (number, case) in Case::all().enumerate().filter(|(_, case)| served(case)) {
        let name = case.keeping()["metadata"]["name"].as_str().unwrap().to_owned();
        let path = format!("{}/{name}", paths::deployments(&format!("keeps-{number}")));
        site.api.await_object(
            &path,
            &format!("{case}, kept, has its Deployment"),
            JUDGED_WITHIN,
            |deployment| deployment["metadata"]["name"] == *name,
        );
    }
    assert_eq!(operator.get("/live").0, 200);
    format!("{count} rules: {by_server} held by the API server, {} by the operator", judged.len())
}

/// Writes a manifest into a namespace of its own; its path.
fn write(
    site: &LoneSite,
    namespace: &str,
    case: &Case,
    manifest: Value,
    dry: bool,
) -> Result<String, Refusal> {
    site.namespace(namespace);
    if let Some(beside) = case.beside() {
        let path = match beside["kind"].as_str() {
            Some("Deployment") => paths::deployments(namespace),
            Some("ConfigMap") => paths::core(namespace, "configmaps"),
            Some("PodDisruptionBudget") => {
                format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
            }
            Some(_) | None => paths::groups(namespace),
        };
        site.api.create(&path, &beside);
    }
    let groups = paths::groups(namespace);
    let path = format!("{groups}/{}", manifest["metadata"]["name"].as_str().unwrap_or_default());
    if let Some(before) = case.before() {
        let there = site.api.create(&groups, &before);
        let mut manifest = manifest;
        manifest["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
        replace(site, &path, &manifest)?;
    } else {
        let dry = if dry { "&dryRun=All" } else { "" };
        site.api.request(Method::POST, &format!("{groups}?fieldValidation=Strict{dry}"), Some(&manifest))?;
    }
    Ok(path)
}

/// Replaces an object, again when somebody else was faster.
fn replace(site: &LoneSite, path: &str, manifest: &Value) -> Result<Value, Refusal> {
    let mut manifest = manifest.clone();
    loop {
        match site.api.request(Method::PUT, &format!("{path}?fieldValidation=Strict"), Some(&manifest)) {
            Err(refusal) if refusal.code == 409 => {
                let there = site.api.get(path).unwrap_or_default();
                manifest["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"].clone();
            }
            outcome => return outcome,
        }
    }
}

fn says(case: &Case, message: &str) {
    assert!(message.contains(case.field), "{case} does not name {}: {message}", case.field);
    assert!(message.contains(case.says), "{case} does not say {}: {message}", case.says);
}
