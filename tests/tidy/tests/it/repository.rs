use lockstep_tests_tidy::{Source, docs, imports, lengths, root, sources, text};

fn holds(rule: fn(&[Source]) -> Vec<String>) {
    let sources = sources(&root());
    assert!(
        sources.iter().any(|source| source.path == "tests/tidy/src/lib.rs"),
        "the repository was not read"
    );
    let offenders = rule(&sources);
    assert!(offenders.is_empty(), "\n{}", offenders.join("\n"));
}

#[test]
fn files_and_functions_are_short() {
    holds(lengths::offenders);
}

#[test]
fn crates_know_only_what_lies_below() {
    holds(imports::offenders);
}

#[test]
fn no_forbidden_words() {
    holds(text::offenders);
}

#[test]
fn the_readme_shows_the_example() {
    holds(docs::hidden_example);
}

#[test]
fn links_lead_somewhere() {
    holds(docs::offenders);
}
