#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, PoisonError, RwLock},
    thread,
};

use lockstep_model::{Position, QueueId};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    NewMessage, Published, StoreError,
    store::{Batch, Store},
};

/// Commands that wait for the writer; senders wait beyond it.
const WAITING: usize = 256;
/// Body bytes that one transaction takes at most (one message may be larger).
const BATCH_BYTES: usize = 16 << 20;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// One change, and where its outcome goes once it is on disk.
#[derive(Debug)]
pub(crate) enum Command {
    Publish { queue: QueueId, message: NewMessage, reply: Reply<Published> },
    Commit { queue: QueueId, position: Position, reply: Reply<()> },
    DeadLetter { queue: QueueId, position: Position, attempts: u32, reply: Reply<()> },
    Redrive { id: u64, reply: Reply<Option<Published>> },
}

/// An outcome that waits for the transaction to be on disk.
enum Outcome {
    Published(Reply<Published>, Result<Published, StoreError>),
    Done(Reply<()>, Result<(), StoreError>),
    Redriven(Reply<Option<Published>>, Result<Option<Published>, StoreError>),
}

/// What the writer tells everybody: a bell for new content, and the error that ended it.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(crate) written: watch::Sender<()>,
    pub(crate) failure: RwLock<Option<StoreError>>,
    /// Rung when the failure or the ownership changes.
    pub(crate) session: watch::Sender<()>,
}

impl Signals {
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.failure.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the one thread that writes. It ends when every sender is gone.
pub(crate) fn start(
    store: Arc<Store>,
    signals: Arc<Signals>,
) -> std::io::Result<(mpsc::Sender<Command>, thread::JoinHandle<()>)> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let writer = thread::Builder::new()
        .name("embedded-writer".into())
        .spawn(move || write_all(&store, &signals, receiver))?;
    Ok((sender, writer))
}

fn write_all(store: &Store, signals: &Signals, mut commands: mpsc::Receiver<Command>) {
    while let Some(first) = commands.blocking_recv() {
        // Everything that waits shares one transaction, and so one wait for the disk.
        let mut batch = vec![first];
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && batch.len() < WAITING
            && let Ok(command) = commands.try_recv()
        {
            bytes += command.size();
            batch.push(command);
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        let result = match signals.failure() {
            Some(failure) => {
                outcomes.extend(batch.into_iter().map(|command| command.failed(failure.clone())));
                Err(failure)
            }
            None => write(store, batch, &mut outcomes),
        };
        if let Err(error) = &result
            && error.is_fatal()
        {
            let mut failure = signals.failure.write().unwrap_or_else(PoisonError::into_inner);
            if failure.is_none() {
                tracing::error!(%error, "the embedded broker can write no more");
                *failure = Some(error.clone());
            }
            drop(failure);
            signals.session.send_replace(());
        }
        for outcome in outcomes {
            outcome.send(result.as_ref().err());
        }
        signals.written.send_replace(());
    }
}

fn write(store: &Store, batch: Vec<Command>, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
    let mut waiting = batch.into_iter();
    let result = (|| {
        let transaction = store.begin()?;
        let mut tables = store.batch(&transaction)?;
        for command in waiting.by_ref() {
            let outcome = command.apply(&mut tables);
            let fatal = outcome.fatal().cloned();
            outcomes.push(outcome);
            if let Some(error) = fatal {
                return Err(error);
            }
        }
        let queues = tables.finish();
        transaction.commit()?;
        store.committed(queues);
        Ok(())
    })();
    if let Err(error) = &result {
        outcomes.extend(waiting.map(|command| command.failed(error.clone())));
    }
    result
}

impl Command {
    fn size(&self) -> usize {
        match self {
            Self::Publish { message, .. } => message.size(),
            Self::Commit { .. } | Self::DeadLetter { .. } | Self::Redrive { .. } => 0,
        }
    }

    fn apply(self, tables: &mut Batch<'_>) -> Outcome {
        match self {
            Self::Publish { queue, message, reply } => {
                Outcome::Published(reply, tables.publish(queue, &message))
            }
            Self::Commit { queue, position, reply } => {
                let result = tables.end(queue).and_then(|end| match position {
                    Position(at) if at > end => Err(StoreError::OutOfRange { position, end: Position(end) }),
                    Position(_) => tables.commit(queue, position),
                });
                Outcome::Done(reply, result)
            }
            Self::DeadLetter { queue, position, attempts, reply } => {
                Outcome::Done(reply, tables.dead_letter(queue, position, attempts))
            }
            Self::Redrive { id, reply } => Outcome::Redriven(reply, tables.redrive(id)),
        }
    }

    fn failed(self, error: StoreError) -> Outcome {
        match self {
            Self::Publish { reply, .. } => Outcome::Published(reply, Err(error)),
            Self::Commit { reply, .. } | Self::DeadLetter { reply, .. } => Outcome::Done(reply, Err(error)),
            Self::Redrive { reply, .. } => Outcome::Redriven(reply, Err(error)),
        }
    }
}

impl Outcome {
    fn fatal(&self) -> Option<&StoreError> {
        let error = match self {
            Self::Published(_, result) => result.as_ref().err(),
            Self::Done(_, result) => result.as_ref().err(),
            Self::Redriven(_, result) => result.as_ref().err(),
        };
        error.filter(|error| error.is_fatal())
    }

    /// Answers, with the transaction's error where it failed. Nobody waiting any more is no matter.
    fn send(self, failure: Option<&StoreError>) {
        fn answer<T>(reply: Reply<T>, result: Result<T, StoreError>, failure: Option<&StoreError>) {
            let result = match failure {
                Some(failure) => Err(failure.clone()),
                None => result,
            };
            let _: Result<(), _> = reply.send(result);
        }
        match self {
            Self::Published(reply, result) => answer(reply, result, failure),
            Self::Done(reply, result) => answer(reply, result, failure),
            Self::Redriven(reply, result) => answer(reply, result, failure),
        }
    }
}
