//! Whole manifests and what is made of them, kept as files.

use std::{fs, path::Path, process::ExitCode};

use lockstep_contract::EX_USAGE;

use super::{RenderError, command, render};
use crate::{
    args::RenderArgs,
    test_support::{golden, settings},
};

fn input(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.in.yaml"));
    fs::read_to_string(path).unwrap()
}

fn mistakes(text: &str) -> Vec<String> {
    match render(text, &settings()) {
        Err(RenderError::Mistakes(mistakes)) => mistakes,
        other => panic!("no mistakes: {other:?}"),
    }
}

#[test]
fn the_smallest_group() {
    let rendered = render(&input("smallest"), &settings()).unwrap();
    assert_eq!(rendered.notices, [""; 0]);
    golden("smallest.out.yaml", &rendered.yaml);
}

#[test]
fn a_group_with_everything() {
    let rendered = render(&input("full"), &settings()).unwrap();
    assert_eq!(rendered.notices.len(), 1, "{:?}", rendered.notices);
    golden("full.out.yaml", &rendered.yaml);
}

#[test]
fn a_group_of_rabbitmq() {
    let rendered = render(&input("rabbitmq"), &settings()).unwrap();
    assert_eq!(rendered.notices, [""; 0]);
    golden("rabbitmq.out.yaml", &rendered.yaml);
}

#[test]
fn a_group_of_activemq() {
    let rendered = render(&input("activemq"), &settings()).unwrap();
    assert_eq!(rendered.notices, [""; 0]);
    golden("activemq.out.yaml", &rendered.yaml);
}

#[test]
fn every_mistake_is_told_at_once() {
    let mistakes = mistakes(&input("mistakes"));
    golden("mistakes.out.txt", &format!("{}\n", mistakes.join("\n")));
}

#[test]
fn a_template_is_needed() {
    let text = input("smallest");
    let (without, _) = text.split_once("  template:").unwrap();
    let told = mistakes(without);
    assert!(told.iter().any(|told| told.starts_with("spec.template: is missing; ")), "{told:?}");
}

#[test]
fn anything_but_a_group_is_a_mistake_and_no_panic() {
    for text in [
        "",
        "[",
        "- a",
        "kind: Pod\napiVersion: v1",
        "{}",
        "spec: 3",
        "spec: {template: 3}",
        "a: 1\n---\nb: 2",
    ] {
        assert!(!mistakes(text).is_empty(), "{text}");
    }
}

#[test]
fn mistakes_end_with_64() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("group.yaml");
    let args = RenderArgs { file: file.clone(), sidecar_image: "sidecar:test".to_owned() };
    let missing = command(&args).unwrap_err();
    assert!(missing.to_string().contains("group.yaml"), "{missing}");
    fs::write(&file, input("mistakes")).unwrap();
    let faulty = command(&args).unwrap_err();
    assert!(faulty.to_string().starts_with("the manifest has "), "{faulty}");
    assert_eq!(format!("{:?}", faulty.exit_code()), format!("{:?}", ExitCode::from(EX_USAGE)));
    fs::write(&file, input("smallest")).unwrap();
    assert!(command(&args).unwrap().yaml.contains("image: sidecar:test"));
}
