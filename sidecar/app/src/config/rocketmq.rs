use lockstep_contract::{ConsumerGroup, KeyFrom, RocketMq, StartPositionType, names::files};
use lockstep_model::Text;
use lockstep_rocketmq::{
    Config, Filter, KeySource, StartPosition, Subscription,
    codec::BodyLimits,
    remoting::{CredentialsSource, TlsFiles},
};

use super::Member;
use crate::state::State;

/// The adapter's settings. Secrets stay in their files: the adapter reads them at each connect.
pub fn rocketmq_config(group: &ConsumerGroup, source: &RocketMq, member: &Member<'_>) -> Config {
    let spec = &group.spec;
    let Member { secrets, state, .. } = *member;
    Config {
        name_servers: source.name_servers.clone(),
        group: source.consumer_group.clone(),
        client_id: member.client_id.to_owned(),
        subscriptions: source.subscriptions.iter().map(subscription).collect(),
        start: start(group, source, state),
        lock_lifetime: source.lock_lifetime,
        address_overrides: source.address_overrides.clone(),
        credentials: match spec.source.credentials_secret_ref {
            Some(_) => CredentialsSource::Folder(secrets.join(files::CREDENTIALS)),
            None => CredentialsSource::None,
        },
        tls: spec.source.tls.as_ref().map(|tls| {
            let client = secrets.join(files::TLS_CLIENT);
            let identity = || (client.join(files::TLS_CERT_FILE), client.join(files::TLS_KEY_FILE));
            TlsFiles {
                ca: tls.ca_secret_ref.as_ref().map(|_| secrets.join(files::TLS_CA).join(files::CA_FILE)),
                identity: tls.client_cert_secret_ref.as_ref().map(|_| identity()),
            }
        }),
        key: match (spec.ordering.key.from, &spec.ordering.key.header) {
            (KeyFrom::Header, Some(header)) => KeySource::Property(Text::from(header.as_str())),
            (KeyFrom::Header, None) | (KeyFrom::Native, _) => KeySource::Native,
        },
        epoch_floor: state.last_epoch(),
        clock: member.clock,
        limits: BodyLimits::default(),
    }
}

fn subscription(subscription: &lockstep_contract::Subscription) -> Subscription {
    let filter = match (&subscription.tags, &subscription.sql) {
        (Some(tags), _) => Filter::Tags(tags.clone()),
        (None, Some(sql)) => Filter::Sql(sql.clone()),
        (None, None) => Filter::All,
    };
    Subscription { topic: subscription.topic.clone(), filter }
}

/// `Latest` is the resource's creation, outside a cluster the first start: all members agree on it, and nothing that
/// was published since is skipped.
fn start(group: &ConsumerGroup, source: &RocketMq, state: &State) -> StartPosition {
    let position = &source.start_position;
    let given = position.time.map(|time| time.as_millisecond());
    let created = group.metadata.creation_timestamp.as_deref();
    let created =
        created.and_then(|time| time.parse::<jiff::Timestamp>().ok()).map(|time| time.as_millisecond());
    match position.kind {
        StartPositionType::Earliest => StartPosition::Earliest,
        StartPositionType::Timestamp => StartPosition::At(given.unwrap_or_else(|| state.first_start_ms())),
        StartPositionType::Latest => StartPosition::At(created.unwrap_or_else(|| state.first_start_ms())),
    }
}
