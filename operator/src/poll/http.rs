//! Asks over HTTP.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use lockstep_contract::names::admin;
use reqwest::{Response, redirect};
use tokio::{sync::Semaphore, time::timeout};

use super::Fetch;

/// The longest wait for a pod's answer, and again for the rest of a long one: it comes from memory within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for a connection. A pod that is gone answers nothing at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer: a thousand queues with sixteen blocked messages each.
pub(super) const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// What is read of an answer at once; a longer one waits for its turn.
const SHORT_MAX: usize = 64 * 1024;
/// Long answers read at the same time, so that their texts together stay bounded.
const LONG_MAX: usize = 4;

/// The client.
#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    long: Arc<Semaphore>,
}

impl Http {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            // The pod's address comes from the API; where an answer points to is nobody's business.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            // Kept connections to hundreds of pods would be most of the operator's memory.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { client, long: Arc::new(Semaphore::new(LONG_MAX)) })
    }

    async fn get(&self, sidecar: SocketAddr) -> Result<Vec<u8>, String> {
        let url = format!("http://{sidecar}{}", admin::STATUS);
        let mut body = Vec::new();
        let short = async {
            let mut response = self.client.get(url).send().await.map_err(|error| in_words(&error))?;
            if !response.status().is_success() {
                return Err(format!("it answered {}", response.status().as_u16()));
            }
            let ended = read(&mut response, &mut body, SHORT_MAX).await?;
            Ok((!ended).then_some(response))
        };
        if let Some(mut rest) = in_time(short).await? {
            // Never closed. What others take is not this pod's time.
            let _permit = self.long.acquire().await;
            if !in_time(read(&mut rest, &mut body, ANSWER_MAX)).await? {
                return Err(format!("its answer is longer than {ANSWER_MAX} bytes"));
            }
        }
        Ok(body)
    }
}

impl Fetch for Http {
    fn fetch(&self, sidecar: SocketAddr) -> BoxFuture<'_, Result<Vec<u8>, String>> {
        self.get(sidecar).boxed()
    }
}

/// Reads on until the answer ends, or is as long as `most` or longer by a piece of it; answers whether it has ended.
async fn read(response: &mut Response, body: &mut Vec<u8>, most: usize) -> Result<bool, String> {
    while body.len() < most {
        match response.chunk().await.map_err(|error| in_words(&error))? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(true),
        }
    }
    Ok(false)
}

async fn in_time<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(TIMEOUT, future).await.unwrap_or_else(|_| Err("it did not answer in time".to_owned()))
}

fn in_words(error: &reqwest::Error) -> String {
    let words = match () {
        () if error.is_timeout() => "it did not answer in time",
        () if error.is_connect() => "no connection",
        () => "the connection broke",
    };
    words.to_owned()
}
