//! Secrets that are missing, come, change and go while a pod lives.

use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::time::sleep;

use crate::rig::{App, Rig, free_port, manifest, program, run, until};

const HEADERS: &str = "  delivery: {headersSecretRef: {name: hook}}";

fn has_warning(status: &Value, words: &str) -> bool {
    status["config"]["warnings"]
        .as_array()
        .is_some_and(|all| all.iter().any(|w| w.as_str().unwrap().contains(words)))
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind).unwrap()
}

#[tokio::test]
async fn headers_that_are_missing_hold_delivery_and_are_taken_up_rotated_and_kept() {
    let (app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, HEADERS).await;
    rig.publish("one").await;
    let missing = |status: &Value| status["application"]["reason"] == "SecretMissing";
    let status = rig.until("it is told", missing).await;
    let told = condition(&status, "ApplicationHealthy");
    assert_eq!((&told["status"], &told["reason"]), (&"False".into(), &"SecretMissing".into()));
    assert!(told["message"].as_str().unwrap().contains("(Secret \"hook\")"), "{told}");
    assert_eq!((&status["ready"], &status["totals"]["owned"]), (&false.into(), &0.into()));
    assert_eq!(rig.get("/ready").await.0, 503);
    assert_eq!(rig.get("/live").await.0, 200);
    assert!(app.bodies().is_empty());

    rig.secret("headers/Authorization", Some("Bearer a\n"));
    until("it is delivered", || app.bodies() == ["one"]).await;
    assert_eq!(app.headers.lock().unwrap()["authorization"], "Bearer a");
    let first = rig.until("it is ready", |status| status["ready"] == true).await;
    assert_eq!(first["application"]["reason"], "Healthy");

    // Rotated: the next request has it, and no lease was lost for it.
    rig.secret("headers/Authorization", Some("Bearer b"));
    let mut sent = 1;
    until_header(&app, &rig, &mut sent, "Bearer b").await;
    let epochs = |status: &Value| -> Vec<Value> {
        status["queues"].as_array().unwrap().iter().map(|queue| queue["epoch"].clone()).collect()
    };
    assert_eq!(epochs(&rig.status().await), epochs(&first));

    // Deleted: the former values stay, and it is told.
    rig.secret("headers/Authorization", None);
    let status = rig.until("it is told", |status| has_warning(status, "headersSecretRef")).await;
    assert!(rig.logs().contains("can't be used; the former ones stay in use"), "{}", rig.logs());
    assert_eq!((&status["ready"], &status["application"]["reason"]), (&true.into(), &"Healthy".into()));
    rig.publish("kept").await;
    until("it is delivered", || app.bodies().last().unwrap() == "kept").await;
    assert_eq!(app.headers.lock().unwrap()["authorization"], "Bearer b");

    // A restarted container knows no former values.
    rig.signal("-TERM");
    assert_eq!(rig.ended().await.code(), Some(0), "{}", rig.logs());
    rig.restart();
    rig.until("it waits again", missing).await;
}

/// Publishes until a request carries that value.
async fn until_header(app: &App, rig: &Rig, sent: &mut usize, value: &str) {
    let began = Instant::now();
    loop {
        rig.publish("more").await;
        *sent += 1;
        until("it is delivered", || app.bodies().len() == *sent).await;
        if app.headers.lock().unwrap()["authorization"] == value {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the rotated value is never used");
    }
}

#[tokio::test]
async fn signing_keys_that_can_not_be_used_hold_delivery_until_all_are_good() {
    let (app, callback) = App::start().await;
    let keys = "  delivery: {signing: {secretRefs: [{name: a, key: new}, {name: b, key: old}]}}";
    let rig = Rig::start(&callback, keys).await;
    rig.publish("one").await;
    let says = |reason: &'static str, words: &'static str| {
        move |status: &Value| {
            let application = &status["application"];
            application["reason"] == reason && application["message"].as_str().unwrap().contains(words)
        }
    };
    rig.until("the first is missing", says("SecretMissing", "(Secret \"a\", key \"new\")")).await;
    rig.secret("signing/0", Some("no key at all"));
    rig.until("the second is missing", says("SecretMissing", "(Secret \"b\", key \"old\")")).await;
    rig.secret("signing/1", Some("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="));
    let status = rig.until("the first is no key", says("SecretInvalid", "signing key 1")).await;
    assert!(!status.to_string().contains("no key at all"), "{status}");
    assert!(!rig.logs().contains("no key at all"));
    // There were none before.
    let told = |words: &str| rig.logs().contains(&format!("can't be used; {words}"));
    assert!(told("nothing is delivered") && !told("the former ones"), "{}", rig.logs());
    assert!(app.bodies().is_empty());
    rig.secret("signing/0", Some("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDI="));
    until("it is delivered", || app.bodies() == ["one"]).await;
    let signature = app.headers.lock().unwrap()["webhook-signature"].to_str().unwrap().to_owned();
    assert_eq!(signature.split(' ').count(), 2, "{signature}");
}

#[tokio::test]
async fn a_container_that_starts_with_bad_keys_lives() {
    let (_app, callback) = App::start().await;
    let mut rig = Rig::start(&callback, HEADERS).await;
    rig.secret("headers/webhook-id", Some("mine"));
    rig.until("it is told", |status| status["application"]["reason"] == "SecretInvalid").await;
    rig.signal("-KILL");
    rig.ended().await;
    rig.restart();
    let told = |status: &Value| status["application"]["reason"] == "SecretInvalid";
    rig.until("it is told from the start", told).await;
}

/// As the operator starts it, but for the files.
struct Pod(Child);

impl Drop for Pod {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
async fn the_sources_secrets_are_told_by_name_and_used_when_they_come() {
    let (_app, callback) = App::start().await;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let text = manifest(&format!("  sidecar: {{adminPort: {port}}}"))
        .replace("    rocketmq:", "    credentialsSecretRef: {name: broker}\n    rocketmq:")
        .replace("localhost:9876", &format!("127.0.0.1:{}", free_port()));
    fs::write(folder.path().join("group.yaml"), text).unwrap();
    let secrets = folder.path().join("secrets");
    let mut command = program();
    command.arg("run").arg("-f").arg(folder.path().join("group.yaml")).args(["--callback", &callback]);
    command.arg("--credentials-dir").arg(&secrets).arg("--state-dir").arg(folder.path().join("state"));
    command.env("LOCKSTEP_GROUP_UID", "uid-1").env("POD_UID", "pod-1").stderr(Stdio::null());
    let _pod = Pod(command.spawn().unwrap());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let source_says = async |reason: &str, words: &str| {
        let began = Instant::now();
        loop {
            let answer = client.get(format!("http://127.0.0.1:{port}/status")).send().await;
            let text = match answer {
                Ok(answer) => answer.text().await.unwrap(),
                Err(_) => String::new(),
            };
            let status: Value = serde_json::from_str(&text).unwrap_or_default();
            let source = &status["source"];
            let message = source["message"].as_str().unwrap_or_default();
            if source["reason"] == reason && message.contains(words) {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "never {reason} {words}: {status}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    let status = source_says("SecretMissing", "\"broker\" with the key \"accessKey\"").await;
    assert_eq!(status["clientId"], "pod-1", "so that a restarted container regains its locks");
    let told = condition(&status, "SourceConnected");
    assert_eq!((&told["status"], &told["reason"]), (&"False".into(), &"SecretMissing".into()));
    fs::create_dir_all(secrets.join("credentials")).unwrap();
    fs::write(secrets.join("credentials/accessKey"), "a").unwrap();
    source_says("SecretMissing", "\"broker\" with the key \"secretKey\"").await;
    fs::write(secrets.join("credentials/secretKey"), "s").unwrap();
    source_says("NameServerUnreachable", "").await;
    fs::remove_file(secrets.join("credentials/accessKey")).unwrap();
    source_says("SecretMissing", "accessKey").await;
}

#[test]
fn a_person_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("group.yaml");
    fs::write(&file, manifest(HEADERS)).unwrap();
    let (file, folder) = (file.to_str().unwrap(), folder.path().to_str().unwrap());
    let output = run(&["run", "-f", file, "--credentials-dir", folder, "--callback", "http://127.0.0.1:9/x"]);
    assert_eq!(output.status.code(), Some(64));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("headersSecretRef (Secret \"hook\")"), "{text}");
}
