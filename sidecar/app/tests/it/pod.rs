//! What a pod does with its sidecar: hooks in either order, bounds of time, and files of another version.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::rig::{App, Rig, run, until};

/// How far Kubernetes was seen to call the two hooks apart.
const APART: Duration = Duration::from_millis(100);

/// The pod ends while a request runs. Answers when the last request, the application's hook and the sidecar ended.
async fn ends(application_first: bool) {
    let (app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, "").await;
    rig.publish("held").await;
    until("it runs", || app.bodies() == ["held"]).await;
    rig.publish("next").await;
    let port = rig.admin_port;
    let hook = || {
        let url = format!("http://127.0.0.1:{port}/wait-for-drain/uid-1");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let task = async move { (client.get(url).send().await.unwrap().status().as_u16(), Instant::now()) };
        tokio::spawn(task)
    };
    let pre_stop = || {
        assert_eq!(run(&["pre-stop", "--admin-port", &port.to_string()]).status.code(), Some(0));
    };
    let hook = if application_first {
        let hook = hook();
        rig.until("dispatch is held", |status| status["phase"] == "Held").await;
        sleep(APART).await;
        pre_stop();
        hook
    } else {
        pre_stop();
        rig.until("it drains", |status| status["phase"] == "Draining").await;
        sleep(APART).await;
        hook()
    };
    let status = rig.until("it drains", |status| status["phase"] == "Draining").await;
    assert_eq!(status["limit"]["inFlight"], 1);
    assert!(!hook.is_finished(), "the application is held alive while its request runs");
    app.release.notify_one();
    let (code, told) = hook.await.unwrap();
    assert_eq!(code, 200);
    assert!(
        app.released.lock().unwrap().unwrap() <= told,
        "the last answer comes before the application's end"
    );
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
    assert_eq!(app.bodies(), ["held"], "nothing new was sent");

    rig.restart();
    until("the next one comes", || app.bodies() == ["held", "next"]).await;
    assert_eq!(app.seen.lock().unwrap()[1].1, 1, "no attempt was charged");
    assert!(!rig.logs().contains("uncleanly"), "{}", rig.logs());
}

#[tokio::test]
async fn a_pod_ends_in_order_when_the_applications_hook_is_first() {
    ends(true).await;
}

#[tokio::test]
async fn a_pod_ends_in_order_when_the_sidecars_hook_is_first() {
    ends(false).await;
}

#[tokio::test]
async fn dispatch_goes_on_when_the_applications_shutdown_time_has_gone_by() {
    let (app, callback) = App::start().await;
    let rig = Rig::start_with(&callback, "", &[("LOCKSTEP_APPLICATION_GRACE_SECONDS", "1")]).await;
    rig.until("it is ready", |status| status["ready"] == true).await;
    assert_eq!(rig.get("/wait-for-drain/uid-1").await.0, 200);
    rig.publish("later").await;
    let began = Instant::now();
    until("it comes", || app.bodies() == ["later"]).await;
    assert!(began.elapsed() < Duration::from_secs(25), "not after Kubernetes' default of 30 s");
}

#[tokio::test]
async fn a_raised_timeout_does_not_outlive_the_pods_grace_period() {
    let (app, callback) = App::start().await;
    let mut rig = Rig::start_with(&callback, "", &[("LOCKSTEP_DRAIN_SECONDS", "1")]).await;
    let before = rig.until("it is ready", |status| status["ready"] == true).await;
    rig.write_manifest("  delivery: {timeoutSeconds: 60}");
    let applied = |status: &Value| status["config"]["hotHash"] != before["config"]["hotHash"];
    let status = rig.until("it is applied", applied).await;
    assert!(status["config"].get("error").is_none(), "{status}");
    rig.publish("slow").await;
    until("it runs", || app.bodies() == ["slow"]).await;
    rig.signal("-TERM");
    let began = Instant::now();
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
    assert!(began.elapsed() < Duration::from_secs(25), "{}", rig.logs());
    let told = |rig: &Rig| rig.logs().matches("a drain is cut at what this pod was built with").count();
    let before = told(&rig);
    assert!(before > 0, "{}", rig.logs());
    // A restarted container is in the same pod.
    rig.restart();
    rig.until("it is ready", |status| status["ready"] == true).await;
    assert_eq!(told(&rig), before + 1, "{}", rig.logs());
}

#[tokio::test]
async fn a_lowered_timeout_leaves_a_running_attempt_its_time() {
    let (app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, "").await;
    rig.publish("held").await;
    until("it runs", || app.bodies() == ["held"]).await;
    let before = rig.status().await;
    rig.write_manifest("  delivery: {timeoutSeconds: 1}");
    rig.until("it is applied", |status| status["config"]["hotHash"] != before["config"]["hotHash"]).await;
    rig.signal("-TERM");
    rig.until("it drains", |status| status["phase"] == "Draining").await;
    assert!(rig.logs().contains(r#""message":"drain begins","seconds":35"#), "{}", rig.logs());
    app.release.notify_one();
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
}

#[tokio::test]
async fn a_manifest_of_a_newer_operator_is_applied_as_far_as_it_is_known() {
    let (app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  newer: {a: 1}\n  delivery: {newer: [2]}").await;
    let warned = |status: &Value, field: &str| {
        let all = status["config"]["warnings"].as_array();
        all.is_some_and(|all| all.iter().any(|warning| warning.as_str().unwrap().starts_with(field)))
    };
    let before = rig.until("it is ready", |status| status["ready"] == true).await;
    assert!(warned(&before, "spec.newer") && warned(&before, "spec.delivery.newer"), "{before}");
    rig.write_manifest("  retry: {newer: 3, maxAttempts: 2}");
    let after = rig.until("a later one is told", |status| warned(status, "spec.retry.newer")).await;
    assert!(after["config"].get("error").is_none(), "{after}");

    rig.write_manifest("  retry: {whenExhausted: Park}");
    let told = |status: &Value| {
        status["config"]["error"].as_str().is_some_and(|error| error.contains("spec.retry.whenExhausted"))
    };
    let status = rig.until("an unknown word is told", told).await;
    assert_eq!(status["config"]["hotHash"], after["config"]["hotHash"], "the former one is in force");
    rig.publish("still").await;
    until("it delivers on", || app.bodies() == ["still"]).await;
}
