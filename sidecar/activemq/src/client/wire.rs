use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{
    Ack, Budget, ClientError, Credentials, DeliveryEvent, Destination, Exception, Outgoing, Subscription,
    frames::LongFrame,
};

/// `RemoveInfo.LAST_DELIVERED_UNKNOWN`: all that were handed out count as delivered.
pub(super) const DELIVERED_UNKNOWN: i64 = -2;

/// The peer broke the protocol.
pub(super) fn broken(what: &str) -> ClientError {
    ClientError::Protocol(what.into())
}

/// What a broker says.
#[derive(Debug)]
pub(super) enum Incoming {
    Answer {
        command: i32,
        result: Result<(), ClientError>,
    },
    Delivery {
        consumer: i64,
        event: DeliveryEvent,
    },
    KeepAlive {
        answer: bool,
    },
    /// Of the whole connection, or of something in it.
    Failed {
        exception: Exception,
        whole: bool,
    },
    Broker(BrokerInfo),
    WireFormat(PeerFormat),
    /// What needs no reaction.
    Note(&'static str),
}

#[derive(Debug)]
pub(super) struct BrokerInfo {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) struct PeerFormat {
    pub(super) version: i32,
    pub(super) provider_version: String,
    pub(super) inactivity: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Wire {
    connection: String,
    version: i32,
}

fn not_yet() -> ClientError {
    broken("not there yet")
}

#[allow(unused_variables, clippy::unused_self, reason = "a sketch")]
impl Wire {
    pub(super) const fn new(connection: String, version: i32) -> Self {
        Self { connection, version }
    }
    pub(super) const fn version(&self) -> i32 {
        self.version
    }
    pub(super) const fn agreed(&mut self, version: i32) {
        self.version = version;
    }
    pub(super) fn read(&self, frame: Bytes, budget: &Budget) -> Result<Incoming, ClientError> {
        Err(not_yet())
    }
    pub(super) fn read_long(&self, frame: &LongFrame) -> Result<Incoming, ClientError> {
        Err(not_yet())
    }
    pub(super) fn keep_alive(&self, out: &mut BytesMut) {}
    pub(super) fn session(&self, out: &mut BytesMut, command: i32) {}
    pub(super) fn shutdown(&self, out: &mut BytesMut, command: i32) {}
    pub(super) fn remove_connection(&self, out: &mut BytesMut, command: i32) {}
    pub(super) fn remove_consumer(&self, out: &mut BytesMut, command: i32, number: i64, last: i64) {}
    pub(super) fn producer(&self, out: &mut BytesMut, command: i32) {}
    pub(super) fn temp_queue(&self, number: u32) -> Destination {
        Destination::TempQueue(format!("{}:{number}", self.connection))
    }
    pub(super) fn wire_format(&self, out: &mut BytesMut, inactivity: Duration) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn connection(
        &self,
        out: &mut BytesMut,
        command: i32,
        client_id: &str,
        credentials: Option<&Credentials>,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn consumer(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        subscription: &Subscription,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn pull(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        from: &Destination,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn prefetch(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        from: &Destination,
        count: u32,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn ack(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        ack: Ack,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn create(
        &self,
        out: &mut BytesMut,
        command: i32,
        queue: &Destination,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
    pub(super) fn message(
        &self,
        out: &mut BytesMut,
        command: i32,
        sequence: i64,
        message: Outgoing,
    ) -> Result<(), ClientError> {
        Err(not_yet())
    }
}
