use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::config::{Assignment, Hint};

/// A folder as the kubelet keeps it: a link to a link, which it swaps for each version.
struct Mounted {
    root: tempfile::TempDir,
    version: u32,
}

impl Mounted {
    fn new(text: &str) -> Self {
        let mut mounted = Self { root: tempfile::tempdir().unwrap(), version: 0 };
        mounted.write(text);
        symlink("..data/assignment", mounted.path()).unwrap();
        mounted
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("assignment")
    }

    fn write(&mut self, text: &str) {
        self.version += 1;
        let name = format!("..version-{}", self.version);
        let (folder, next) = (self.root.path().join(&name), self.root.path().join("..data_tmp"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("assignment"), text).unwrap();
        symlink(name, &next).unwrap();
        fs::rename(next, self.root.path().join("..data")).unwrap();
    }
}

fn queues(names: &[&str]) -> Hint {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_first_hint_is_what_is_mounted() {
    for (text, wanted) in [
        ("", None),
        ("[]", queues(&[])),
        (r#"["b","a","b"]"#, queues(&["a", "b"])),
        ("no list", None),
        (r#"{"a": 1}"#, None),
        ("[1]", None),
    ] {
        let mounted = Mounted::new(text);
        let hint = Assignment::of(&mounted.path()).subscribe();
        assert_eq!(*hint.borrow(), wanted, "{text}");
    }
    let nothing = Assignment::of(Path::new("/nowhere/assignment")).subscribe();
    assert_eq!(*nothing.borrow(), None);
}

#[test]
fn a_swapped_link_is_noticed_and_only_a_new_meaning_wakes() {
    let mut mounted = Mounted::new("");
    let mut assignment = Assignment::of(&mounted.path());
    let mut hint = assignment.subscribe();
    assignment.look();
    assert!(!hint.has_changed().unwrap());
    mounted.write(r#"["a", "b"]"#);
    assignment.look();
    assert!(hint.has_changed().unwrap());
    assert_eq!(*hint.borrow_and_update(), queues(&["a", "b"]));
    mounted.write(r#"["b","a"]"#);
    assignment.look();
    assert!(!hint.has_changed().unwrap());
    mounted.write("");
    assignment.look();
    assert_eq!(*hint.borrow_and_update(), None);
}

#[test]
fn faulty_content_leaves_the_former_hint_in_force() {
    let mut mounted = Mounted::new(r#"["a"]"#);
    let mut assignment = Assignment::of(&mounted.path());
    let mut hint = assignment.subscribe();
    let large = format!("[\"{}\"]", "q".repeat(300 << 10));
    for faulty in ["a, b", r#"["a""#, "[null]", &large] {
        mounted.write(faulty);
        assignment.look();
        assert!(!hint.has_changed().unwrap(), "{faulty:.20}");
        assert_eq!(*hint.borrow(), queues(&["a"]));
    }
    mounted.write(r#"["b"]"#);
    assignment.look();
    assert_eq!(*hint.borrow_and_update(), queues(&["b"]));
}
