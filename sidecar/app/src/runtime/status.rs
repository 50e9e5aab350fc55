//! What the loop knows, for `/status` and `/metrics`. It holds ids and numbers, never a part of a message or of an
//! application's answer.

#[cfg(test)]
mod tests;

use std::time::Duration;

use lockstep_broker::{Broker, Problem};
use lockstep_contract::{
    ApplicationStatus, BlockedMessage, ConditionStatus, ConditionType, Health, LimitStatus, Phase,
    PodCondition, QueueState, QueueStatus, Reason, STATUS_BLOCKED_MAX, STATUS_FORMAT, STATUS_QUEUES_MAX,
    SourceStatus, Status, Totals,
};
use lockstep_core::{Head, Hold, QueueSnapshot, RunState};
use lockstep_model::{Moment, QueueId};

use super::{queues::Queue, shell::Shell, translate::Payload};
use crate::{deliver::Deliver, state::unix_ms};

impl<B: Broker, D: Deliver> Shell<B, D> {
    /// One look at everything. Who the sidecar is and what it is configured with is filled in by who asked.
    pub(super) fn status(&self) -> Status {
        self.refresh_metrics();
        let mut queues: Vec<_> = self.engine.queues().filter_map(|view| self.queue_status(&view)).collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let figures = self.engine.snapshot();
        let mut status = Status {
            format: STATUS_FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: self.phase(),
            ready: self.is_ready(),
            application: self.application(),
            source: self.source_status(),
            totals: totals(
                self.source.queues_total,
                self.queues.owned().filter(|(_, queue)| !queue.extra).count(),
                &queues,
            ),
            limit: LimitStatus {
                in_flight: bounded(figures.in_flight),
                current: figures.limit,
                max: self.config.max_in_flight,
                paused_seconds: figures.paused_until.map(|until| until.since(self.clock.now()).as_secs()),
            },
            breaker: self.facts.breaker.clone(),
            storm: self.facts.storm.clone(),
            counters: self.facts.counters.clone(),
            gaps: self.facts.gaps.iter().cloned().collect(),
            ..Status::default()
        };
        let notice = self.source.problem.as_ref().filter(|problem| !problem.is_failure());
        status.conditions = conditions(&status, &queues, notice);
        queues.truncate(STATUS_QUEUES_MAX);
        status.queues = queues;
        status
    }

    /// Brings the metrics that are not counted as they happen up to date.
    fn refresh_metrics(&self) {
        let figures = self.engine.snapshot();
        self.metrics.in_flight.set(number(figures.in_flight));
        self.metrics.limit.set(i64::from(figures.limit));
        self.metrics.buffered.set(i64::try_from(figures.buffered).unwrap_or(i64::MAX));
        self.metrics.buffered_bytes.set(number(figures.buffered_bytes));
        self.metrics.draining.set(i64::from(self.draining || self.hold.is_held()));
        for view in self.engine.queues() {
            let id = view.queue;
            let Some(entry) = self.queues.get(id) else { continue };
            entry.metrics.span.set(number(view.ahead));
            entry.metrics.blocked.set(number(view.blocked_count));
            entry.metrics.lag.set(entry.lag().map_or(0, |lag| i64::try_from(lag).unwrap_or(i64::MAX)));
            entry.metrics.oldest_age.set(self.oldest_age(id).unwrap_or_default().as_secs_f64());
        }
    }

    fn phase(&self) -> Phase {
        if self.draining {
            Phase::Draining
        } else if self.config.state == RunState::Paused {
            Phase::Paused
        } else if self.hold.is_held() {
            Phase::Held
        } else if !self.facts.was_healthy || !self.facts.was_connected {
            Phase::Starting
        } else if self.engine.is_handed_over() {
            Phase::HandedOver
        } else {
            Phase::Running
        }
    }

    fn application(&self) -> ApplicationStatus {
        let problem = || self.facts.problem.as_deref().unwrap_or_default().to_owned();
        let (health, reason, message) = match self.healthy {
            None => (Health::Unknown, Reason::NeverHealthy, "the application was not asked yet".to_owned()),
            Some(false) if self.facts.was_healthy => {
                (Health::Unhealthy, Reason::HealthCheckFailed, problem())
            }
            Some(false) => (Health::Unhealthy, Reason::NeverHealthy, problem()),
            Some(true) if self.facts.breaker.open || self.is_only_refused() => {
                (Health::Healthy, Reason::CallbackMisconfigured, self.refusal())
            }
            Some(true) if self.facts.storm.open => {
                let message = "message after message would be given up; nothing more is until one succeeds";
                (Health::Healthy, Reason::DeadLetterStorm, message.to_owned())
            }
            Some(true) => (Health::Healthy, Reason::Healthy, "the health check succeeds".to_owned()),
        };
        ApplicationStatus { health, reason, message, since_ms: self.facts.health_since_ms }
    }

    /// What the application answers, and what to check.
    fn refusal(&self) -> String {
        let status = self
            .facts
            .refused
            .and_then(|refusal| refusal.status)
            .map(|status| format!("{status} "))
            .unwrap_or_default();
        let what = if self.facts.was_done {
            format!("the application answers {status}to every message, as if the endpoint were wrong")
        } else {
            format!("the application answered {status}and has taken no message since the pod started")
        };
        format!(
            "{what}; check delivery.path, delivery.port and the credentials in delivery.headersSecretRef, or list the \
             status in delivery.statusCodes if it means something else"
        )
    }

    fn source_status(&self) -> SourceStatus {
        let problem = self.source.problem.as_ref().filter(|problem| problem.is_failure());
        SourceStatus {
            connected: self.source.connected,
            reason: problem.map(|problem| problem.reason.to_owned()).unwrap_or_default(),
            message: problem.map(|problem| problem.message.clone()).unwrap_or_default(),
            remedy: problem.map(|problem| problem.remedy.clone()).unwrap_or_default(),
            since_ms: self.facts.source_since_ms,
        }
    }

    fn queue_status(&self, view: &QueueSnapshot) -> Option<QueueStatus> {
        let entry = self.queues.get(view.queue)?;
        let now = self.clock.now();
        let blocked = self.blocked(view.queue).take(STATUS_BLOCKED_MAX);
        Some(QueueStatus {
            name: entry.name.to_string(),
            extra: entry.extra,
            epoch: view.epoch.0,
            state: match (view.doubtful, view.stopped, view.releasing) {
                (true, _, _) => QueueState::Doubtful,
                (false, true, _) => QueueState::Stopped,
                (false, false, true) => QueueState::Releasing,
                (false, false, false) => QueueState::Owned,
            },
            cursor: view.cursor.0,
            committed: view.committed.0,
            lag: entry.lag(),
            oldest_age_seconds: self.oldest_age(view.queue).map(|age| age.as_secs()),
            buffered: view.buffered,
            in_flight: view.in_flight,
            blocked_lanes: bounded(view.blocked_count),
            blocked: blocked.map(|(hold, head)| blocked_message(hold, &head, entry, now)).collect(),
        })
    }

    fn blocked(&self, id: QueueId) -> impl Iterator<Item = (Hold, Head<'_, Payload>)> {
        self.engine.heads(id).filter_map(|head| Some((head.hold?, head)))
    }

    fn oldest_age(&self, id: QueueId) -> Option<Duration> {
        let stored = self.engine.oldest(id)?.message.stored_ms?;
        Some(Duration::from_millis(unix_ms().saturating_sub(stored).try_into().unwrap_or(0)))
    }
}

fn blocked_message(hold: Hold, head: &Head<'_, Payload>, entry: &Queue, now: Moment) -> BlockedMessage {
    BlockedMessage {
        message_id: head.payload.message.id.to_string(),
        position: head.position.0,
        attempts: head.attempts,
        age_seconds: now.since(head.since).as_secs(),
        hold: reason(hold),
        last_error: entry.error(head.position).map(|error| error.summary().to_owned()).unwrap_or_default(),
    }
}

fn reason(hold: Hold) -> Reason {
    match hold {
        Hold::Exhausted => Reason::AttemptsExhausted,
        Hold::Undecodable => Reason::Undecodable,
        Hold::Rejected => Reason::MessageRejected,
        Hold::DeadLetterFailed => Reason::DeadLetterFailed,
        Hold::DeadLetterStorm => Reason::DeadLetterStorm,
        Hold::Age => Reason::HeadTooOld,
    }
}

fn totals(known: u32, owned: usize, queues: &[QueueStatus]) -> Totals {
    Totals {
        known: (known > 0).then_some(known),
        owned: bounded(owned),
        blocked: bounded(queues.iter().filter(|queue| queue.blocked_lanes > 0).count()),
        backlog: queues.iter().filter_map(|queue| queue.lag).reduce(u64::saturating_add),
        oldest_age_seconds: queues.iter().filter_map(|queue| queue.oldest_age_seconds).max(),
    }
}

/// The conditions as far as one pod knows them. `notice`: what is to be known of its queues although it consumes.
fn conditions(status: &Status, queues: &[QueueStatus], notice: Option<&Problem>) -> Vec<PodCondition> {
    let of = |kind, holds: bool, reason, message: &str| PodCondition {
        kind,
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        reason,
        message: message.to_owned(),
    };
    let paused = status.phase == Phase::Paused;
    let ready = match status.phase {
        Phase::Draining => Reason::Draining,
        Phase::Paused => Reason::PausedBySpec,
        Phase::Starting | Phase::Running | Phase::HandedOver | Phase::Held | Phase::Unknown
            if status.ready =>
        {
            Reason::Delivering
        }
        Phase::Starting | Phase::Running | Phase::HandedOver | Phase::Held | Phase::Unknown => {
            Reason::Starting
        }
    };
    let source = &status.source;
    let connected = match (source.connected, paused || status.phase == Phase::HandedOver, status.phase) {
        (true, _, _) => Reason::Connected,
        (false, true, _) => Reason::NotConnecting,
        (false, false, Phase::Starting) => Reason::Connecting,
        (false, false, _) => Reason::Disconnected,
    };
    let application = &status.application;
    let healthy = application.reason == Reason::Healthy;
    let first = queues.iter().find_map(|queue| Some((queue, queue.blocked.first()?)));
    let blocked = match first {
        Some((queue, message)) => {
            let BlockedMessage { message_id, attempts, age_seconds, last_error, .. } = message;
            let text = format!(
                "message {message_id} of queue {} waits for {age_seconds} s after {attempts} attempts: {last_error}",
                queue.name
            );
            of(ConditionType::Blocked, true, message.hold, &text)
        }
        None if queues.iter().any(|queue| queue.state == QueueState::Stopped) => {
            of(ConditionType::Blocked, true, Reason::DataLoss, "a queue stopped where messages were lost")
        }
        None => of(ConditionType::Blocked, false, Reason::NotBlocked, ""),
    };
    let doubtful = queues.iter().any(|queue| queue.state == QueueState::Doubtful);
    let (owned, why) = match (doubtful, notice) {
        (true, _) => (Reason::LeaseDoubtful, String::new()),
        (false, Some(problem)) if problem.reason == Problem::OWNERSHIP_UNVERIFIED => {
            (Reason::OwnershipUnverified, problem.to_string())
        }
        (false, Some(problem)) => (Reason::MoreReplicasThanQueues, problem.message.clone()),
        (false, None) => (Reason::Owned, String::new()),
    };
    vec![
        of(ConditionType::Ready, status.ready, ready, ""),
        of(ConditionType::SourceConnected, source.connected, connected, &source.message),
        of(ConditionType::ApplicationHealthy, healthy, application.reason, &application.message),
        of(ConditionType::QueuesOwned, !doubtful, owned, &why),
        blocked,
        match paused {
            true => of(ConditionType::Paused, true, Reason::PausedBySpec, ""),
            false => of(ConditionType::Paused, false, Reason::NotPaused, ""),
        },
    ]
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn bounded(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
