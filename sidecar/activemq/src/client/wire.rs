//! The commands of a consumer's life, as openwire has them: what goes out, and what comes in by what it means to us.

use std::time::Duration;

use bytes::BytesMut;
use lockstep_openwire::{
    AckType, Command, ConnectionId, ConnectionInfo, ConsumerControl, ConsumerId, ConsumerInfo, DecodeError,
    Destination, DestinationInfo, DestinationKind, EncodeError, Message, MessageAck, MessageId, MessagePull,
    Operation, ProducerId, ProducerInfo, RemoveInfo, Removed, SessionId, Throwable, Value, WireFormatInfo,
    encode, write_map,
};

use super::{Ack, AckVerdict, ClientError, Credentials, Outgoing, Subscription};

/// The one session of a connection, and its one producer.
const SESSION: i64 = 1;
const PRODUCER: i64 = 1;

/// All that were handed out count as delivered (`RemoveInfo.LAST_DELIVERED_UNKNOWN`).
pub(super) const DELIVERED_UNKNOWN: i64 = -2;

/// A class that each broker has: one that it lacks would be replaced.
const CAUSE: &str = "java.lang.Exception";

/// Characters of a cause that are sent: the broker stores it with the message.
const CAUSE_MOST: usize = 512;

/// The usual priority of a message (JMS).
const PRIORITY: u8 = 4;

/// Writes the commands of one connection.
#[derive(Debug)]
pub(super) struct Wire {
    connection: String,
}

/// The peer broke the protocol.
pub(super) fn broken(what: &str) -> ClientError {
    ClientError::Protocol(what.into())
}

impl From<DecodeError> for ClientError {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string().into())
    }
}

impl From<EncodeError> for ClientError {
    fn from(error: EncodeError) -> Self {
        Self::TooLong { what: error.what }
    }
}

type Written = Result<(), ClientError>;

impl Wire {
    /// Of a connection with that id.
    pub(super) const fn new(connection: String) -> Self {
        Self { connection }
    }

    fn connection_id(&self) -> ConnectionId {
        ConnectionId { value: self.connection.as_str().into() }
    }

    fn consumer_id(&self, value: i64) -> ConsumerId {
        ConsumerId { connection: self.connection.as_str().into(), session: SESSION, value }
    }

    fn producer_id(&self) -> ProducerId {
        ProducerId { connection: self.connection.as_str().into(), value: PRODUCER, session: SESSION }
    }

    /// A queue of this connection's own: brokers take whose it is from its name.
    pub(super) fn temp_queue(&self, number: u32) -> Destination {
        let name = format!("{}:{number}", self.connection);
        Destination { kind: DestinationKind::TempQueue, name: name.into() }
    }

    // What is never too long: nothing but numbers and our own id.

    pub(super) fn keep_alive(&self, out: &mut BytesMut) {
        short(out, 0, false, &Command::KeepAlive);
    }

    pub(super) fn session(&self, out: &mut BytesMut, command: i32) {
        let id = SessionId { connection: self.connection.as_str().into(), value: SESSION };
        short(out, command, true, &Command::Session(id));
    }

    pub(super) fn shutdown(&self, out: &mut BytesMut, command: i32) {
        short(out, command, false, &Command::Shutdown);
    }

    pub(super) fn remove_connection(&self, out: &mut BytesMut, command: i32) {
        let id = Some(Removed::Connection(self.connection_id()));
        short(out, command, true, &Command::Remove(RemoveInfo { id, last_delivered: DELIVERED_UNKNOWN }));
    }

    pub(super) fn remove_consumer(&self, out: &mut BytesMut, command: i32, number: i64, last: i64) {
        let id = Some(Removed::Consumer(self.consumer_id(number)));
        short(out, command, true, &Command::Remove(RemoveInfo { id, last_delivered: last }));
    }

    /// A producer whose messages say themselves where they go.
    pub(super) fn producer(&self, out: &mut BytesMut, command: i32) {
        let info = ProducerInfo { id: self.producer_id(), ..ProducerInfo::default() };
        short(out, command, true, &Command::Producer(info));
    }

    // What may be.

    /// What we can read. Frames of any length are said to be taken, and told apart here: a broker that kept to a bound of
    /// ours would hang up at each longer message instead of sending it.
    pub(super) fn wire_format(&self, out: &mut BytesMut, inactivity: Duration) -> Written {
        let ours = WireFormatInfo::ours(inactivity, u64::MAX);
        Ok(encode(out, 0, false, &Command::WireFormat(ours))?)
    }

    pub(super) fn connection(
        &self,
        out: &mut BytesMut,
        command: i32,
        client_id: &str,
        credentials: Option<&Credentials>,
    ) -> Written {
        let info = ConnectionInfo {
            id: self.connection_id(),
            client: Some(client_id.into()),
            password: credentials.map(|credentials| (&*credentials.password).into()),
            user: credentials.map(|credentials| credentials.username.as_str().into()),
            manageable: true,
            client_master: true,
            ..ConnectionInfo::default()
        };
        Ok(encode(out, command, true, &Command::Connection(info))?)
    }

    pub(super) fn consumer(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        subscription: &Subscription,
    ) -> Written {
        let Subscription { destination, prefetch, selector, exclusive, priority, dispatch_async, no_local } =
            subscription;
        let info = ConsumerInfo {
            id: self.consumer_id(number),
            destination: Some(destination.clone()),
            prefetch: signed(*prefetch),
            dispatch_async: *dispatch_async,
            selector: selector.as_deref().map(Into::into),
            no_local: *no_local,
            exclusive: *exclusive,
            priority: priority.cast_unsigned(),
            ..ConsumerInfo::default()
        };
        Ok(encode(out, command, true, &Command::Consumer(Box::new(info)))?)
    }

    /// An answer is wanted: a refusal without one would be a failure of nothing in particular.
    pub(super) fn pull(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        from: &Destination,
        timeout: Duration,
    ) -> Written {
        let pull = MessagePull {
            consumer: self.consumer_id(number),
            destination: Some(from.clone()),
            // 0 = for ever.
            timeout: i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX).max(1),
            ..MessagePull::default()
        };
        Ok(encode(out, command, true, &Command::Pull(pull))?)
    }

    pub(super) fn prefetch(
        &self,
        out: &mut BytesMut,
        command: i32,
        number: i64,
        from: &Destination,
        count: u32,
    ) -> Written {
        let control = ConsumerControl {
            destination: Some(from.clone()),
            consumer: Some(self.consumer_id(number)),
            prefetch: signed(count),
            ..ConsumerControl::default()
        };
        Ok(encode(out, command, true, &Command::ConsumerControl(control))?)
    }

    /// A single message, answered: it is then on the broker's disk, and a message that is not ours any more is told. Classic
    /// compares the count.
    pub(super) fn ack(&self, out: &mut BytesMut, command: i32, number: i64, ack: Ack) -> Written {
        let Ack { destination, message, verdict } = ack;
        let (kind, cause) = match verdict {
            AckVerdict::Done => (AckType::Standard, None),
            AckVerdict::Poison { cause } => {
                let cause: String = cause.chars().take(CAUSE_MOST).collect();
                (AckType::Poison, Some(Throwable { class: CAUSE.into(), message: Some(cause.into()) }))
            }
        };
        let ack = MessageAck {
            destination: Some(destination),
            consumer: self.consumer_id(number),
            kind,
            first: Some(message.clone()),
            last: Some(message),
            count: 1,
            cause,
            ..MessageAck::default()
        };
        Ok(encode(out, command, true, &Command::Ack(Box::new(ack)))?)
    }

    pub(super) fn create(&self, out: &mut BytesMut, command: i32, queue: &Destination) -> Written {
        let info = DestinationInfo {
            connection: Some(self.connection_id()),
            destination: Some(queue.clone()),
            operation: Operation::Add,
            ..DestinationInfo::default()
        };
        Ok(encode(out, command, true, &Command::Destination(info))?)
    }

    pub(super) fn message(
        &self,
        out: &mut BytesMut,
        command: i32,
        sequence: i64,
        outgoing: Outgoing,
    ) -> Written {
        let Outgoing { destination, reply_to, correlation, properties } = outgoing;
        let map: Vec<_> =
            properties.into_iter().map(|(name, text)| (name.into(), Value::Text(text.into()))).collect();
        let mut raw_properties = BytesMut::new();
        write_map(&mut raw_properties, &map)?;
        let mut message = Message::default();
        let fields = &mut message.fields;
        let producer = self.producer_id();
        fields.producer = Some(producer.clone());
        fields.id = MessageId { text: None, producer, producer_sequence: sequence, broker_sequence: 0 };
        fields.destination = Some(destination);
        fields.reply_to = reply_to;
        fields.correlation = correlation.map(Into::into);
        fields.priority = PRIORITY;
        fields.raw_properties = Some(raw_properties.freeze());
        Ok(encode(out, command, true, &Command::Message(Box::new(message)))?)
    }
}

fn short(out: &mut BytesMut, command: i32, answer: bool, what: &Command) {
    encode(out, command, answer, what).expect("numbers and our own id must fit into a frame");
}

fn signed(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
