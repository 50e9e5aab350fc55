//! Commands that do not run a sidecar, and those that speak to one.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Command, Output, Stdio},
};

use crate::rig::{App, Rig, free_port, manifest, program, run, until};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn check(manifest: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("group.yaml");
    fs::write(&file, manifest).unwrap();
    run(&["check", "-f", file.to_str().unwrap()])
}

#[test]
fn a_valid_manifest_is_told_valid() {
    let output = check(&manifest(""));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("valid"));
}

#[test]
fn five_mistakes_are_told_at_once_and_exit_64() {
    let output = check(&manifest(
        "  delivery: {port: 0, timeoutSeconds: 0, format: Xml}\n  retry: {maxAttempts: many}\n  unknown: 1",
    ));
    assert_eq!(output.status.code(), Some(64));
    for field in
        ["delivery.port", "delivery.timeoutSeconds", "delivery.format", "retry.maxAttempts", "unknown"]
    {
        assert!(text(&output).contains(field), "{field} is not in {}", text(&output));
    }
}

#[test]
fn a_pod_tolerates_what_a_person_must_correct() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("group.yaml");
    fs::write(&file, manifest("  delivery: {newer: 1}")).unwrap();
    let check = |in_pod: bool| {
        let mut command = program();
        command.arg("check").arg("-f").arg(&file);
        if in_pod {
            command.env("LOCKSTEP_GROUP_UID", "uid-1");
        }
        command.output().unwrap()
    };
    assert_eq!(check(false).status.code(), Some(64));
    let tolerant = check(true);
    assert_eq!(tolerant.status.code(), Some(0));
    assert!(text(&tolerant).contains("warning: spec.delivery.newer"), "{}", text(&tolerant));
}

#[test]
fn a_broker_that_is_not_there_is_told_with_the_cure() {
    for (source, scheme) in [("rabbitmq", "amqp"), ("activemq", "tcp")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("group.yaml");
        let port = free_port();
        let manifest = format!(
            "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {{name: o}}\nspec:\n  source:\n    {source}: \
             {{urls: ['{scheme}://127.0.0.1:{port}'], queues: [a]}}\n"
        );
        fs::write(&file, manifest).unwrap();
        let output = run(&["check", "-f", file.to_str().unwrap(), "--connect"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        for words in ["the manifest is valid", "(Unreachable)", &port.to_string(), "urls"] {
            assert!(text(&output).contains(words), "{words} is not in {}", text(&output));
        }
    }
}

#[test]
fn what_a_queue_of_activemq_must_not_hold_is_told_by_the_field_that_says_it() {
    let output = check(
        "apiVersion: lockstep.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {name: o}\nspec:\n  source:\n    activemq: \
         {urls: ['failover:(tcp://a:61616,tcp://b:61616)'], queues: ['a?consumer.prefetchSize=1', 'b.>']}\n",
    );
    assert_eq!(output.status.code(), Some(64), "{}", text(&output));
    for words in ["list each broker in `urls`", "delivery.maxInFlight", "list each of its queues by its name"]
    {
        assert!(text(&output).contains(words), "{words} is not in {}", text(&output));
    }
}

#[test]
fn wrong_arguments_exit_64_and_help_exits_0() {
    assert_eq!(run(&["fly"]).status.code(), Some(64));
    assert_eq!(run(&["run", "-f", "/does/not/exist"]).status.code(), Some(64));
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn commands_without_a_sidecar_say_where_they_looked() {
    let port = free_port().to_string();
    let output = run(&["pre-stop", "--admin-port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains(&port), "{}", text(&output));
}

#[tokio::test]
async fn a_blocked_message_is_passed_by_hand() {
    let (app, callback) = App::start().await;
    let rig = Rig::start(&callback, "  retry: {backoff: {initialMilliseconds: 50, maxSeconds: 1}}").await;
    for body in ["rejected", "one", "rejected", "two"] {
        rig.publish(body).await;
    }
    let port = rig.admin_port.to_string();
    for (command, next) in [("skip", "one"), ("dead-letter", "two")] {
        let status = rig.until("it is blocked", |status| status["totals"]["blocked"] == 1).await;
        let queue =
            status["queues"].as_array().unwrap().iter().find(|queue| queue["blockedLanes"] == 1).unwrap();
        let (name, id) =
            (queue["name"].as_str().unwrap(), queue["blocked"][0]["messageId"].as_str().unwrap());
        let wrong = run(&[command, "--admin-port", &port, "--queue", name, "--message-id", "other"]);
        assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong));
        let output = run(&[command, "--admin-port", &port, "--queue", name, "--message-id", id]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        until("the next one comes", || app.bodies().iter().any(|body| body == next)).await;
    }
    let status = rig.until("both are counted", |status| status["counters"]["deadLettered"] == 1).await;
    assert_eq!(status["counters"]["skipped"], 1);
}

#[test]
fn the_demonstration_keeps_its_promise() {
    let output = run(&["demo"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for words in ["Order", "Retry", "Dead letter", "Crash", "killed", "The promise was kept"] {
        assert!(text(&output).contains(words), "{words} is not in {}", text(&output));
    }
}

/// As a terminal does it: the signal goes to all processes of the group.
#[test]
fn one_interrupt_ends_a_kept_demonstration_cleanly() {
    let mut demo =
        program().args(["demo", "--keep"]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told: Vec<_> = lines.take_while(|line| !line.contains("/metrics")).collect();
    assert!(told.iter().any(|line| line.contains("Ctrl-C ends it")), "{told:?}");
    let group = format!("-{}", demo.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
}
