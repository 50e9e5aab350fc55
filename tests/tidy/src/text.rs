//! Words that must not stand in the repository.

use crate::Source;

/// Where tests may sleep, and why.
const SLEEPERS: [(&str, &str); 8] = [
    ("tests/support/src/time.rs", "the one place that polls a condition"),
    ("tests/support/src/app.rs", "an application that works for as long as it is told"),
    ("tests/support/src/proxy.rs", "a network that is as slow as it is told"),
    ("sidecar/rocketmq/src/remoting/tests/faults.rs", "waits for as long as a refusal told it to"),
    ("sidecar/rocketmq/tests/it/fake.rs", "a server that holds pulls, and polls what it was asked"),
    ("tests/tidy/", "names what it looks for"),
    ("tests/bench/", "an open loop sends at given times"),
    ("tests/sim/", "time is paused there: a sleep is a step of the clock"),
];

/// Machine paths, registries, ignored tests and sleeping tests.
pub fn offenders(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with("tests/tidy/")) {
        for (number, line) in source.lines() {
            let mut report = |what: &str| found.push(format!("{}:{number}: {what}", source.path));
            if FOLDERS.iter().any(|folder| line.contains(&format!("/{folder}/"))) {
                report("a path of one machine");
            }
            if REGISTRIES.iter().any(|host| line.contains(host))
                && source.path != "Cargo.lock"
                && source.path != "deny.toml"
            {
                report("the host of a registry: use the registry's ordinary client");
            }
            if source.is_rust() && line.trim_start().starts_with("#[ignore") {
                report("an ignored test: repair or delete it");
            }
            if source.is_rust() && is_test(&source.path) && sleeps(line) && !may_sleep(source) {
                report("a sleeping test: wait for a condition");
            }
        }
    }
    found
}

/// Below the root of a file system, where people keep their checkouts.
const FOLDERS: [&str; 4] = ["root", "home", "Users", "work"];
const REGISTRIES: [&str; 7] = [
    "repo.maven.apache.org",
    "repo1.maven.org",
    "registry.npmjs.org",
    "pypi.org/simple",
    "static.crates.io",
    "index.crates.io",
    "proxy.golang.org",
];

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Sleeping on paused time moves the clock and waits for nothing.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.contains("thread::sleep(") || code.contains("time::sleep(")
}

fn may_sleep(source: &Source) -> bool {
    source.text.contains("start_paused") || SLEEPERS.iter().any(|(place, _)| source.path.starts_with(place))
}
