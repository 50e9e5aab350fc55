//! Delivery over HTTP/1.1 with keep-alive.

use std::{
    error::Error as _,
    fmt::Write as _,
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use lockstep_broker::Clock;
use lockstep_core::{AttemptResult, TransportFailure};
use lockstep_model::Moment;
use reqwest::{Method, Request, Response};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    AttemptRequest, Attempted, Deliver, Detail, Settings, SettingsError, answer,
    request::{self, Times},
    settings::Prepared,
    slot::{Slot, Slots},
};

/// Bodies larger than this may not fit the socket's buffers: their end is awaited when an application answers early.
const EARLY_BYTES: usize = 64 * 1024;

/// The body of a failure is for logs only: where it does not end, the status counts after so long.
const REASON_WAIT: Duration = Duration::from_secs(1);

/// An idle connection is not used again after so long: servers that close theirs do it after 5 s and more, and the
/// request must not meet the end half-way.
const IDLE_REUSE: Duration = Duration::from_millis(3500);

/// Delivers over HTTP.
#[derive(Debug)]
pub struct Http {
    clock: Clock,
    prepared: RwLock<Arc<Prepared>>,
    slots: Slots,
}

/// One attempt under way.
struct Exchange<'a> {
    http: &'a Http,
    prepared: &'a Prepared,
    request: &'a AttemptRequest,
    times: Times,
    deadline: Instant,
    /// The status of a success whose body is not read to its end yet.
    succeeding: Option<u16>,
    /// Resolves when the request's body is sent or given up; set for large bodies.
    sent: Option<oneshot::Receiver<()>>,
}

/// A body that tells when the connection let go of it.
struct Told {
    body: Bytes,
    _gone: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Http {
    /// Prepares delivery. Connects to nothing.
    ///
    /// # Errors
    /// When the settings can't be used.
    pub fn new(settings: &Settings, clock: Clock) -> Result<Self, SettingsError> {
        Self::with_idle_reuse(settings, clock, IDLE_REUSE)
    }

    /// As [`Http::new`], with another bound of a connection's idle time.
    pub(super) fn with_idle_reuse(
        settings: &Settings,
        clock: Clock,
        idle: Duration,
    ) -> Result<Self, SettingsError> {
        let prepared = RwLock::new(Arc::new(Prepared::new(settings)?));
        let slots = Slots::new(clock, idle);
        let probe = slots.take(Duration::from_secs(30));
        drop(probe.map_err(|error| SettingsError::Client { why: error.to_string() })?);
        Ok(Self { clock, prepared, slots })
    }

    /// Replaces the settings for attempts that begin from now on.
    ///
    /// # Errors
    /// When they can't be used; the settings before stay in force.
    pub fn set_settings(&self, settings: &Settings) -> Result<(), SettingsError> {
        let prepared = Arc::new(Prepared::new(settings)?);
        *self.prepared.write().unwrap_or_else(PoisonError::into_inner) = prepared;
        Ok(())
    }

    fn times(&self, request: &AttemptRequest) -> Times {
        let now_ms = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let until = |deadline: Moment| now_ms.saturating_add(millis(deadline.since(self.clock.now())));
        Times {
            now_ms,
            deadline_ms: now_ms.saturating_add(millis(request.timeout)),
            lease_deadline_ms: request.lease_deadline.map(until),
        }
    }
}

impl Deliver for Http {
    async fn attempt(&self, request: AttemptRequest) -> Attempted {
        let deadline = Instant::now() + request.timeout;
        let prepared = Arc::clone(&self.prepared.read().unwrap_or_else(PoisonError::into_inner));
        let mut held = match self.slots.take(request.timeout) {
            Ok(held) => held,
            // Never seen; the application surely got nothing.
            Err(error) => return failed(TransportFailure::Unreachable, &error),
        };
        let slot = held.slot();
        slot.probe.arm(request.not_after);
        let probe = Arc::clone(&slot.probe);
        let times = self.times(&request);
        let mut exchange = Exchange {
            http: self,
            prepared: &prepared,
            request: &request,
            times,
            deadline,
            succeeding: None,
            sent: None,
        };
        let attempted = {
            let mut run = pin!(exchange.run(slot));
            match timeout_at(deadline, run.as_mut()).await {
                Ok(attempted) => Some(attempted),
                // Nothing was sent, unless the connection is the one for a repeat.
                Err(_) if probe.connecting() && !probe.repeated() => {
                    return told(TransportFailure::Unreachable, "no connection within the timeout");
                }
                Err(_) if probe.connecting() => {
                    return told(
                        TransportFailure::Broken,
                        "the connection was reset and could not be made again",
                    );
                }
                Err(_) => None,
            }
        };
        let Some(attempted) = attempted else {
            let text = match exchange.succeeding {
                None => "no complete answer within the timeout".to_owned(),
                Some(status) => format!(
                    "answered {status}, but the body did not end within the timeout; send its Content-Length, or no body"
                ),
            };
            return told(TransportFailure::TimedOut, &text);
        };
        // An application that answered before it read the request keeps its slot until it did, so that connections
        // which nobody reads can't pile up; the answer counts in any case.
        if let Some(sent) = exchange.sent.take() {
            let _ = timeout_at(deadline, sent).await;
        }
        attempted
    }
}

impl Exchange<'_> {
    async fn run(&mut self, slot: &mut Slot) -> Attempted {
        let mut response = match self.send(slot).await {
            Ok(response) => response,
            Err(attempted) => return attempted,
        };
        if !response.status().is_success() {
            // Failures are rare: their state shall not make the future of every attempt larger.
            return Box::pin(self.refused(response)).await;
        }
        let facts = answer::facts(response.status().as_u16(), response.headers());
        self.succeeding = Some(facts.status);
        let length = match read_body(&mut response, None).await {
            Ok(length) => length,
            Err(error) => return failed(TransportFailure::Broken, &error),
        };
        drop(response);
        if length > 0 {
            // The connection goes back to its pool in a task of its own: it comes before the next attempt looks there.
            tokio::task::yield_now().await;
        }
        Attempted { result: AttemptResult::Answered(facts), detail: None }
    }

    /// Sends the request, a second time where a reused connection was reset; answers with the head that came.
    async fn send(&mut self, slot: &mut Slot) -> Result<Response, Attempted> {
        let before = slot.probe.connects();
        if self.too_late() {
            return Err(cancelled());
        }
        let first = match slot.client.execute(self.build()).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if slot.probe.expired() {
            return Err(cancelled());
        }
        // A connection that was made and lost before the request went out counts as reset.
        if first.is_connect() && !slot.probe.connected() {
            return Err(failed(TransportFailure::Unreachable, &first));
        }
        let reused = slot.probe.connects() == before;
        if !reused || is_answer(&first) {
            return Err(failed(TransportFailure::Broken, &first));
        }
        // The application closed an idle connection just when it was used again: that is nobody's fault.
        if slot.renew().is_err() {
            return Err(failed(TransportFailure::Broken, &first));
        }
        if self.too_late() {
            return Err(cancelled());
        }
        slot.probe.repeat();
        match slot.client.execute(self.build()).await {
            Ok(response) => Ok(response),
            Err(_) if slot.probe.expired() => Err(cancelled()),
            Err(second) if second.is_connect() => Err(failed(TransportFailure::Broken, &first)),
            Err(second) => Err(failed(TransportFailure::Broken, &second)),
        }
    }

    fn too_late(&self) -> bool {
        self.request.not_after.is_some_and(|not_after| self.http.clock.now() > not_after)
    }

    fn build(&mut self) -> Request {
        let rendered = request::render(self.prepared, self.request, self.times);
        let mut request = Request::new(Method::POST, self.prepared.url.clone());
        *request.headers_mut() = rendered.headers;
        let mut body = rendered.body;
        if body.len() > EARLY_BYTES {
            let (gone, sent) = oneshot::channel();
            self.sent = Some(sent);
            body = Bytes::from_owner(Told { body, _gone: gone });
        }
        *request.body_mut() = Some(body.into());
        request
    }

    async fn refused(&self, mut response: Response) -> Attempted {
        let facts = answer::facts(response.status().as_u16(), response.headers());
        let now = Instant::now();
        let patience = REASON_WAIT.min(self.deadline.saturating_duration_since(now) / 2);
        let mut reason = Vec::new();
        match timeout_at(now + patience, read_body(&mut response, Some(&mut reason))).await {
            // The connection of a body that does not end is dropped with the response.
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => return failed(TransportFailure::Broken, &error),
        }
        drop(response);
        tokio::task::yield_now().await;
        let detail = Some(Detail::answered(facts.status, &reason));
        Attempted { result: AttemptResult::Answered(facts), detail }
    }
}

/// Reads a body to its end or to the limit, keeps its beginning where wanted, and answers how much it read.
async fn read_body(response: &mut Response, mut kept: Option<&mut Vec<u8>>) -> Result<usize, reqwest::Error> {
    let mut length = 0_usize;
    while length < answer::BODY_LIMIT {
        let Some(chunk) = response.chunk().await? else { break };
        length += chunk.len();
        if let Some(kept) = kept.as_deref_mut() {
            let room = answer::DETAIL_LIMIT.saturating_sub(kept.len());
            kept.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        }
    }
    Ok(length)
}

/// Whether bytes of an answer caused the error: it is garbage, and the application has seen the request.
fn is_answer(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn cancelled() -> Attempted {
    told(TransportFailure::Cancelled, "not sent: the lease allows no request any more")
}

fn told(failure: TransportFailure, text: &str) -> Attempted {
    Attempted { result: AttemptResult::Failed(failure), detail: Some(Detail::failed(text)) }
}

/// The chain of causes without the URL, which says nothing new.
fn failed(failure: TransportFailure, error: &reqwest::Error) -> Attempted {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String can't fail.
        let _ = write!(text, "{}{error}", if text.is_empty() { "" } else { ": " });
        cause = error.source();
    }
    if text.is_empty() {
        text.push_str("the request failed");
    }
    told(failure, &text)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
