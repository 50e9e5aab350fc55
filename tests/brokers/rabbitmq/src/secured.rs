//! TLS with a client certificate that says who we are (EXTERNAL), and what happens without the right ones.

use std::{fs, time::Duration};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);

/// A smoke run; then a certificate of another authority, and none at all.
pub fn tls(site: &Site, _: &Plan) -> String {
    let tls =
        "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}, clientCertSecretRef: {name: me}}\n";
    let setting = |more: &str| Setting { more: more.to_owned(), management: false, ..Setting::default() };
    let mut world = with_tls(site, "tls", setting(tls), "ca.crt");
    world.publish(20, 1);
    world.join("one");
    world.await_deliveries("one", 0, 20, SOON);
    let verdict = world.finish(SOON);

    // It signed nothing here.
    let mut world = with_tls(site, "wrong-authority", setting(tls), "client.crt");
    must_fail(&mut world);
    // The server wants one.
    let alone = "    tls: {mode: Verify, caSecretRef: {name: mq-ca, key: ca.crt}}\n";
    let mut world = with_tls(site, "no-certificate", setting(alone), "ca.crt");
    must_fail(&mut world);
    format!("{verdict}")
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
