pub(crate) mod broker;
mod budget;
mod channels;
mod consuming;
mod handshakes;
mod life;
mod publishing;
mod server;
mod tls;

use std::num::NonZeroU64;

use self::server::Server;
use super::{Channel, Connection, Deliveries, DeliveryEvent, OpenConfig, RawDelivery};

/// A channel whose broker hangs up at once.
pub(crate) async fn channel() -> Channel {
    with_channel(&OpenConfig::default()).await.2
}

/// A connection with a scripted broker at its other end.
async fn connected(config: &OpenConfig) -> (Connection, Server) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut server = Server::new(theirs);
    let (connection, ()) =
        tokio::join!(Connection::over(Box::new(ours), "broker:5672", config), server.agree());
    (connection.unwrap(), server)
}

/// With a channel that is open.
async fn with_channel(config: &OpenConfig) -> (Connection, Server, Channel, Deliveries) {
    let (connection, mut server) = connected(config).await;
    let (opened, ()) =
        tokio::join!(connection.open_channel(), server.answer(1, "0014 000a 00", "0014 000b 00000000"));
    let (channel, deliveries) = opened.unwrap();
    (connection, server, channel, deliveries)
}

/// With a consumer on it, of prefetch 3.
async fn consuming(config: &OpenConfig) -> (Connection, Server, Channel, Deliveries) {
    let (connection, mut server, channel, deliveries) = with_channel(config).await;
    let ask = async {
        channel.qos(3.try_into().unwrap()).await.unwrap();
        channel.consume("q", "t", &super::Fields::new()).await.unwrap();
    };
    let answer = async {
        server.answer(1, "003c 000a 00000000 0003 00", "003c 000b").await;
        server.answer(1, "003c 0014 0000 01 71 01 74 00 00000000", "003c 0015 01 74").await;
    };
    tokio::join!(ask, answer);
    (connection, server, channel, deliveries)
}

fn message(event: DeliveryEvent) -> RawDelivery {
    match event {
        DeliveryEvent::Message(message) => message,
        other @ (DeliveryEvent::Cancelled | DeliveryEvent::Closed(_)) => panic!("no message but {other:?}"),
    }
}

fn tag(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}
