use std::{fs, path::Path};

/// Runs a target on its seeds.
fn run(target: &str, fuzz: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(folder).unwrap() {
        fuzz(&fs::read(entry.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds >= 5, "{seeds} seeds");
}

#[test]
fn the_seeds_keep_all_bounds() {
    run("frame", super::frame);
    run("method", super::method);
    run("properties", super::properties);
    run("session", super::session);
}
