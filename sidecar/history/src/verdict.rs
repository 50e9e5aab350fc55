use std::{collections::BTreeMap, fmt};

/// How many examples of an anomaly are kept.
const EXAMPLES: usize = 5;

/// What can be wrong with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A published message was never answered 2xx and has no other final verdict.
    Loss,
    /// A first delivery came after a later message's, or before its predecessor was done.
    Reorder,
    /// A repeated delivery that is not part of a contiguous rewind.
    Replay,
    /// A repeated delivery of a done message without a fault that explains it.
    Duplicate,
    /// A fault cost more duplicates in a queue than it may.
    DuplicatesBeyondBound,
    /// Two requests of one line ran at the same time.
    Overlap,
    /// A request was sent under an ownership that a newer one had replaced.
    StaleOwner,
    /// A position was committed before a message below it was done.
    UnsafeCommit,
    /// A committed position went back without a fault.
    CommitWentBack,
    /// Attempt numbers don't rise as they should.
    Attempts,
    /// A message was delivered that the broker log does not hold.
    Unknown,
    /// The history contradicts itself.
    Malformed,
}

/// All occurrences of one anomaly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How often it was found.
    pub count: u64,
    /// The first few, in words.
    pub examples: Vec<String>,
}

/// What a history amounts to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that the broker held.
    pub published: u64,
    /// Requests that the application received.
    pub posts: u64,
    /// Messages answered 2xx at least once.
    pub done: u64,
    /// Messages with another final verdict.
    pub finals: u64,
    /// Requests that repeated a done message, those counted apart left out.
    pub duplicates: u64,
    /// Requests that repeated what a consumer of other make had done.
    pub duplicates_apart: u64,
    /// Jumps back in a line.
    pub rewinds: u64,
    /// The most duplicates that one fault cost in one queue.
    pub most_duplicates: u64,
    /// Requests that ran beside another owner's in one line, allowed ones included.
    pub overlaps: u64,
    /// Commits that were seen.
    pub commits: u64,
}

/// The checker's judgement.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// What the history amounts to.
    pub counts: Counts,
    findings: BTreeMap<Anomaly, Finding>,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// How often an anomaly was found.
    pub fn count(&self, anomaly: Anomaly) -> u64 {
        self.findings.get(&anomaly).map_or(0, |finding| finding.count)
    }

    /// What was found, by anomaly.
    pub fn findings(&self) -> impl Iterator<Item = (Anomaly, &Finding)> {
        self.findings.iter().map(|(anomaly, finding)| (*anomaly, finding))
    }

    pub(crate) fn found(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        let finding = self.findings.entry(anomaly).or_insert(Finding { count: 0, examples: Vec::new() });
        finding.count += 1;
        if finding.examples.len() < EXAMPLES {
            finding.examples.push(example());
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { published, posts, done, finals, duplicates, duplicates_apart, .. } = self.counts;
        let Counts { rewinds, most_duplicates, overlaps, commits, .. } = self.counts;
        write!(f, "published {published}, requests {posts}, done {done}, other verdicts {finals}, ")?;
        write!(f, "lost {}, reordered {}, ", self.count(Anomaly::Loss), self.count(Anomaly::Reorder))?;
        write!(
            f,
            "duplicates {duplicates} (at most {most_duplicates} a queue and fault, in {rewinds} rewinds), "
        )?;
        write!(f, "apart {duplicates_apart}, overlaps {overlaps}, commits seen {commits}")?;
        for (anomaly, finding) in self.findings() {
            write!(f, "\n{anomaly:?} x {}", finding.count)?;
            for example in &finding.examples {
                write!(f, "\n  {example}")?;
            }
        }
        Ok(())
    }
}
