//! A sidecar from start to end.

use std::{collections::BTreeSet, time::Duration};

use crate::rig::{App, Rig, free_port, run, until};

#[tokio::test]
async fn it_delivers_is_ready_and_ends_with_0_at_sigterm() {
    let (app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, "").await;
    rig.until("it is ready", |status| status["ready"] == true).await;
    for number in 0..20 {
        rig.publish(&number.to_string()).await;
    }
    until("all are delivered", || app.bodies().len() == 20).await;
    assert_eq!(app.bodies(), (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(rig.get("/ready").await.0, 200);
    assert!(rig.get("/metrics").await.1.contains("lockstep_attempts_total{verdict=\"Done\"} 20"));
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
    rig.restart();
    rig.until("it is ready again", |status| status["ready"] == true).await;
    rig.publish("last").await;
    until("the last is delivered", || app.bodies().len() == 21).await;
    assert!(!rig.logs().contains("uncleanly"), "{}", rig.logs());
}

#[tokio::test]
async fn a_second_signal_ends_at_once_with_1_and_the_next_start_waits() {
    let (app, callback) = App::start().await;
    let mut rig =
        Rig::start(&callback, "  delivery: {timeoutSeconds: 2}\n  drain: {timeoutSeconds: 600}").await;
    rig.publish("slow").await;
    until("it runs", || app.bodies().len() == 1).await;
    // The attempt ends after 2 s, the drain would wait for it.
    rig.signal("-TERM");
    rig.until("it drains", |status| status["phase"] == "Draining").await;
    rig.signal("-INT");
    assert_eq!(rig.ended().await.code(), Some(1), "{}", rig.logs());
    rig.restart();
    rig.until("it is ready", |status| status["ready"] == true).await;
    assert!(rig.logs().contains("uncleanly"), "{}", rig.logs());
}

#[tokio::test]
async fn pre_stop_begins_the_drain_and_the_process_lives_until_sigterm() {
    let (_app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, "").await;
    rig.until("it is ready", |status| status["ready"] == true).await;
    let output = run(&["pre-stop", "--admin-port", &rig.admin_port.to_string()]);
    assert_eq!(output.status.code(), Some(0));
    until("it has drained", || rig.logs().contains("\"drained: ")).await;
    // The application's own hook may ask as late as this.
    assert_eq!(rig.get("/wait-for-drain/uid-1").await.0, 200);
    assert_eq!(rig.get("/live").await.0, 200);
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
}

#[tokio::test]
async fn a_drain_that_no_sigterm_follows_ends_the_process() {
    let (_app, callback) = App::start().await;
    let environment = [("LOCKSTEP_APPLICATION_GRACE_SECONDS", "1"), ("LOCKSTEP_DRAIN_SECONDS", "1")];
    let mut rig = Rig::start_with(&callback, "", &environment).await;
    rig.until("it is ready", |status| status["ready"] == true).await;
    let output = run(&["pre-stop", "--admin-port", &rig.admin_port.to_string()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
    assert!(rig.logs().contains("no SIGTERM followed"), "{}", rig.logs());
}

#[tokio::test]
async fn hot_fields_apply_at_once_and_cold_ones_are_told() {
    let (app, callback) = App::start().await;
    let spec = "  retry: {backoff: {initialMilliseconds: 50, maxSeconds: 1}";
    let mut rig = Rig::start(&callback, &format!("{spec}}}")).await;
    rig.publish("rejected").await;
    rig.publish("next").await;
    let before = rig.until("it is blocked", |status| status["totals"]["blocked"] == 1).await;
    rig.write_manifest(&format!("{spec}, whenExhausted: DeadLetter}}"));
    until("the next one comes", || app.bodies().iter().any(|body| body == "next")).await;
    let after = rig.until("it is told", |status| status["counters"]["deadLettered"] == 1).await;
    assert_ne!(before["config"]["hotHash"], after["config"]["hotHash"]);
    rig.write_manifest("  delivery: {path: /other}");
    let told = rig.until("a cold change is told", |status| status["config"]["error"].is_string()).await;
    assert!(told["config"]["error"].as_str().unwrap().contains("spec.delivery.path"), "{told}");
    rig.write_manifest("  delivery: {port: 0}");
    let told =
        |status: &serde_json::Value| status["config"]["error"].as_str().is_some_and(|e| e.contains("port"));
    rig.until("a faulty manifest is told", told).await;
    rig.publish("still").await;
    until("the former one is in force", || app.bodies().iter().any(|body| body == "still")).await;
    rig.write_manifest("  state: Paused");
    rig.until("it pauses", |status| status["phase"] == "Paused" && status["totals"]["owned"] == 0).await;
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
}

#[tokio::test]
async fn attempts_survive_kill_9() {
    let (app, callback) = App::start().await;
    let spec =
        "  delivery: {timeoutSeconds: 1}\n  retry: {backoff: {initialMilliseconds: 50, maxSeconds: 1}}";
    let mut rig = Rig::start(&callback, spec).await;
    rig.publish("failing").await;
    until("it is tried", || app.seen.lock().unwrap().len() >= 3).await;
    rig.signal("-KILL");
    rig.ended().await;
    let last = app.seen.lock().unwrap().last().unwrap().1;
    rig.restart();
    until("it is tried again", || app.seen.lock().unwrap().last().unwrap().1 > last).await;
    let seen = app.seen.lock().unwrap().clone();
    let rises = seen.windows(2).all(|pair| pair[1].1 <= pair[0].1 + 1 && pair[1].1 >= pair[0].1);
    assert!(rises, "{seen:?}");
}

#[tokio::test]
async fn a_port_in_use_ends_with_1_and_names_the_setting() {
    let (_app, callback) = App::start().await;
    let taken = std::net::TcpListener::bind("[::]:0").unwrap();
    let rig = Rig::start(&callback, "").await;
    let port = taken.local_addr().unwrap().port();
    let other = rig.folder.path().join("other.yaml");
    std::fs::write(&other, crate::rig::manifest(&format!("  sidecar: {{adminPort: {port}}}"))).unwrap();
    let file = other.to_str().unwrap();
    let output = run(&["dev", "-f", file, "--callback", &callback]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("sidecar.adminPort"), "{text}");
}

#[tokio::test]
async fn one_404_before_the_first_success_takes_the_readiness_and_names_the_status() {
    let (app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  retry: {backoff: {initialMilliseconds: 20, maxSeconds: 1}}").await;
    rig.until("it is ready", |status| status["ready"] == true).await;
    let refused = rig.publish_with(&[("Lockstep-Key", "a")], "unknown").await;
    let status = rig.until("it is not ready", |status| status["ready"] == false).await;
    let application = &status["application"];
    assert_eq!(application["reason"], "CallbackMisconfigured", "{status}");
    let message = application["message"].as_str().unwrap();
    assert!(message.contains("answered 404") && message.contains("delivery.path"), "{message}");
    assert_eq!(status["breaker"]["open"], false, "{status}");
    assert_eq!(rig.get("/ready").await.0, 503);

    // A success of another line proves the endpoint, and a later 404 takes nothing back.
    for key in ('b'..='z').map(String::from) {
        let sent = rig.publish_with(&[("Lockstep-Key", &key)], "other").await;
        if sent["queue"] != refused["queue"] {
            break;
        }
    }
    let status = rig.until("it is ready again", |status| status["ready"] == true).await;
    assert_eq!(status["application"]["reason"], "Healthy", "{status}");
    let tries = || app.bodies().iter().filter(|body| *body == "unknown").count();
    let before = tries();
    until("it is tried on", || tries() > before + 1).await;
    assert_eq!(rig.status().await["ready"], true);
}

#[tokio::test]
async fn a_refused_message_that_is_skipped_by_hand_gives_the_readiness_back() {
    let (_app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  retry: {backoff: {initialMilliseconds: 20, maxSeconds: 1}}").await;
    let refused = rig.publish_with(&[("Lockstep-Key", "a")], "unknown").await;
    rig.until("it is refused", |status| status["application"]["reason"] == "CallbackMisconfigured").await;
    let (queue, id) = (refused["queue"].to_string(), refused["id"].as_str().unwrap());
    let port = rig.admin_port.to_string();
    let queue = queue.trim_matches('"');
    let output = run(&["skip", "--queue", queue, "--message-id", id, "--admin-port", &port]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    rig.until("it is ready again", |status| status["ready"] == true).await;
}

#[tokio::test]
async fn a_refused_message_that_goes_elsewhere_gives_the_readiness_back() {
    let quick = "retry: {backoff: {initialMilliseconds: 20, maxSeconds: 1}";
    for (cure, end) in [
        ("  delivery: {statusCodes: {never: [404]}}\n", ", whenExhausted: Skip}"),
        ("  delivery: {statusCodes: {again: [404]}}\n", "}"),
        ("  state: Paused\n", "}"),
    ] {
        let (_app, callback) = App::start().await;
        let rig = Rig::start(&callback, &format!("  {quick}}}")).await;
        rig.publish("unknown").await;
        rig.until("it is refused", |status| status["application"]["reason"] == "CallbackMisconfigured").await;
        rig.write_manifest(&format!("{cure}  {quick}{end}"));
        rig.until(&format!("it is ready again after{cure}"), |status| status["ready"] == true).await;
    }
}

#[tokio::test]
async fn an_application_that_comes_later_is_waited_for() {
    let port = free_port();
    let callback = format!("http://127.0.0.1:{port}/messages");
    let rig = Rig::start(&callback, "").await;
    rig.publish("early").await;
    let status = rig.until("it was asked", |status| status["application"]["health"] == "Unhealthy").await;
    assert_eq!((&status["ready"], &status["totals"]["owned"]), (&false.into(), &0.into()));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let router = axum::Router::new().route("/messages", axum::routing::post(async || "done"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    rig.until("it is done", |status| status["counters"]["done"] == 1).await;
    tokio::time::timeout(Duration::from_secs(5), rig.until("it is ready", |status| status["ready"] == true))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_paused_group_is_ready_without_a_session() {
    let (app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  state: Paused").await;
    rig.publish("waits").await;
    let status = rig.until("it is ready", |status| status["ready"] == true).await;
    assert_eq!((&status["phase"], &status["source"]["connected"]), (&"Paused".into(), &false.into()));
    assert!(app.bodies().is_empty(), "a paused group delivered");
}

#[tokio::test]
async fn the_applications_shutdown_hook_holds_dispatch_and_needs_the_groups_uid() {
    let (app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  delivery: {timeoutSeconds: 2}").await;
    rig.publish("slow").await;
    until("it runs", || app.bodies().len() == 1).await;
    assert_eq!(rig.get("/wait-for-drain/other").await.0, 403);
    assert_eq!(rig.status().await["phase"], "Running");
    assert_eq!(rig.get("/wait-for-drain/uid-1").await.0, 200);
    let status = rig.status().await;
    assert_eq!((&status["phase"], &status["limit"]["inFlight"]), (&"Held".into(), &0.into()));
    rig.publish("later").await;
    rig.signal("-TERM");
    rig.until("it ends", serde_json::Value::is_null).await;
    assert_eq!(app.bodies().len(), 1);
}

#[tokio::test]
async fn failures_and_pauses_are_told_with_what_the_application_said() {
    let (_app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, "  retry: {backoff: {initialMilliseconds: 20, maxSeconds: 1}}").await;
    rig.publish("failing").await;
    let tried_on = |status: &serde_json::Value| status["counters"]["failedAttempts"].as_u64() > Some(2);
    let status = rig.until("it is tried on", tried_on).await;
    assert!(status["limit"].get("pausedSeconds").is_none(), "{status}");
    assert!(!status.to_string().contains("the reason"), "answers are for logs only: {status}");
    let lines: Vec<_> =
        rig.logs().lines().filter(|line| line.contains("attempts fail")).map(str::to_owned).collect();
    let [line] = lines.as_slice() else { panic!("one line, not {lines:?}") };
    assert!(line.contains("answered 500") && line.contains("the reason"), "{line}");
    rig.signal("-KILL");
    rig.ended().await;

    let mut rig = Rig::start(&callback, "").await;
    rig.publish("busy").await;
    let paused = |status: &serde_json::Value| status["limit"]["pausedSeconds"].as_u64() > Some(90);
    rig.until("the pause is told", paused).await;
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
}

#[tokio::test]
async fn the_key_comes_from_the_property_that_the_manifest_names() {
    let (app, callback) = App::start().await;
    let spec = "  ordering: {mode: PerKey, key: {from: Header, header: OrderId}}";
    let rig = Rig::start(&callback, spec).await;
    let mut queues = BTreeSet::new();
    for other in ["a", "b", "c", "d", "e", "f"] {
        let headers = [("Lockstep-Property-OrderId", "17"), ("Lockstep-Key", other)];
        queues.insert(rig.publish_with(&headers, other).await["queue"].to_string());
    }
    assert_eq!(queues.len(), 1, "{queues:?}");
    until("all are delivered", || app.bodies().len() == 6).await;
    assert_eq!(app.bodies(), ["a", "b", "c", "d", "e", "f"]);
}
