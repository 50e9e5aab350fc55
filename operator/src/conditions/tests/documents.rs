//! The manual says what the code does.

use std::{collections::BTreeSet, fs, path::Path};

use lockstep_contract::{ConditionType, Reason};

use super::table::row;
use crate::conditions::source::is_reason;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of a page below that title.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no {title}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// The cells of the tables, without their heads.
fn cells(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let rows: Vec<Vec<_>> =
        rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let heads = rows.iter().skip(1).map(|row| row.iter().all(|cell| cell.starts_with("---")));
    let heads: Vec<bool> = heads.chain([false]).collect();
    let is_body = |at: &usize| !heads[*at] && (*at == 0 || !heads[*at - 1]);
    (0..rows.len()).filter(is_body).map(|at| rows[at].clone()).collect()
}

/// The words in the first cells.
fn words(text: &str) -> BTreeSet<String> {
    let firsts = cells(text).into_iter().flat_map(|row| row[0].split(',').map(str::trim).collect::<Vec<_>>());
    firsts.map(|word| word.trim_matches('`').to_owned()).collect()
}

#[test]
fn every_reason_is_explained_and_no_other() {
    let page = read("docs/conditions.md");
    let known: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str().to_owned()).collect();
    assert_eq!(words(section(&page, "Reasons")), known);
    for row in cells(section(&page, "Reasons")) {
        assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()), "{row:?}: meaning and what to do");
    }
}

#[test]
fn every_condition_is_explained() {
    let page = read("docs/conditions.md");
    let mut known: BTreeSet<_> = ConditionType::ALL.iter().map(|kind| kind.as_str().to_owned()).collect();
    known.remove("Unknown");
    assert_eq!(words(section(&page, "Conditions")), known);
}

#[test]
fn the_truth_table_is_the_codes() {
    let page = read("docs/conditions.md");
    let rows = cells(section(&page, "Truth table"));
    assert!(rows.len() > 20, "{}", rows.len());
    for cells in rows {
        let (name, said) = cells.split_first().unwrap();
        let expected = row(name).unwrap_or_else(|| panic!("no test is called {name:?}"));
        assert_eq!(said, expected, "{name}");
    }
}

/// The words that a file declares, without those that are reasons of ours.
fn declared(path: &str) -> BTreeSet<String> {
    let text = read(path);
    let lines = text.lines().filter(|line| line.trim_start().starts_with("pub const"));
    let words = lines.filter_map(|line| Some(line.split('"').nth(1)?.to_owned()));
    words.filter(|word| !is_common(word)).collect()
}

fn is_common(word: &str) -> bool {
    Reason::ALL.iter().any(|reason| reason.as_str() == word)
}

#[test]
fn the_words_of_sources_are_explained() {
    let page = read("docs/conditions.md");
    let told = words(section(&page, "Reasons of sources"));
    let shared = declared("sidecar/broker/src/reason.rs");
    let mut all = shared.clone();
    for adapter in ["rocketmq", "rabbitmq", "activemq"] {
        let declared = declared(&format!("sidecar/{adapter}/src/problem.rs"));
        assert!(!declared.is_empty(), "{adapter}");
        // A source's own page may say more of its words, and says nothing of others.
        let own = words(section(&read(&format!("docs/{adapter}.md")), "Conditions"));
        let is_known = |word: &String| declared.contains(word) || shared.contains(word) || is_common(word);
        let foreign: Vec<_> = own.iter().filter(|word| !is_known(word)).collect();
        assert!(!own.is_empty() && foreign.is_empty(), "docs/{adapter}.md: {foreign:?}");
        all.extend(declared);
    }
    assert!(all.iter().all(|word| is_reason(word)), "{all:?}");
    assert_eq!(told, all);
}
