//! Who may do what: wrong credentials and permissions are named with their cure, and the fewest that are needed do.

use std::{fs, time::Duration};

use lockstep_tests_support::{ports::free_port, time::wait_until};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);

/// A wrong password, a virtual host that is not there, a port where nobody listens, and no permission.
pub fn wrong(site: &Site, _: &Plan) -> String {
    let credentials = "    credentialsSecretRef: {name: broker}\n";
    site.servers.ctl(&["add_user", "reader", "right-secret"]);
    site.servers.ctl(&["set_permissions", "reader", "^$", "^$", "^others$"]);
    let with = |source: &str, more: &str| Setting {
        source: source.to_owned(),
        more: more.to_owned(),
        management: false,
        ..Setting::default()
    };
    let mut world = World::new(site, "wrong-password", with("", credentials), Duration::ZERO);
    write_secret(&world, "reader", "wrong-secret");
    must_name(&mut world, "WrongCredentials", &["credentialsSecretRef"]);
    assert!(!world_output(&world).contains("wrong-secret"), "the secret was told");
    // The rotated Secret is used without a restart; the user may not read the queue.
    write_secret(&world, "reader", "right-secret");
    let told = world.await_reason("one", "AccessRefused");
    assert!(told.contains("set_permissions"), "{told}");
    site.servers.ctl(&["set_permissions", "reader", "^$", "^$", ".*"]);
    world.publish_bodies(["x"]);
    world.await_deliveries("one", 0, 1, SOON);
    world.await_check("one", |code, said| code == Some(0) && said.contains("OwnershipUnverified"));
    wait_until("it is told that nothing could be verified", SOON, || {
        world.sidecars["one"].status().to_string().contains("OwnershipUnverified")
    });
    world.finish(SOON);

    let vhost = "      vhost: nowhere\n";
    let mut world = World::new(site, "wrong-vhost", with(vhost, ""), Duration::ZERO);
    must_name(&mut world, "VhostNotFound", &["rabbitmqctl add_vhost 'nowhere'"]);
    world.leave("one");

    let mut world = World::new(site, "wrong-port", with("", ""), Duration::ZERO);
    let nowhere = format!("127.0.0.1:{}", free_port());
    world.addresses.insert("one".to_owned(), vec![nowhere.clone()]);
    must_name(&mut world, "Unreachable", &[&nowhere]);
    // With one good address among them all is well.
    drop(world.sidecars.remove("one"));
    world.addresses.insert("one".to_owned(), vec![nowhere, site.node.amqp().to_owned()]);
    world.publish_bodies(["x"]);
    world.join("one");
    world.await_deliveries("one", 0, 1, SOON);
    world.finish(SOON);
    "each was named with its cure".to_owned()
}

/// A virtual host of another name, and a user who may only read there: what can't be verified is told with the cure, unless the
/// manifest takes it for granted; and the management API is asked for the queue of that virtual host.
pub fn other_vhost(site: &Site, _: &Plan) -> String {
    let (vhost, path) = ("shop/eu", "shop%2Feu");
    site.put(&format!("/vhosts/{path}"), "{}");
    site.put("/users/shopper", r#"{"password": "right-secret", "tags": "management"}"#);
    let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
    site.put(&format!("/permissions/{path}/guest"), all);
    let may_read = r#"{"configure": "^$", "write": "^$", "read": ".*"}"#;
    site.put(&format!("/permissions/{path}/shopper"), may_read);
    let assumed = Setting {
        vhost: Some(vhost),
        management: false,
        source: "      ownership: Assumed\n".to_owned(),
        more: "    credentialsSecretRef: {name: broker}\n".to_owned(),
        ..Setting::default()
    };
    let mut world = World::new(site, "vhost", assumed, Duration::ZERO);
    write_secret(&world, "shopper", "right-secret");
    let is_fine = |code: Option<i32>, said: &str| code == Some(0) && !said.contains("warning");
    world.await_check("one", is_fine);
    world.publish(20, 1);
    world.join("one");
    world.await_deliveries("one", 0, 20, SOON);
    let status = world.sidecars["one"].status();
    assert_eq!(status["source"]["reason"], "", "{status}");
    assert!(!status.to_string().contains("OwnershipUnverified"), "{status}");

    world.setting.source = String::new();
    let cure = format!("set_permissions -p '{vhost}' USER '^{queue}$'", queue = world.queues[0]);
    world.await_check("one", |code, said| {
        code == Some(0) && said.contains("warning (OwnershipUnverified)") && said.contains(&cure)
    });
    world.setting.management = true;
    world.await_check("one", is_fine);
    format!("{}", world.finish(SOON))
}

/// Gives its sidecars a Secret with credentials.
pub fn write_secret(world: &World<'_>, username: &str, password: &str) {
    let folder = world.folder.join("secrets/credentials");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("username", username), ("password", password)] {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
}

fn world_output(world: &World<'_>) -> String {
    world.sidecars["one"].process.output()
}

fn must_name(world: &mut World<'_>, reason: &str, cure: &[&str]) {
    let names = |text: &str| text.contains(reason) && cure.iter().all(|part| text.contains(part));
    world.await_check("one", |code, said| code == Some(1) && names(said));
    world.start("one");
    let told = world.await_reason("one", reason);
    assert!(names(&told), "{told}");
}
