//! Whatever is written is read as the same.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, option, prelude::*};

use super::framed;
use crate::{
    About, AckType, Blob, BrokerId, BrokerInfo, Command, ConnectionControl, ConnectionError, ConnectionId,
    ConsumerControl, ConsumerId, ConsumerInfo, Destination, DestinationInfo, DestinationKind, EncodeError,
    Fields, Frame, Kind, LocalTransactionId, Message, MessageAck, MessageDispatch, MessageId, Operation,
    ProducerAck, ProducerId, ProducerInfo, RemoveInfo, RemoveSubscriptionInfo, Removed, Response, SessionId,
    Text, Throwable, TransactionId, Value, WireFormatInfo, XaTransactionId, decode, encode, read_map,
    read_values, write_map,
};

fn text() -> impl Strategy<Value = Text> {
    any::<String>().prop_map(Text::from)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..50).prop_map(Bytes::from)
}

fn consumer() -> impl Strategy<Value = ConsumerId> {
    (text(), any::<i64>(), any::<i64>()).prop_map(|(connection, session, value)| ConsumerId {
        connection,
        session,
        value,
    })
}

fn producer() -> impl Strategy<Value = ProducerId> {
    (text(), any::<i64>(), any::<i64>()).prop_map(|(connection, session, value)| ProducerId {
        connection,
        value,
        session,
    })
}

fn message_id() -> impl Strategy<Value = MessageId> {
    (option::of(text()), producer(), any::<i64>(), any::<i64>()).prop_map(
        |(text, producer, producer_sequence, broker_sequence)| MessageId {
            text,
            producer,
            producer_sequence,
            broker_sequence,
        },
    )
}

fn destination() -> impl Strategy<Value = Destination> {
    use DestinationKind::{Queue, TempQueue, TempTopic, Topic};
    (prop_oneof![Just(Queue), Just(Topic), Just(TempQueue), Just(TempTopic)], text())
        .prop_map(|(kind, name)| Destination { kind, name })
}

fn transaction() -> impl Strategy<Value = TransactionId> {
    prop_oneof![
        (any::<i64>(), option::of(text())).prop_map(|(value, connection)| {
            let connection = connection.map(|value| ConnectionId { value });
            TransactionId::Local(LocalTransactionId { value, connection })
        }),
        (any::<i32>(), option::of(bytes()), option::of(bytes())).prop_map(|(format, global, branch)| {
            TransactionId::Xa(XaTransactionId { format, global, branch })
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let flat = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::Byte),
        any::<u16>().prop_map(Value::Char),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        any::<u64>().prop_map(|bits| Value::Double(f64::from_bits(bits))),
        any::<u32>().prop_map(|bits| Value::Float(f32::from_bits(bits))),
        text().prop_map(Value::Text),
        (8_180_usize..8_200).prop_map(|length| Value::Text("x".repeat(length).into())),
        bytes().prop_map(Value::Bytes),
    ];
    flat.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec((text(), inner.clone()), 0..5).prop_map(Value::Map),
            vec(inner, 0..5).prop_map(Value::List),
        ]
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    use Kind::{Map, Object, Plain, Stream};
    prop_oneof![
        Just(Plain),
        Just(Kind::Bytes),
        Just(Map),
        Just(Object),
        Just(Stream),
        Just(Kind::Text),
        Just(Kind::Blob)
    ]
}

fn brokers() -> impl Strategy<Value = Vec<BrokerId>> {
    vec(text().prop_map(|value| BrokerId { value }), 0..3)
}

fn message() -> impl Strategy<Value = Message> {
    let first = (
        option::of(producer()),
        option::of(destination()),
        option::of(transaction()),
        message_id(),
        option::of(text()),
        option::of(bytes()),
        option::of(bytes()),
        option::of(consumer()),
        brokers(),
    );
    let about = option::of(consumer().prop_map(|id| {
        Box::new(Command::Remove(RemoveInfo { id: Some(Removed::Consumer(id)), last_delivered: 1 }))
    }));
    let numbers = (any::<i32>(), any::<bool>(), any::<i64>(), any::<u8>());
    (kind(), first, about, numbers).prop_map(|(kind, first, about, (int, flag, long, byte))| {
        let (producer, destination, transaction, id, text, content, raw_properties, target, path) = first;
        let fields = Fields {
            producer,
            original_destination: destination.clone(),
            reply_to: destination.clone(),
            destination,
            original_transaction: transaction.clone(),
            transaction,
            id,
            group: text.clone(),
            group_sequence: int,
            correlation: text.clone(),
            persistent: flag,
            expiration: long,
            priority: byte,
            timestamp: long.wrapping_add(1),
            subject: text.clone(),
            content,
            raw_properties,
            about: About(about),
            target,
            compressed: !flag,
            redeliveries: int.wrapping_add(1),
            path: path.clone(),
            arrival: long.wrapping_add(2),
            user: text.clone(),
            bridged: flag,
            droppable: !flag,
            cluster: path,
            stored: long.wrapping_add(3),
            sent: long.wrapping_add(4),
            first_of_group: flag,
        };
        let blob = Blob { url: text.clone(), media_type: text, deleted_by_broker: flag };
        Message { blob: matches!(kind, Kind::Blob).then_some(blob), kind, fields }
    })
}

/// What commands are made of.
#[derive(Debug, Clone)]
struct Parts {
    text: Option<Text>,
    destination: Option<Destination>,
    consumer: Option<ConsumerId>,
    int: i32,
    long: i64,
    flags: [bool; 5],
    path: Vec<BrokerId>,
    token: Option<Bytes>,
}

impl Parts {
    fn connection(&self) -> Option<ConnectionId> {
        self.text.clone().map(|value| ConnectionId { value })
    }

    fn exception(&self) -> Option<Throwable> {
        self.text.clone().map(|class| Throwable { class, message: None })
    }

    fn consumer(&self) -> Command {
        let [browser, dispatch_async, no_local, exclusive, retroactive] = self.flags;
        let id = self.consumer.clone().unwrap_or_default();
        Command::Consumer(Box::new(ConsumerInfo {
            browser,
            destination: self.destination.clone(),
            prefetch: self.int,
            pending_most: self.int,
            dispatch_async,
            selector: self.text.clone(),
            client: self.text.clone(),
            subscription: self.text.clone(),
            no_local,
            exclusive,
            retroactive,
            priority: 7,
            path: self.path.clone(),
            predicate: None,
            network: browser,
            optimized_ack: no_local,
            no_range_acks: exclusive,
            network_path: vec![id.clone(); 2],
            id,
        }))
    }

    fn broker(&self) -> Command {
        let [slave, master, fault_tolerant, duplex, network] = self.flags;
        Command::Broker(BrokerInfo {
            id: self.path.first().cloned(),
            url: self.text.clone(),
            peers: self.path.clone(),
            name: self.text.clone(),
            slave,
            master,
            fault_tolerant,
            duplex,
            network,
            connection: self.long,
            upload_url: self.text.clone(),
            network_properties: self.text.clone(),
        })
    }

    fn controls(&self) -> [Command; 2] {
        let [close, exit, fault_tolerant, resume, suspend] = self.flags;
        let consumer = ConsumerControl {
            destination: self.destination.clone(),
            close,
            consumer: self.consumer.clone(),
            prefetch: self.int,
            flush: exit,
            start: resume,
            stop: suspend,
        };
        let connection = ConnectionControl {
            close,
            exit,
            fault_tolerant,
            resume,
            suspend,
            brokers: self.text.clone(),
            reconnect_to: self.text.clone(),
            rebalance: exit,
            token: self.token.clone(),
        };
        [Command::ConsumerControl(consumer), Command::ConnectionControl(Box::new(connection))]
    }

    fn destinations(&self) -> [Command; 3] {
        let [dispatch_async, removes, ..] = self.flags;
        let producer = ProducerInfo {
            id: ProducerId::default(),
            destination: self.destination.clone(),
            path: self.path.clone(),
            dispatch_async,
            window: self.int,
        };
        let destination = DestinationInfo {
            connection: self.connection(),
            destination: self.destination.clone(),
            operation: if removes { Operation::Remove } else { Operation::Add },
            timeout: self.long,
            path: self.path.clone(),
        };
        let subscription = RemoveSubscriptionInfo {
            connection: self.connection(),
            subscription: self.text.clone(),
            client: self.text.clone(),
        };
        [
            Command::Producer(producer),
            Command::Destination(destination),
            Command::RemoveSubscription(subscription),
        ]
    }

    fn commands(&self) -> Vec<Command> {
        let error = ConnectionError { exception: self.exception(), connection: self.connection() };
        let session = SessionId { connection: self.text.clone().unwrap_or_default(), value: self.long };
        let mut all = vec![
            self.consumer(),
            self.broker(),
            Command::ConnectionError(error),
            Command::ProducerAck(ProducerAck { producer: None, size: self.int }),
            Command::Response(Response { to: self.int, exception: self.exception() }),
            Command::Session(session),
            Command::WireFormat(WireFormatInfo::ours(Duration::from_millis(77), 5_000)),
        ];
        all.extend(self.controls());
        all.extend(self.destinations());
        all
    }
}

fn control() -> impl Strategy<Value = Command> {
    let texts = (option::of(text()), option::of(destination()), option::of(consumer()));
    let rest = (any::<i32>(), any::<i64>(), any::<[bool; 5]>(), brokers(), option::of(bytes()));
    (texts, rest).prop_flat_map(|((text, destination, consumer), (int, long, flags, path, token))| {
        let parts = Parts { text, destination, consumer, int, long, flags, path, token };
        proptest::sample::select(parts.commands())
    })
}

fn ack() -> impl Strategy<Value = Command> {
    use AckType::{Delivered, Expired, Individual, Poison, Redelivered, Standard, Unmatched};
    let kinds = proptest::sample::select(vec![
        Delivered,
        Poison,
        Standard,
        Redelivered,
        Individual,
        Unmatched,
        Expired,
    ]);
    (kinds, consumer(), option::of(message_id()), option::of(transaction()), any::<i32>()).prop_map(
        |(kind, consumer, first, transaction, count)| {
            Command::Ack(Box::new(MessageAck {
                destination: Some(Destination::queue("q")),
                transaction,
                consumer,
                kind,
                last: first.clone(),
                first,
                count,
                cause: Some(Throwable { class: "java.lang.Exception".into(), message: Some("m".into()) }),
            }))
        },
    )
}

proptest! {
    #[test]
    fn of_messages(message in message(), consumer in consumer(), redeliveries: i32, number: i32) {
        let sent = Command::Message(Box::new(message.clone()));
        let frame = Frame { number, answer: true, command: sent };
        prop_assert_eq!(decode(framed(number, true, &frame.command)), Ok(frame));
        let destination = message.fields.destination.clone();
        let dispatch = MessageDispatch { consumer, destination, message: Some(message), redeliveries };
        let frame = Frame { number: 0, answer: false, command: Command::Dispatch(Box::new(dispatch)) };
        prop_assert_eq!(decode(framed(0, false, &frame.command)), Ok(frame));
    }

    #[test]
    fn of_commands(command in prop_oneof![control(), ack()]) {
        let number = if matches!(command, Command::WireFormat(_)) { 0 } else { 5 };
        let frame = Frame { number, answer: false, command };
        prop_assert_eq!(decode(framed(number, false, &frame.command)), Ok(frame));
    }

    #[test]
    fn of_values(map in vec((text(), value()), 0..6)) {
        let mut out = BytesMut::new();
        write_map(&mut out, &map).unwrap();
        prop_assert_eq!(read_map(out.freeze()), Ok(map));
    }

    #[test]
    fn any_bytes_are_read_or_refused(data in vec(any::<u8>(), 0..300)) {
        let _: Result<_, _> = decode(data.clone().into());
        let _: Result<_, _> = read_map(data.clone().into());
        let _: Result<_, _> = read_values(data.into());
    }
}

#[test]
fn what_is_too_long_is_not_written() {
    let mut out = BytesMut::from(&b"before"[..]);
    let long = Text::from("x".repeat(65_536));
    let session = Command::Session(SessionId { connection: long, value: 1 });
    let error = encode(&mut out, 1, false, &session).unwrap_err();
    assert_eq!(error, EncodeError { what: "SessionId.connection", length: 65_536 });
    assert_eq!(&out[..], b"before");
    let most = Text::from("x".repeat(65_535));
    encode(&mut out, 1, false, &Command::Session(SessionId { connection: most, value: 1 })).unwrap();
}
