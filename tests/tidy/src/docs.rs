//! Links between documents lead somewhere, and the README shows an example as it is.

use std::collections::BTreeSet;

use crate::Source;

const EXAMPLE: &str = "examples/minimal.yaml";

/// Relative links of Markdown files whose target is not in the repository.
pub fn offenders(sources: &[Source]) -> Vec<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for source in sources {
        let mut path = source.path.as_str();
        known.insert(path.to_owned());
        while let Some((folder, _)) = path.rsplit_once('/') {
            known.insert(folder.to_owned());
            path = folder;
        }
    }
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".md")) {
        for (number, line) in source.lines() {
            for link in links(line) {
                let target = resolve(&source.path, link);
                if !known.contains(&target) {
                    found.push(format!("{}:{number}: {link} leads nowhere", source.path));
                }
            }
        }
    }
    found
}

/// The example that the README's quick start applies, unless the README shows it word by word.
pub fn hidden_example(sources: &[Source]) -> Vec<String> {
    let text =
        |path: &str| sources.iter().find(|source| source.path == path).map(|source| source.text.as_str());
    let block = text(EXAMPLE).map(|example| format!("\n```yaml\n{example}```\n"));
    let shown = block.is_some_and(|block| text("README.md").unwrap_or_default().contains(&block));
    if shown { Vec::new() } else { vec![format!("{EXAMPLE}: the README shows another text")] }
}

/// Targets of `[text](target)` that are files of the repository, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '<']) && !target.is_empty());
    files.filter_map(|target| target.split(['#', ' ']).next()).filter(|target| !target.starts_with("mailto:"))
}

fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
