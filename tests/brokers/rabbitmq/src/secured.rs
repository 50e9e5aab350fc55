//! TLS: with a client certificate that says who we are (EXTERNAL), or with a password; and what happens without the right
//! ones.

use std::{fs, time::Duration};

use lockstep_history::Verdict;
use lockstep_tests_support::{ports::free_port, time::wait_for};

use crate::{
    access::write_secret,
    plan::Plan,
    site::IDLE,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);

const WITHOUT_CERTIFICATE: &str = "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}}\n";

/// A smoke run; then a certificate of another authority, and none at all; and one with a password.
pub fn tls(site: &Site, _: &Plan) -> String {
    let tls =
        "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}, clientCertSecretRef: {name: me}}\n";
    let mut world = with_tls(site, "tls", setting(tls), "ca.crt");
    let verdict = must_deliver(&mut world, "lockstep", "EXTERNAL");

    // It signed nothing here.
    let mut world = with_tls(site, "wrong-authority", setting(tls), "client.crt");
    must_fail(&mut world);
    // The server wants one.
    let mut world = with_tls(site, "no-certificate", setting(WITHOUT_CERTIFICATE), "ca.crt");
    must_fail(&mut world);
    format!("with a certificate: {verdict}; with a password: {}", with_password(site))
}

fn setting(more: &str) -> Setting {
    Setting { more: more.to_owned(), management: false, ..Setting::default() }
}

/// At a port that asks for no certificate.
fn with_password(site: &Site) -> Verdict {
    let port = free_port();
    let listen = format!(
        "{{ok, Options}} = application:get_env(rabbit, ssl_options), \
         Lax = [{{fail_if_no_peer_cert, false}} | proplists:delete(fail_if_no_peer_cert, Options)], \
         ok = rabbit_networking:start_ssl_listener({{\"127.0.0.1\", {port}}}, Lax, 2)."
    );
    site.servers.ctl(&["eval", &listen]);
    site.put("/users/shopper", r#"{"password": "right-secret", "tags": ""}"#);
    site.put("/permissions/%2F/shopper", r#"{"configure": "^$", "write": "^$", "read": ".*"}"#);
    let more = format!("    credentialsSecretRef: {{name: broker}}\n{WITHOUT_CERTIFICATE}");
    let mut world = with_tls(site, "password", setting(&more), "ca.crt");
    world.addresses.insert("one".to_owned(), vec![format!("127.0.0.1:{port}")]);
    write_secret(&world, "shopper", "right-secret");
    must_deliver(&mut world, "shopper", "PLAIN")
}

/// Messages come over TLS, to this user, who has said in this way who it is.
fn must_deliver(world: &mut World<'_>, user: &str, mechanism: &str) -> Verdict {
    world.publish(20, 1);
    world.join("one");
    world.await_deliveries("one", 0, 20, SOON);
    let connection = wait_for("the broker tells of the connection", IDLE, || {
        let connections = world.site.node.api("GET", "/connections", "")?;
        connections.as_array()?.iter().find(|one| one["user"] == user).cloned()
    });
    assert_eq!(connection["auth_mechanism"], mechanism, "{connection}");
    assert_eq!(connection["ssl"], true, "{connection}");
    world.finish(SOON)
}

fn must_fail(world: &mut World<'_>) {
    world.start("one");
    let told = world.await_reason("one", "TlsFailed");
    assert!(told.contains("SecretRef"), "{told}");
    world.leave("one");
}

fn with_tls<'a>(site: &'a Site, name: &str, setting: Setting, authority: &str) -> World<'a> {
    let mut world = World::new(site, name, setting, Duration::ZERO);
    world.addresses.insert("one".to_owned(), vec![site.servers.tls_address("r1")]);
    let from = site.servers.folder().join("tls");
    let copies = [
        (authority, "tls-ca/ca.crt"),
        ("client.crt", "tls-client/tls.crt"),
        ("client.key", "tls-client/tls.key"),
    ];
    for (file, place) in copies {
        let place = world.folder.join("secrets").join(place);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(from.join(file), place).unwrap();
    }
    world
}
