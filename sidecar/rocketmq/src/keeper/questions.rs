//! What brokers tell and ask us on our connections.

use std::{collections::BTreeMap, sync::Arc};

use lockstep_model::Position;
use tracing::{info, warn};

use super::{driver::Driver, jobs};
use crate::{
    protocol::{
        BrokerRequest, ConsumerStatus, MessageQueue, OffsetReset, QueueStatus, RunningInfo,
        RunningInfoRequest,
    },
    remoting::{Event, Responder},
};

impl Driver {
    pub(super) fn happened(&mut self, event: Event) {
        let now = self.shared.now();
        match event {
            // Each session opens its own connection and waits for it.
            Event::Up { .. } => {}
            Event::Down { address, reason, .. } => self.link_lost(now, &address, &reason),
            Event::Request { address, request, responder } => self.asked(&address, request, responder),
        }
    }

    fn asked(&mut self, address: &str, request: BrokerRequest, responder: Responder) {
        let ours = |group: &str| *group == *self.shared.group;
        match request {
            BrokerRequest::MembersChanged { group } if ours(&group) => self.membership.rebalance_soon(),
            BrokerRequest::ResetOffsets(reset) if ours(&reset.group) => self.reset(reset),
            BrokerRequest::QueryStatus { group, topic } if ours(&group) => {
                let owned = self.shared.leases.all().into_iter().filter(|(queue, _)| *queue.topic == *topic);
                let offsets = owned.map(|(queue, cursor)| (queue, signed(cursor))).collect();
                responder.answer(ConsumerStatus { offsets }.body());
            }
            BrokerRequest::QueryRunningInfo(request) if ours(&request.group) => {
                self.describe(&request, responder)
            }
            BrokerRequest::ConsumeDirectly(message) => {
                warn!(%address, message_id = message.message_id, "refused to consume a message out of its order");
                responder.refuse("consuming a message directly would break the order of its queue");
            }
            BrokerRequest::MembersChanged { group } | BrokerRequest::QueryStatus { group, .. } => {
                responder.refuse(&format!("group {group} is not served here"));
            }
            BrokerRequest::ResetOffsets(OffsetReset { group, .. })
            | BrokerRequest::QueryRunningInfo(RunningInfoRequest { group, .. }) => {
                responder.refuse(&format!("group {group} is not served here"));
            }
        }
    }

    /// An operator set offsets the old way: through the members. Only owned queues are ours to move.
    fn reset(&mut self, reset: OffsetReset) {
        info!(topic = reset.topic, queues = reset.offsets.len(), "an operator resets the group's offsets");
        let owned: BTreeMap<MessageQueue, _> =
            self.machine.owned().map(|(queue, epoch)| (queue.clone(), epoch)).collect();
        for (queue, offset) in reset.offsets {
            let (Some(epoch), Ok(to)) = (owned.get(&queue), u64::try_from(offset).map(Position)) else {
                continue;
            };
            let id = self.shared.leases.id(&queue);
            let Some(deadline) = self.shared.leases.deadline(id, *epoch) else { continue };
            // First, so that no commit of an older position follows ours.
            self.shared.leases.moved(id, *epoch, to, true);
            self.start(jobs::reset(Arc::clone(&self.shared), queue, (id, *epoch), to, deadline));
        }
    }

    fn describe(&self, request: &RunningInfoRequest, responder: Responder) {
        let shared = &self.shared;
        if request.client_id != shared.config.client_id {
            return responder.refuse("this is another client");
        }
        let properties = [
            ("PROP_NAMESERVER_ADDR", shared.config.name_servers.join(";")),
            ("PROP_CONSUME_TYPE", "CONSUME_PASSIVELY".to_owned()),
            ("PROP_CONSUMEORDERLY", "true".to_owned()),
            ("PROP_THREADPOOL_CORE_SIZE", "1".to_owned()),
            ("PROP_CLIENT_VERSION", "V5_3_0".to_owned()),
            ("PROP_CONSUMER_START_TIMESTAMP", shared.started_ms.to_string()),
        ];
        let status =
            |cursor| QueueStatus { commit_offset: signed(cursor), locked: true, ..QueueStatus::default() };
        let info = RunningInfo {
            properties: properties.into(),
            subscriptions: shared.subscriptions.clone(),
            queues: shared.leases.all().into_iter().map(|(queue, cursor)| (queue, status(cursor))).collect(),
        };
        responder.answer(info.body());
    }
}

fn signed(position: Position) -> i64 {
    i64::try_from(position.0).unwrap_or(i64::MAX)
}
