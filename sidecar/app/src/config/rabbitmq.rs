use lockstep_contract::{
    ConsumerGroup, DeadLetterPolicy, KeyFrom, OrderingMode, QueueOwnership, RabbitMq, WhenExhausted,
    names::files,
};
use lockstep_model::Text;
use lockstep_rabbitmq::{
    Config, Credentials, CredentialsSource, DeadLetter, Endpoint, KeySource, Ordering, PrefetchPlan, TlsFiles,
};
use reqwest::Url;

use super::{BUFFER_COUNT, Member};

/// Bytes that bodies from the broker may hold together: those that the engine buffers, those that are being delivered,
/// and what is on its way.
const BYTES: usize = 64 << 20;
/// IANA's ports of AMQP, without and with TLS.
const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;

/// The adapter's settings. Secrets stay in their files: the adapter reads them at each connect.
pub fn rabbitmq_config(group: &ConsumerGroup, source: &RabbitMq, member: &Member<'_>) -> Config {
    let spec = &group.spec;
    let Member { secrets, state, client_id, clock, .. } = *member;
    let tls = spec.source.tls.as_ref();
    let client = secrets.join(files::TLS_CLIENT);
    let identity = || (client.join(files::TLS_CERT_FILE), client.join(files::TLS_KEY_FILE));
    let identity = tls.and_then(|tls| tls.client_cert_secret_ref.as_ref()).map(|_| identity());
    Config {
        nodes: source.urls.iter().filter_map(|url| node(url)).collect(),
        vhost: source.vhost.clone(),
        queues: source.queues.clone(),
        management: source.management.as_ref().map(|management| management.url.clone()),
        heartbeat: source.heartbeat,
        acknowledgement_timeout: source.acknowledgement_timeout,
        assumed: source.ownership == QueueOwnership::Assumed,
        ordering: match spec.ordering.mode {
            OrderingMode::Unordered => Ordering::Unordered,
            OrderingMode::PerKey => Ordering::PerKey,
            OrderingMode::PerQueue => Ordering::PerQueue,
        },
        prefetch: PrefetchPlan {
            buffer: BUFFER_COUNT,
            in_flight: spec.delivery.max_in_flight.get().into(),
            timeout: spec.delivery.timeout,
        },
        dead_letter: match (spec.dead_letter.policy, &spec.dead_letter.name) {
            (DeadLetterPolicy::Queue, Some(queue)) => DeadLetter::Queue(queue.clone()),
            (DeadLetterPolicy::Queue, None) | (DeadLetterPolicy::Broker, _) => DeadLetter::Broker,
        },
        block: group.when_exhausted() == WhenExhausted::Block,
        key: match (spec.ordering.key.from, &spec.ordering.key.header) {
            (KeyFrom::Header, Some(header)) => KeySource::Header(Text::from(header.as_str())),
            (KeyFrom::Header, None) | (KeyFrom::Native, _) => KeySource::RoutingKey,
        },
        credentials: match (&spec.source.credentials_secret_ref, &identity) {
            (Some(_), _) => CredentialsSource::Folder(secrets.join(files::CREDENTIALS)),
            (None, Some(_)) => CredentialsSource::Fixed(Credentials::External),
            (None, None) => CredentialsSource::Fixed(Credentials::default()),
        },
        tls: tls.map(|tls| TlsFiles {
            ca: tls.ca_secret_ref.as_ref().map(|_| secrets.join(files::TLS_CA).join(files::CA_FILE)),
            identity,
        }),
        group: group.metadata.name.clone(),
        name: format!("lockstep {} {client_id}", group.metadata.name),
        hint: member.hint.clone(),
        epoch_floor: state.last_epoch(),
        clock,
        bytes: BYTES,
    }
}

/// Where a URL leads. Those of a manifest are checked, so none is left out.
fn node(url: &str) -> Option<Endpoint> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let usual = if url.scheme() == "amqps" { TLS_PORT } else { PORT };
    let port = url.port().unwrap_or(usual);
    Some(Endpoint { host, port })
}
