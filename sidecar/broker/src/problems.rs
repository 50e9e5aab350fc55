use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::Problem;

/// The present troubles of a source, the gravest first. Bounded by the subjects that an adapter names.
///
/// `R` says how grave: the least is shown.
#[derive(Debug)]
pub struct Problems<R>(Mutex<BTreeMap<(R, String), Problem>>);

impl<R> Default for Problems<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Ord> Problems<R> {
    /// Notes a trouble of a subject. Says whether that is news.
    pub fn set(&self, rank: R, subject: &str, problem: Problem) -> bool {
        let key = (rank, subject.to_owned());
        let mut all = self.lock();
        // Words of one trouble may differ from time to time (a port, a wait): that is no news. Another cure is another cause.
        let same = |known: &Problem| (known.reason, &known.remedy) == (problem.reason, &problem.remedy);
        if all.get(&key).is_some_and(same) {
            return false;
        }
        all.insert(key, problem);
        true
    }

    /// It has passed. Says whether that is news.
    pub fn clear(&self, rank: R, subject: &str) -> bool {
        let mut all = self.lock();
        !all.is_empty() && all.remove(&(rank, subject.to_owned())).is_some()
    }

    /// Forgets those of a rank whose subject is not kept.
    pub fn retain(&self, rank: R, keep: impl Fn(&str) -> bool) {
        self.lock().retain(|(r, subject), _| *r != rank || keep(subject));
    }

    /// Forgets all.
    pub fn clear_all(&self) {
        self.lock().clear();
    }

    /// The gravest.
    pub fn first(&self) -> Option<Problem> {
        self.lock().values().next().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(R, String), Problem>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Rank {
        Queue,
        Warning,
    }

    #[test]
    fn the_gravest_trouble_is_shown_until_it_has_passed() {
        let problem =
            |reason, message: &str| Problem { reason, message: message.to_owned(), remedy: String::new() };
        let problems = Problems::default();
        let shown = || problems.first().map(|problem| problem.reason);
        assert!(problems.set(Rank::Warning, "a", problem("Classic", "")));
        assert!(problems.set(Rank::Queue, "b", problem("Missing", "at port 1")));
        assert!(!problems.set(Rank::Queue, "b", problem("Missing", "at port 2")));
        assert_eq!(shown(), Some("Missing"));
        let cure = |remedy: &str| Problem { remedy: remedy.to_owned(), ..problem("Missing", "and refused") };
        assert!(problems.set(Rank::Queue, "b", cure("ask")) && !problems.set(Rank::Queue, "b", cure("ask")));
        assert_eq!(problems.first(), Some(cure("ask")));
        problems.retain(Rank::Warning, |_| false);
        problems.retain(Rank::Queue, |subject| subject == "b");
        assert_eq!(shown(), Some("Missing"));
        assert!(problems.set(Rank::Warning, "a", problem("Classic", "")));
        assert!(problems.clear(Rank::Queue, "b") && !problems.clear(Rank::Queue, "b"));
        assert_eq!(shown(), Some("Classic"));
        problems.clear_all();
        assert_eq!(shown(), None);
    }
}
