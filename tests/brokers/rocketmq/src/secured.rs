//! A smoke run with access keys, and one with TLS.

use std::{fs, time::Duration};

use lockstep_tests_support::time::wait_until;

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const MESSAGES: usize = 8;

/// Brokers that ask for signed requests.
pub fn signed(site: &Site, _: &Plan) -> String {
    let more = "    credentialsSecretRef: {name: broker}\n".to_owned();
    let mut world =
        World::without_topic(site, "signed", Setting { more, ..Setting::default() }, Duration::ZERO);
    let secrets = world.folder.join("secrets/credentials");
    fs::create_dir_all(&secrets).unwrap();
    fs::write(secrets.join("accessKey"), "lockstep").unwrap();
    fs::write(secrets.join("secretKey"), "lockstep-secret").unwrap();
    smoke(&mut world)
}

/// Servers that refuse everything but TLS, with a certificate of an authority of their own.
pub fn tls(site: &Site, _: &Plan) -> String {
    let more = "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}}\n".to_owned();
    let mut world = World::without_topic(site, "tls", Setting { more, ..Setting::default() }, Duration::ZERO);
    let secrets = world.folder.join("secrets/tls-ca");
    fs::create_dir_all(&secrets).unwrap();
    fs::copy(site.servers.folder().join("tls/ca.crt"), secrets.join("ca.crt")).unwrap();
    smoke(&mut world)
}

/// Wrong keys are named, and nothing is retried into a lock-out: the reason stands until they are right.
pub fn wrong_keys(site: &Site, _: &Plan) -> String {
    let more = "    credentialsSecretRef: {name: broker}\n".to_owned();
    let mut world =
        World::without_topic(site, "wrong-keys", Setting { more, ..Setting::default() }, Duration::ZERO);
    let secrets = world.folder.join("secrets/credentials");
    fs::create_dir_all(&secrets).unwrap();
    fs::write(secrets.join("accessKey"), "lockstep").unwrap();
    fs::write(secrets.join("secretKey"), "wrong-secret").unwrap();
    let commands = format!("updateTopic -c DefaultCluster -t {} -r 4 -w 4\n", world.topic);
    site.servers.admin(&(commands + &format!("updateSubGroup -c DefaultCluster -g {}\n", world.group)));
    names(&mut world, "WrongCredentials")
}

/// A certificate of another authority is named.
pub fn wrong_authority(site: &Site, _: &Plan) -> String {
    let more = "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}}\n".to_owned();
    let mut world =
        World::without_topic(site, "wrong-ca", Setting { more, ..Setting::default() }, Duration::ZERO);
    let secrets = world.folder.join("secrets/tls-ca");
    fs::create_dir_all(&secrets).unwrap();
    // A certificate that signed nothing here.
    fs::copy(site.servers.folder().join("tls/client.crt"), secrets.join("ca.crt")).unwrap();
    names(&mut world, "TlsFailed")
}

/// The sidecar gives this reason, with a remedy and without the secret.
fn names(world: &mut World<'_>, reason: &str) -> String {
    world.await_check("one", |code, said| {
        assert!(!said.contains("wrong-secret"), "{said}");
        code == Some(1) && said.contains(reason)
    });
    world.start("one");
    let mut source = serde_json::Value::Null;
    wait_until(&format!("{reason} is named"), Duration::from_secs(60), || {
        source = world.sidecars["one"].status()["source"].take();
        source["reason"] == reason
    });
    let text = source.to_string();
    assert!(source["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{text}");
    assert!(
        !text.contains("wrong-secret") && !world.sidecars["one"].process.output().contains("wrong-secret")
    );
    assert!(world.deliveries().is_empty());
    text
}

fn smoke(world: &mut World<'_>) -> String {
    let (topic, group) = (&world.topic, &world.group);
    let mut commands = format!("updateTopic -c DefaultCluster -t {topic} -r 4 -w 4\n");
    commands += &format!("updateSubGroup -c DefaultCluster -g {group}\n");
    for index in 0..MESSAGES {
        commands += &format!("sendMessage -t {topic} -p body-{index} -b broker-a -i {}\n", index % 4);
    }
    let said = world.site.servers.admin(&commands);
    assert_eq!(said.matches("SEND_OK").count(), MESSAGES, "{said}");
    world.join("one");
    world.await_deliveries("one", 0, MESSAGES, Duration::from_secs(60));
    let progress = world.await_no_difference();
    world.leave("one");
    assert_eq!(world.deliveries().len(), MESSAGES);
    progress
}
