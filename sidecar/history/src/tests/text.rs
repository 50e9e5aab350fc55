use super::*;
use crate::{How, ParseError};

#[test]
fn what_is_written_is_read_again() {
    let mut script = Script::with_messages(2);
    script.deliver(0..1);
    let post = script.start(1, 1, "a b\n%=ü");
    script.end(post, Outcome::Broken);
    script.commit(1);
    script.fault(3, 1);
    script.history.push(Event::Fault {
        at: 1,
        name: "x".into(),
        queue: Some("%RETRY%g/b/0".into()),
        duplicates: 0,
        overlaps: 0,
    });
    script.history.push(Event::Final { at: 1, queue: "q".into(), position: 1, how: How::Skip });
    script.history.push(Event::Final { at: 1, queue: "q".into(), position: 1, how: How::DeadLetter });
    let text = script.history.to_string();
    let read: History = text.parse().unwrap();
    assert_eq!(read.events(), script.history.events());
}

#[test]
fn a_wrong_line_is_named() {
    for (line, reason) in [
        ("start at=1", "post is missing"),
        ("commit at=x queue=q position=1", "at=x is no number"),
        ("commit at=1 queue=q position=1 more=1", "more is unknown"),
        ("commit at=1 at=2 queue=q position=1", "at comes twice"),
        ("commit at=1 queue=%zz position=1", "%zz has a wrong percent sign"),
        ("sing at=1", "kind sing is unknown"),
        ("end at", "at has no value"),
        ("final at=1 queue=q position=0 how=so", "how=so is unknown"),
    ] {
        let text = format!("published queue=q position=0\n\n{line}\n");
        let error = text.parse::<History>().unwrap_err();
        assert_eq!(error, ParseError { line: 3, reason: reason.to_owned() });
    }
}
