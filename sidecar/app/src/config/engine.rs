use std::time::Duration;

use lockstep_contract::{
    BackoffPolicy, ConsumerGroup, OnDataLoss, OrderingMode, RunState, StatusCodes, Undecodable, WhenExhausted,
};
use lockstep_core as core;
use lockstep_model::{Capabilities, Moment};

/// Deliveries received and not yet attempted: enough to keep 64 queues busy between two pulls of 32 each.
pub const BUFFER_COUNT: u32 = 2_048;
/// Their bytes: what a sidecar may hold beside a small application.
pub const BUFFER_BYTES: usize = 16 << 20;
/// How far finished deliveries may run ahead of a queue's cursor: the bound of duplicates after a crash in `PerKey`.
pub const SPAN: u32 = 4_096;
/// Dead letters and skips in a row that make a storm: a bad deploy fails every message, chance fails one or two.
pub const STORM: u32 = 5;
/// A message that heads its lane for so long is worth a person's look, whatever the cause.
const BLOCKED_AGE: Duration = Duration::from_secs(300);

/// The engine's settings.
pub fn engine_config(
    group: &ConsumerGroup,
    capabilities: Capabilities,
    seed: u64,
    quiet_until: Option<Moment>,
) -> core::Config {
    let spec = &group.spec;
    core::Config {
        mode: match spec.ordering.mode {
            OrderingMode::Unordered => core::OrderingMode::Unordered,
            OrderingMode::PerKey => core::OrderingMode::PerKey,
            OrderingMode::PerQueue => core::OrderingMode::PerQueue,
        },
        capabilities,
        seed,
        state: match spec.state {
            RunState::Running => core::RunState::Running,
            RunState::Paused => core::RunState::Paused,
        },
        max_in_flight: spec.delivery.max_in_flight.get().into(),
        timeout: spec.delivery.timeout,
        max_attempts: spec.retry.max_attempts,
        backoff: {
            let lockstep_contract::Backoff { policy, initial, max } = spec.retry.backoff;
            match policy {
                BackoffPolicy::Exponential => core::Backoff::Exponential { initial, max },
                BackoffPolicy::Constant => core::Backoff::Constant { initial, max },
            }
        },
        retry_after_max: spec.retry.retry_after_max,
        when_exhausted: match group.when_exhausted() {
            WhenExhausted::Block => core::WhenExhausted::Block,
            WhenExhausted::DeadLetter => core::WhenExhausted::DeadLetter,
            WhenExhausted::Skip => core::WhenExhausted::Skip,
        },
        undecodable: match spec.retry.undecodable {
            Undecodable::Block => core::UndecodablePolicy::Block,
            Undecodable::DeadLetter => core::UndecodablePolicy::DeadLetter,
        },
        on_data_loss: match spec.retry.on_data_loss {
            OnDataLoss::Continue => core::DataLossPolicy::Continue,
            OnDataLoss::Stop => core::DataLossPolicy::Stop,
        },
        status_codes: status_codes(&spec.delivery.status_codes),
        hand_over: spec.delivery.health_check.hand_over,
        buffer_count: BUFFER_COUNT,
        buffer_bytes: BUFFER_BYTES,
        span: SPAN,
        storm: STORM,
        quiet_until,
        blocked_age: BLOCKED_AGE,
    }
}

fn status_codes(codes: &StatusCodes) -> core::StatusCodes {
    let StatusCodes { done, again, never, misconfigured } = codes.clone();
    core::StatusCodes { done, again, never, misconfigured }
}
