//! Which crate may know which: the arrows of the architecture point down only.

use crate::Source;

/// A crate's folder, the workspace crates it may depend on outside its tests, and words that its sources must not use.
struct Wall {
    folder: &'static str,
    may_use: &'static [&'static str],
    never: &'static [&'static str],
}

const CLIENTS: &[&str] = &["rustls", "tokio_rustls", "redb", "lapin"];

const WALLS: &[Wall] = &[
    Wall { folder: "crds/contract", may_use: &[], never: &["tokio", "kube", "reqwest", "axum"] },
    Wall {
        folder: "crds",
        may_use: &["lockstep-contract"],
        never: &["tokio", "reqwest", "axum", "kube::Client", "lockstep_sidecar"],
    },
    Wall {
        folder: "operator",
        may_use: &["lockstep-contract", "lockstep-crds"],
        never: &["lockstep_sidecar", "lockstep_core", "lockstep_broker", "rustls", "Api<Secret>"],
    },
    Wall { folder: "sidecar/model", may_use: &[], never: &["tokio", "kube", "reqwest", "axum"] },
    Wall {
        folder: "sidecar/core",
        may_use: &["lockstep-model"],
        never: &[
            "tokio",
            "std::time::Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
            "getrandom",
            "reqwest",
            "axum",
        ],
    },
    Wall { folder: "sidecar/broker", may_use: &["lockstep-model"], never: CLIENTS },
    Wall { folder: "sidecar/tls", may_use: &[], never: &["lockstep_", "reqwest", "axum"] },
    Wall { folder: "sidecar/history", may_use: &[], never: &["tokio", "serde", "lockstep_"] },
    Wall {
        folder: "sidecar/embedded",
        may_use: &["lockstep-model", "lockstep-broker"],
        never: &["lockstep_core", "lockstep_rocketmq"],
    },
    Wall {
        folder: "sidecar/rocketmq",
        may_use: &["lockstep-model", "lockstep-broker", "lockstep-tls"],
        never: &["lockstep_core", "lockstep_embedded", "lockstep_rabbitmq", "reqwest", "axum", "rustls"],
    },
    Wall {
        folder: "sidecar/exclusive",
        may_use: &["lockstep-model", "lockstep-broker"],
        never: &["lockstep_core", "lockstep_rabbitmq", "lockstep_activemq", "reqwest", "axum", "rustls"],
    },
    Wall {
        folder: "sidecar/rabbitmq",
        may_use: &["lockstep-model", "lockstep-broker", "lockstep-tls", "lockstep-exclusive"],
        never: &[
            "lockstep_core",
            "lockstep_embedded",
            "lockstep_rocketmq",
            "lockstep_activemq",
            "axum",
            "lapin",
            "rustls",
        ],
    },
    // Before the folder that it lies in: the first wall that fits holds.
    Wall {
        folder: "sidecar/activemq/openwire",
        may_use: &[],
        never: &["lockstep_", "tokio", "reqwest", "axum", "std::time::Instant", "SystemTime"],
    },
    Wall {
        folder: "sidecar/activemq",
        may_use: &[
            "lockstep-model",
            "lockstep-broker",
            "lockstep-tls",
            "lockstep-exclusive",
            "lockstep-openwire",
        ],
        never: &[
            "lockstep_core",
            "lockstep_embedded",
            "lockstep_rocketmq",
            "lockstep_rabbitmq",
            "reqwest",
            "axum",
            "rustls",
        ],
    },
    Wall {
        folder: "sidecar/app",
        may_use: &[
            "lockstep-contract",
            "lockstep-model",
            "lockstep-core",
            "lockstep-broker",
            "lockstep-history",
            "lockstep-embedded",
            "lockstep-rocketmq",
            "lockstep-rabbitmq",
            "lockstep-activemq",
        ],
        never: &["kube"],
    },
];

/// The crates that speak to one kind of broker each.
const ADAPTERS: [&str; 4] =
    ["lockstep_rocketmq", "lockstep_rabbitmq", "lockstep_activemq", "lockstep_embedded"];

/// The one place in the sidecar that knows both the engine and the adapters: everything else in the app reaches a
/// broker only through it.
const RUNTIME: [&str; 2] = ["sidecar/app/src/runtime", "sidecar/app/src/main.rs"];

/// Forbidden dependencies and imports.
pub fn offenders(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let Some(wall) = WALLS.iter().find(|wall| source.path.starts_with(&format!("{}/", wall.folder)))
        else {
            continue;
        };
        if source.path == format!("{}/Cargo.toml", wall.folder) {
            dependencies(source, wall, &mut found);
        } else if source.is_rust()
            && source.path.starts_with(&format!("{}/src/", wall.folder))
            && !is_test(&source.path)
        {
            imports(source, wall, &mut found);
        }
    }
    found.extend(sources.iter().filter(|source| is_adapter_import_outside_runtime(source)).map(|source| {
        format!("{}: only the runtime of the app may name an adapter and the engine together", source.path)
    }));
    found.extend(kube(sources));
    found
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.contains("/src/tests")
        || path.contains("/fuzz/")
}

fn dependencies(source: &Source, wall: &Wall, found: &mut Vec<String>) {
    let mut section = "";
    for (number, line) in source.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        let counts = section.starts_with("[dependencies") || section.starts_with("[build-dependencies");
        if counts && name.starts_with("lockstep-") && !wall.may_use.contains(&name) {
            found.push(format!("{}:{number}: {} must not depend on {name}", source.path, wall.folder));
        }
    }
}

fn imports(source: &Source, wall: &Wall, found: &mut Vec<String>) {
    for (number, line) in source.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for word in wall.never.iter().filter(|word| has_path(code, word)) {
            found.push(format!("{}:{number}: {} must not know {word}", source.path, wall.folder));
        }
    }
}

/// Whether code names a crate or item: as a whole path segment, or as the beginning of one where it ends with `_`.
fn has_path(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let before = code.get(..at).and_then(|text| text.chars().next_back());
        let after = code.get(at + word.len()..).unwrap_or_default();
        let ends = word.ends_with('_') || !after.starts_with(is_part);
        let is_crate = word.chars().next().is_some_and(char::is_lowercase) && !word.contains("::");
        !before.is_some_and(is_part)
            && ends
            && (!is_crate
                || after.starts_with("::")
                || word.ends_with('_')
                || code.trim_start().starts_with("use "))
    })
}

fn is_adapter_import_outside_runtime(source: &Source) -> bool {
    let code = |word: &str| {
        source.text.lines().any(|line| has_path(line.split("//").next().unwrap_or_default(), word))
    };
    source.path.starts_with("sidecar/app/src/")
        && source.is_rust()
        && !is_test(&source.path)
        && !RUNTIME.iter().any(|place| source.path.starts_with(place))
        && code("lockstep_core")
        && ADAPTERS.into_iter().any(code)
}

/// The sidecar's dependencies hold no client of Kubernetes: it must start where there is none.
fn kube(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with("Cargo.toml")) {
        if source.path.starts_with("sidecar/") || source.path.starts_with("crds/contract/") {
            for (number, line) in
                source.lines().filter(|(_, line)| line.starts_with("kube") || line.starts_with("k8s-"))
            {
                found.push(format!("{}:{number}: {line}: the sidecar must not know Kubernetes", source.path));
            }
        }
    }
    found
}
