use lockstep_contract::{Strictness, parse};

use super::*;

/// Each file is asked for by field, Secret and key, until all are there.
#[test]
fn what_the_source_needs_is_named_one_after_the_other() {
    let rocketmq =
        "rocketmq: {nameServers: ['localhost:9876'], consumerGroup: shop, subscriptions: [{topic: orders}]}";
    named_one_after_the_other(rocketmq, ["accessKey", "secretKey"]);
    named_one_after_the_other(
        "rabbitmq: {urls: ['amqps://rabbit.mq'], queues: [orders]}",
        ["username", "password"],
    );
}

fn named_one_after_the_other(source: &str, [first, second]: [&str; 2]) {
    let text = format!(
        "
apiVersion: lockstep.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: orders}}
spec:
  source:
    {source}
    credentialsSecretRef: {{name: broker}}
    tls: {{caSecretRef: {{name: ca, key: authority.pem}}, clientCertSecretRef: {{name: client}}}}
"
    );
    let group = parse(&text, Strictness::Strict).unwrap().group;
    let folder = tempfile::tempdir().unwrap();
    let needed = [
        (&*format!("credentials/{first}"), "credentialsSecretRef", "broker", first),
        (&*format!("credentials/{second}"), "credentialsSecretRef", "broker", second),
        ("tls-ca/ca.crt", "tls.caSecretRef", "ca", "authority.pem"),
        ("tls-client/tls.crt", "tls.clientCertSecretRef", "client", "tls.crt"),
        ("tls-client/tls.key", "tls.clientCertSecretRef", "client", "tls.key"),
    ];
    for (file, field, secret, key) in needed {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let words = format!("spec.source.{field}: the Secret \"{secret}\" with the key \"{key}\" is missing");
        assert_eq!(SecretProblem::of_source(&group, folder.path()).unwrap().to_string(), words);
        fs::write(&file, "").unwrap();
        assert_eq!(SecretProblem::of_source(&group, folder.path()).unwrap().to_string(), words, "empty");
        fs::write(&file, "content").unwrap();
    }
    assert_eq!(SecretProblem::of_source(&group, folder.path()), None);
}

/// What is gone while its session lives is a warning: nothing is wrong yet.
#[test]
fn a_living_session_is_not_called_broken() {
    let problem = SecretProblem { reason: Reason::SecretMissing, message: "it is gone".to_owned() };
    let secrets = Secrets { source: Some(problem), ..Secrets::default() };
    let mut status = Status::default();
    status.source.connected = true;
    status.config.warnings = vec!["older".to_owned(); WARNINGS_MAX];
    secrets.tell(&mut status);
    assert_eq!((status.source.reason.as_str(), status.conditions.len()), ("", 0));
    assert_eq!(status.config.warnings.len(), WARNINGS_MAX);
    assert!(status.config.warnings[0].starts_with("it is gone; the session lives on"));
}
