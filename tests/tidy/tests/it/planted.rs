use lockstep_tests_tidy::{Source, docs, imports, lengths, text};

/// Each of these must be found, by naming its path.
fn found(rule: fn(&[Source]) -> Vec<String>, path: &str, content: &str) {
    let offenders = rule(&[Source::new(path, content)]);
    assert_eq!(offenders.len(), 1, "{path}: {content:?}: {offenders:?}");
    assert!(offenders[0].starts_with(path), "{offenders:?}");
}

/// None of these may be found.
fn passed(rule: fn(&[Source]) -> Vec<String>, path: &str, content: &str) {
    let offenders = rule(&[Source::new(path, content)]);
    assert!(offenders.is_empty(), "{path}: {content:?}: {offenders:?}");
}

#[test]
fn long_files_and_functions() {
    found(lengths::offenders, "a/src/lib.rs", &"//\n".repeat(801));
    passed(lengths::offenders, "a/src/lib.rs", &"//\n".repeat(800));
    for head in ["fn long() {", "    pub(crate) async fn long(", "pub const fn long() {"] {
        let indent = " ".repeat(head.len() - head.trim_start().len());
        let function =
            |lines: usize| format!("{head}\n{}{indent}}}\n", "        body();\n".repeat(lines - 2));
        found(lengths::offenders, "a/src/lib.rs", &function(71));
        passed(lengths::offenders, "a/src/lib.rs", &function(70));
    }
}

#[test]
fn forbidden_dependencies() {
    let cargo = |section: &str, line: &str| format!("[package]\nname = \"x\"\n\n[{section}]\n{line}\n");
    let edge = "lockstep-core.workspace = true";
    found(imports::offenders, "sidecar/rocketmq/Cargo.toml", &cargo("dependencies", edge));
    passed(imports::offenders, "sidecar/rocketmq/Cargo.toml", &cargo("dev-dependencies", edge));
    passed(imports::offenders, "sidecar/app/Cargo.toml", &cargo("dependencies", edge));
    // A folder below another one has a wall of its own.
    let own = "lockstep-openwire.workspace = true";
    passed(imports::offenders, "sidecar/activemq/Cargo.toml", &cargo("dependencies", own));
    let model = "lockstep-model.workspace = true";
    found(imports::offenders, "sidecar/activemq/openwire/Cargo.toml", &cargo("dependencies", model));
    let shared = "lockstep-exclusive.workspace = true";
    passed(imports::offenders, "sidecar/rabbitmq/Cargo.toml", &cargo("dependencies", shared));
    found(imports::offenders, "sidecar/rocketmq/Cargo.toml", &cargo("dependencies", shared));
    found(imports::offenders, "sidecar/exclusive/Cargo.toml", &cargo("dependencies", own));
    found(
        imports::offenders,
        "sidecar/model/Cargo.toml",
        &cargo("dependencies", "lockstep-broker = { path = \"x\" }"),
    );
    found(imports::offenders, "sidecar/app/Cargo.toml", &cargo("dependencies", "kube = \"3\""));
}

#[test]
fn forbidden_imports() {
    found(imports::offenders, "sidecar/core/src/lane.rs", "use std::collections::HashMap;\n");
    found(imports::offenders, "sidecar/core/src/lane.rs", "let now = tokio::time::now();\n");
    found(imports::offenders, "sidecar/core/src/lane.rs", "use std::time::SystemTime;\n");
    passed(imports::offenders, "sidecar/core/src/lane.rs", "// No HashMap here, tokio::time neither.\n");
    passed(imports::offenders, "sidecar/core/src/tests/lane.rs", "use std::collections::HashMap;\n");
    found(imports::offenders, "sidecar/history/src/lib.rs", "use lockstep_model::Epoch;\n");
    found(imports::offenders, "sidecar/rocketmq/src/lib.rs", "use lockstep_core::Engine;\n");
    found(imports::offenders, "sidecar/activemq/src/lib.rs", "use lockstep_core::Engine;\n");
    found(imports::offenders, "sidecar/activemq/openwire/src/lib.rs", "use tokio::io::AsyncRead;\n");
    passed(imports::offenders, "sidecar/activemq/src/lib.rs", "use tokio::io::AsyncRead;\n");
    for adapter in ["rocketmq", "rabbitmq", "activemq", "embedded"] {
        let both = format!("use lockstep_core::Engine;\nuse lockstep_{adapter}::Broker;\n");
        found(imports::offenders, "sidecar/app/src/deliver.rs", &both);
        passed(imports::offenders, "sidecar/app/src/runtime.rs", &both);
    }
}

#[test]
fn forbidden_words() {
    for path in ["/ro\u{6f}t/x", "/ho\u{6d}e/me", "/wo\u{72}k/x", "/Us\u{65}rs/me"] {
        found(text::offenders, "docs/a.md", path);
    }
    found(text::offenders, "tests/run.sh", "curl https://repo1.maven.org/maven2");
    found(text::offenders, "a/src/lib.rs", "    #[ignore = \"slow\"]\n");
    found(text::offenders, "a/tests/it/main.rs", "    thread::sleep(SECOND);\n");
    found(text::offenders, "a/src/tests.rs", "    tokio::time::sleep(SECOND).await;\n");
    passed(text::offenders, "a/src/lib.rs", "    tokio::time::sleep(SECOND).await;\n");
    passed(text::offenders, "tests/support/src/time.rs", "    thread::sleep(POLL);\n");
}

#[test]
fn broken_links() {
    found(docs::offenders, "docs/a.md", "see [b](b.md#part)");
    found(docs::offenders, "docs/adr/a.md", "see [b](../../nowhere/)");
    passed(
        docs::offenders,
        "docs/a.md",
        "see [self](../docs/a.md), [web](https://example.com), [part](#part)",
    );
}

#[test]
fn another_example_than_the_readmes() {
    let example = Source::new("examples/minimal.yaml", "kind: ConsumerGroup\n");
    let readme = |yaml: &str| Source::new("README.md", format!("Apply:\n\n```yaml\n{yaml}```\n"));
    let offenders = |yaml| docs::hidden_example(&[example.clone(), readme(yaml)]);
    assert!(offenders("kind: ConsumerGroup\n").is_empty());
    assert_eq!(offenders("kind: Other\n").len(), 1);
    assert_eq!(offenders("").len(), 1);
}
