//! The sources of this version, each with its adapter.

use lockstep_broker::Finding;
use lockstep_contract::{ActiveMq, ConsumerGroup, RabbitMq, RocketMq, SourceKind};

use super::Failure;
use crate::{
    config::{Member, activemq_config, rabbitmq_config, rocketmq_config},
    deliver::SourceInfo,
    service::{self, Plan, StartError},
};

/// A source that this version has an adapter for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::enum_variant_names, reason = "the products are called so")]
pub(super) enum Source<'a> {
    RocketMq(&'a RocketMq),
    RabbitMq(&'a RabbitMq),
    ActiveMq(&'a ActiveMq),
}

impl<'a> Source<'a> {
    pub(super) fn of(group: &'a ConsumerGroup) -> Result<Self, Failure> {
        match group.spec.source.kind() {
            Some(SourceKind::RocketMq(source)) => Ok(Self::RocketMq(source)),
            Some(SourceKind::RabbitMq(source)) => Ok(Self::RabbitMq(source)),
            Some(SourceKind::ActiveMq(source)) => Ok(Self::ActiveMq(source)),
            None => {
                Err(Failure::usage("spec.source: no source is given; add rocketmq, rabbitmq or activemq"))
            }
        }
    }

    /// How it is named to the application.
    pub(super) fn info(self) -> SourceInfo {
        match self {
            Self::RocketMq(source) => SourceInfo::rocketmq(&source.consumer_group),
            Self::RabbitMq(source) => SourceInfo::rabbitmq(&source.vhost),
            Self::ActiveMq(_) => SourceInfo::activemq(),
        }
    }

    /// Delivers from it until a drain is over.
    pub(super) async fn serve(self, group: &ConsumerGroup, plan: Plan) -> Result<(), StartError> {
        let member = Member {
            secrets: &plan.secrets,
            state: &plan.state,
            client_id: &plan.client_id,
            hint: plan.assignment.subscribe(),
            clock: plan.clock,
        };
        match self {
            Self::RocketMq(source) => {
                let config = rocketmq_config(group, source, &member);
                service::serve(lockstep_rocketmq::RocketMq::new(config), plan).await?;
            }
            Self::RabbitMq(source) => {
                let config = rabbitmq_config(group, source, &member);
                service::serve(lockstep_rabbitmq::RabbitMq::new(config), plan).await?;
            }
            Self::ActiveMq(source) => {
                let config = activemq_config(group, source, &member);
                service::serve(lockstep_activemq::ActiveMq::new(config), plan).await?;
            }
        }
        Ok(())
    }

    /// What is in its way. Asks without joining: another member would make the group's members give queues away.
    pub(super) async fn check(self, group: &ConsumerGroup, member: &Member<'_>) -> Vec<Finding> {
        match self {
            Self::RocketMq(source) => lockstep_rocketmq::check(&rocketmq_config(group, source, member)).await,
            Self::RabbitMq(source) => lockstep_rabbitmq::check(&rabbitmq_config(group, source, member)).await,
            Self::ActiveMq(source) => lockstep_activemq::check(&activemq_config(group, source, member)).await,
        }
    }
}
