use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

use super::{ANSWER_WITHIN, ClientError};

/// Where the answer of a command goes.
pub(super) type Asker = oneshot::Sender<Result<(), ClientError>>;

/// Where the answer of a command comes.
pub(super) type Due = oneshot::Receiver<Result<(), ClientError>>;

/// The broker's answer to what was sent: it has done it, or it says why not.
///
/// Cancel safe: what was sent is sent. [`ClientError::Timeout`] when there is none within [`ANSWER_WITHIN`].
#[derive(Debug)]
pub(crate) struct Answer {
    what: &'static str,
    due: Due,
    limit: Pin<Box<Sleep>>,
}

impl Answer {
    /// Counts the time from now on.
    pub(super) fn new(what: &'static str, due: Due) -> Self {
        Self { what, due, limit: Box::pin(sleep(ANSWER_WITHIN)) }
    }
}

impl Future for Answer {
    type Output = Result<(), ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.due).poll(context) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(answer),
            // The connection's task answers all when it ends, unless the runtime itself goes.
            Poll::Ready(Err(_)) => return Poll::Ready(Err(ClientError::ClosedByUs)),
            Poll::Pending => {}
        }
        let (what, after) = (self.what, ANSWER_WITHIN);
        self.limit.as_mut().poll(context).map(|()| Err(ClientError::Timeout { what, after }))
    }
}
