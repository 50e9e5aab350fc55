//! Bounds on what is kept of an answer: a pod's sidecar can be replaced by anything that its user runs.

use lockstep_contract::{ConditionType, STATUS_BLOCKED_MAX, STATUS_QUEUES_MAX, Status};

/// The longest text that is kept, in bytes: a sidecar's sentences are shorter, and so are the names of queues.
const TEXT_MAX: usize = 1024;
/// Objects and lists in an answer at most: all queues with all their blocked messages come to less than half.
const NESTED_MAX: usize = 2 * STATUS_QUEUES_MAX * (STATUS_BLOCKED_MAX + 2);
/// Members and items in an answer at most, a dozen for each object.
const MEMBERS_MAX: usize = 12 * NESTED_MAX;

/// Whether a text would be many times its length in memory once it is read, as a list of millions of empty objects is.
/// What stands within strings is counted too, and is too little to matter.
pub(super) fn is_too_rich(text: &[u8]) -> bool {
    let count = |wanted: fn(u8) -> bool| text.iter().filter(|byte| wanted(**byte)).count();
    count(|byte| matches!(byte, b'{' | b'[')) > NESTED_MAX || count(|byte| byte == b',') > MEMBERS_MAX
}

/// The answer, no longer than a sidecar's, and without what nobody here reads.
pub(super) fn bounded(mut status: Status) -> Status {
    status.gaps = Vec::new();
    status.config.warnings = Vec::new();
    status.queues.truncate(STATUS_QUEUES_MAX);
    status.queues.shrink_to_fit();
    status.conditions.truncate(ConditionType::ALL.len());
    status.conditions.shrink_to_fit();
    let texts = [
        &mut status.version,
        &mut status.group,
        &mut status.client_id,
        &mut status.config.cold_hash,
        &mut status.config.hot_hash,
        &mut status.application.message,
        &mut status.source.reason,
        &mut status.source.message,
        &mut status.source.remedy,
    ];
    texts.into_iter().chain(&mut status.config.error).for_each(shorten);
    status.conditions.iter_mut().for_each(|condition| shorten(&mut condition.message));
    for queue in &mut status.queues {
        shorten(&mut queue.name);
        queue.blocked.truncate(STATUS_BLOCKED_MAX);
        queue.blocked.shrink_to_fit();
        for message in &mut queue.blocked {
            shorten(&mut message.message_id);
            shorten(&mut message.last_error);
        }
    }
    status
}

fn shorten(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
    text.shrink_to_fit();
}
