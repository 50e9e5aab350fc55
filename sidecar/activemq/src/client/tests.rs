mod acks;
mod consuming;
mod cut;
mod frames;
mod handshakes;
mod life;
mod requests;
mod server;
mod tls;

use std::time::Duration;

use lockstep_openwire::Destination;
use tokio::net::TcpListener;

use self::server::Server;
use super::{
    ClientError, Connection, Consumer, Deliveries, DeliveryEvent, Dispatch, Endpoint, OpenConfig,
    Subscription,
};

/// Real sockets need real time; a busy machine may take long.
const PATIENCE: Duration = Duration::from_secs(60);

fn config() -> OpenConfig {
    OpenConfig { connect_timeout: PATIENCE, ..OpenConfig::default() }
}

/// What becomes of opening a connection to a broker on this host that does what is said.
async fn open(
    config: OpenConfig,
    broker: impl AsyncFnOnce(&mut Server),
) -> (Result<Connection, ClientError>, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port, tls: false };
    let script = async {
        let mut server = Server::accept(&listener).await;
        broker(&mut server).await;
        server
    };
    tokio::join!(Connection::open(&endpoint, &config), script)
}

/// A connection with a scripted broker at its other end.
async fn connected() -> (Connection, Server) {
    let (opened, server) = open(config(), async |server| server.agree(30_000).await).await;
    (opened.unwrap(), server)
}

/// The same over a pipe, for tests whose time is paused.
async fn piped(config: OpenConfig, inactivity: i64) -> (Connection, Server) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut server = Server::new(theirs);
    let (opened, ()) = tokio::join!(Connection::over(Box::new(ours), &config), server.agree(inactivity));
    (opened.unwrap(), server)
}

/// With a consumer of queue `q`, of that number.
async fn consume(
    connection: &Connection,
    server: &mut Server,
    number: i64,
    subscription: Subscription,
) -> (Consumer, Deliveries) {
    let (consuming, _) = tokio::join!(connection.consume(subscription), server.consumer(number));
    consuming.unwrap()
}

/// A connection with a consumer of queue `q`.
async fn consuming() -> (Connection, Server, Consumer, Deliveries) {
    let (connection, mut server) = connected().await;
    let (consumer, deliveries) = consume(&connection, &mut server, 1, Subscription::new(queue())).await;
    (connection, server, consumer, deliveries)
}

fn queue() -> Destination {
    Destination::queue("q")
}

fn message(event: DeliveryEvent) -> Dispatch {
    match event {
        DeliveryEvent::Message(dispatch) => dispatch,
        other @ (DeliveryEvent::Nothing | DeliveryEvent::Cancelled | DeliveryEvent::Closed(_)) => {
            panic!("no message but {other:?}")
        }
    }
}
