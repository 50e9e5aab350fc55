//! B0: the same HTTP client posting the same requests in a loop, without a broker.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect::Policy};

use crate::{Result, app::now_nanos, args::Args};

/// As many headers of the same sizes as the sidecar sends with a stub message.
const HEADERS: &[(&str, &str)] = &[
    ("content-type", "application/octet-stream"),
    ("ce-specversion", "1.0"),
    ("ce-id", "7F00000100002A9F0000000000000001"),
    ("ce-source", "rocketmq://DefaultCluster/bench/stub/0"),
    ("ce-type", "lockstep.dev.message.v1"),
    ("ce-subject", "TagA"),
    ("ce-time", "2023-11-14T22:13:20Z"),
    ("ce-sequence", "00000000000000000001"),
    ("ce-deliveryattempt", "1"),
    ("ce-consumergroup", "bench"),
    ("webhook-id", "msg_7F00000100002A9F0000000000000001"),
    ("webhook-timestamp", "1700000000"),
    ("lockstep-message-id", "7F00000100002A9F0000000000000001"),
    ("lockstep-attempt", "1"),
    ("lockstep-max-attempts", "16"),
    ("lockstep-deadline", "1700000030000"),
    ("lockstep-lease-deadline", "1700000030000"),
    ("lockstep-consumer-group", "bench"),
    ("lockstep-lease-epoch", "1700000000000"),
    ("lockstep-property-tags", "TagA"),
];

/// Posts and ends. Arguments: url, connections, count (in all), size, interval_us (open loop, one connection).
pub(crate) async fn run(args: &Args) -> Result<()> {
    let url: Url = args.text("url").ok_or("url=http://… is missing")?.parse()?;
    let connections = args.get("connections", 1_u64)?;
    let count = args.get("count", 10_000_u64)?;
    let size = args.get("size", 1024_usize)?;
    let interval = args.get("interval_us", 0_u64)?;
    let client = Client::builder().no_proxy().redirect(Policy::none()).build()?;
    let mut headers = HeaderMap::new();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..connections {
        let share = count / connections + u64::from(connection < count % connections);
        let one =
            One { client: client.clone(), url: url.clone(), headers: headers.clone(), connection, size };
        tasks.spawn(one.post(share, interval));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

struct One {
    client: Client,
    url: Url,
    headers: HeaderMap,
    connection: u64,
    size: usize,
}

impl One {
    async fn post(self, count: u64, interval: u64) -> Result<()> {
        let plain = bytes_of(self.size, None);
        let queue = HeaderValue::try_from(format!("bench/stub/{}", self.connection))?;
        let mut ticker = tokio::time::interval(Duration::from_micros(interval.max(1)));
        for position in 0..count {
            let body = if interval > 0 {
                ticker.tick().await;
                bytes_of(self.size, Some(now_nanos()))
            } else {
                plain.clone()
            };
            let mut headers = self.headers.clone();
            headers.insert(HeaderName::from_static("lockstep-queue"), queue.clone());
            headers.insert(HeaderName::from_static("lockstep-position"), HeaderValue::from(position));
            let mut answer = self.client.post(self.url.clone()).headers(headers).body(body).send().await?;
            while answer.chunk().await?.is_some() {}
            if !answer.status().is_success() {
                return Err(format!("the application answered {}", answer.status()).into());
            }
        }
        Ok(())
    }
}

fn bytes_of(size: usize, stamp: Option<u64>) -> bytes::Bytes {
    let mut body = vec![b'x'; size];
    if let (Some(stamp), Some(place)) = (stamp, body.get_mut(..20)) {
        place.copy_from_slice(format!("{stamp:020}").as_bytes());
    }
    body.into()
}
