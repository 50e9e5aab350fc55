use std::time::Duration;

use tokio::time::sleep;

use super::{Fate, Faults, random::SharedRandom};
use crate::{BrokerError, Commit, Settle, Settler};

/// The settling half of an unreliable broker.
#[derive(Debug, Clone)]
pub struct UnreliableSettler<S> {
    inner: S,
    faults: Faults,
    random: SharedRandom,
}

impl<S: Settler> UnreliableSettler<S> {
    pub(super) const fn new(inner: S, faults: Faults, random: SharedRandom) -> Self {
        Self { inner, faults, random }
    }
}

impl<S: Settler> Settler for UnreliableSettler<S> {
    async fn commit(&self, commit: Commit) -> Result<(), BrokerError> {
        let fate = self.random.draw(|random| random.fate(self.faults.commit));
        sleep(fate.before).await;
        let result = if fate.happens { self.inner.commit(commit).await } else { Ok(()) };
        sleep(fate.after).await;
        fate.answer("commit", result)
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<(), BrokerError>> {
        let fates: Vec<Fate> =
            self.random.draw(|random| batch.iter().map(|_| random.fate(self.faults.settle)).collect());
        let longest = |side: fn(&Fate) -> Duration| fates.iter().map(side).max().unwrap_or_default();
        sleep(longest(|fate| fate.before)).await;
        let happening = batch
            .into_iter()
            .zip(&fates)
            .filter(|(_, fate)| fate.happens)
            .map(|(settle, _)| settle)
            .collect();
        let mut results = self.inner.settle(happening).await.into_iter();
        sleep(longest(|fate| fate.after)).await;
        fates
            .into_iter()
            .map(|fate| {
                // A result too few would be the inner broker's fault: then nothing is known of the settlement.
                let missing = || Err(Fate { answered: false, ..fate }.failure("settle"));
                let result = if fate.happens { results.next().unwrap_or_else(missing) } else { Ok(()) };
                fate.answer("settle", result)
            })
            .collect()
    }
}

impl Fate {
    /// What the caller hears of it.
    fn answer(self, operation: &'static str, result: Result<(), BrokerError>) -> Result<(), BrokerError> {
        if self.happens && self.answered { result } else { Err(self.failure(operation)) }
    }
}
