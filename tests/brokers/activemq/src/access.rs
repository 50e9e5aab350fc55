//! Who may do what: wrong credentials and rights are named with their cure, and the fewest that are needed do.

use std::{fs, time::Duration};

use lockstep_tests_support::{ports::free_port, time::wait_until};

use crate::{
    plan::Plan,
    world::{Setting, Site, World},
};

const SOON: Duration = Duration::from_secs(60);

/// A wrong password, no right to read, no right to see who else consumes, and a port where nobody listens.
pub fn wrong(site: &Site, _: &Plan) -> String {
    let credentials = "    credentialsSecretRef: {name: broker}\n";
    let with = |more: &str| Setting { more: more.to_owned(), ..Setting::default() };
    let mut world = World::new(site, "wrong-password", with(credentials), Duration::ZERO);
    write_secret(&world, "stranger", "wrong-secret");
    must_name(&mut world, "WrongCredentials", &["credentialsSecretRef"]);
    assert!(!world_output(&world).contains("wrong-secret"), "the secret was told");
    // The rotated Secret is used without a restart; the user may not read the queue.
    write_secret(&world, "stranger", "stranger-secret");
    let told = world.await_reason("one", "AccessRefused");
    assert!(told.contains("authorizationEntry") && told.contains(&world.queues[0]), "{told}");
    drop(world.sidecars.remove("one"));
    // This one may not see who else consumes.
    write_secret(&world, "blind", "blind-secret");
    world.publish_bodies(["x"]);
    world.join("one");
    world.await_deliveries("one", 0, 1, SOON);
    world.await_check("one", |code, said| code == Some(0) && said.contains("OwnershipUnverified"));
    wait_until("it is told that nothing could be verified", SOON, || {
        world.sidecars["one"].status().to_string().contains("OwnershipUnverified")
    });
    world.leave("one");
    // This one may.
    write_secret(&world, "app", "app-secret");
    world.await_check("one", |code, said| code == Some(0) && !said.contains("warning"));
    world.join("one");
    world.finish(SOON);

    let mut world = World::new(site, "wrong-port", with(""), Duration::ZERO);
    let nowhere = format!("127.0.0.1:{}", free_port());
    world.addresses.insert("one".to_owned(), vec![nowhere.clone()]);
    must_name(&mut world, "Unreachable", &[&nowhere]);
    // With one good address among them all is well.
    drop(world.sidecars.remove("one"));
    world.addresses.insert("one".to_owned(), vec![nowhere, site.node.openwire().to_owned()]);
    world.publish_bodies(["x"]);
    world.join("one");
    world.await_deliveries("one", 0, 1, SOON);
    world.finish(SOON);
    "each was named with its cure".to_owned()
}

/// Gives its sidecars a Secret with credentials.
fn write_secret(world: &World<'_>, username: &str, password: &str) {
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
