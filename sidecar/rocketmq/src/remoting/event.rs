use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Lost, call::Submission};
use crate::{
    codec::Command,
    protocol::{BrokerRequest, ResponseCode},
};

/// What happens on connections without having been asked for. Events of one address keep their order.
#[derive(Debug)]
pub enum Event {
    /// A connection is open: members send a heartbeat on it before they rely on it.
    Up {
        /// As callers name it.
        address: Arc<str>,
        /// Rises with each connection of the process.
        connection: u64,
    },
    /// A connection is gone, and with it all that the broker ties to it: membership and held pulls.
    Down {
        /// As callers name it.
        address: Arc<str>,
        /// The one that was `Up`.
        connection: u64,
        /// Why.
        reason: Lost,
    },
    /// A broker asks something.
    Request {
        /// As callers name it.
        address: Arc<str>,
        /// What it asks.
        request: BrokerRequest,
        /// For the answer.
        responder: Responder,
    },
}

/// Answers one request of a broker. Dropped unused, it refuses.
#[derive(Debug)]
pub struct Responder {
    /// `None` once answered, and for requests that want no answer.
    opaque: Option<i32>,
    connection: u64,
    peer: mpsc::WeakSender<Submission>,
}

impl Responder {
    pub(super) fn new(request: &Command, connection: u64, peer: mpsc::WeakSender<Submission>) -> Self {
        Self { opaque: (!request.is_oneway()).then_some(request.opaque), connection, peer }
    }

    /// Answers with code 0 and a body. Nothing is sent when no answer is wanted or the connection is gone.
    pub fn answer(mut self, body: impl Into<Bytes>) {
        self.send(|opaque| Command::response(ResponseCode::Success.number(), opaque).body(body));
    }

    /// Answers with code 1 and words for people.
    pub fn refuse(mut self, remark: &str) {
        self.send(|opaque| Command::response(ResponseCode::SystemError.number(), opaque).remark(remark));
    }

    fn send(&mut self, command: impl FnOnce(i32) -> Command) {
        let Some(opaque) = self.opaque.take() else { return };
        let Some(peer) = self.peer.upgrade() else { return };
        // A full queue costs the broker's asker its answer, and nobody else anything.
        drop(peer.try_send(Submission::Answer { connection: self.connection, command: command(opaque) }));
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.send(|opaque| {
            Command::response(ResponseCode::SystemError.number(), opaque)
                .remark("not supported by this client")
        });
    }
}
