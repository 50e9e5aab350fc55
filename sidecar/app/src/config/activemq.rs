use std::time::Duration;

use lockstep_activemq::{
    Config, CredentialsSource, Endpoint, KeySource, Mode, Ordering, PrefetchPlan, Queue, TlsFiles,
};
use lockstep_contract::{
    ActiveMq, ActiveMqMode, ConsumerGroup, KeyFrom, OrderingMode, WhenExhausted, names::files,
};
use lockstep_model::Text;
use reqwest::Url;

use super::{BUFFER_COUNT, Member};

/// Bytes that messages from the broker may hold together: those that the engine buffers, those that are being delivered,
/// and what is on its way.
const BYTES: usize = 64 << 20;
/// By ActiveMQ's custom, without and with TLS.
const PORT: u16 = 61616;
const TLS_PORT: u16 = 61617;
/// ActiveMQ's own (`maxInactivityDuration`): brokers ask for less where they want it.
const INACTIVITY: Duration = Duration::from_secs(30);
/// ActiveMQ's own before 6.0 (`maxFrameSize` of the shipped configuration); later brokers ship with a tenth of it.
const MAX_FRAME: u32 = 100 << 20;

/// The adapter's settings. Secrets stay in their files: the adapter reads them at each connect.
pub fn activemq_config(group: &ConsumerGroup, source: &ActiveMq, member: &Member<'_>) -> Config {
    let spec = &group.spec;
    let Member { secrets, state, client_id, clock, .. } = *member;
    let client = secrets.join(files::TLS_CLIENT);
    let identity = || (client.join(files::TLS_CERT_FILE), client.join(files::TLS_KEY_FILE));
    let queues = source.each_queue().into_iter();
    Config {
        nodes: source.urls.iter().filter_map(|url| node(url)).collect(),
        queues: queues.map(|queue| Queue { name: queue.name, selector: queue.selector }).collect(),
        mode: match source.mode {
            ActiveMqMode::Pull => Mode::Pull,
            ActiveMqMode::Push => Mode::Push,
        },
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
        block: group.when_exhausted() == WhenExhausted::Block,
        key: match (spec.ordering.key.from, &spec.ordering.key.header) {
            (KeyFrom::Header, Some(header)) => KeySource::Property(Text::from(header.as_str())),
            (KeyFrom::Header, None) | (KeyFrom::Native, _) => KeySource::Native,
        },
        credentials: match &spec.source.credentials_secret_ref {
            Some(_) => CredentialsSource::Folder(secrets.join(files::CREDENTIALS)),
            None => CredentialsSource::None,
        },
        tls: spec.source.tls.as_ref().map(|tls| TlsFiles {
            ca: tls.ca_secret_ref.as_ref().map(|_| secrets.join(files::TLS_CA).join(files::CA_FILE)),
            identity: tls.client_cert_secret_ref.as_ref().map(|_| identity()),
        }),
        group: group.metadata.name.clone(),
        name: format!("lockstep {} {client_id}", group.metadata.name),
        hint: member.hint.clone(),
        epoch_floor: state.last_epoch(),
        clock,
        inactivity: INACTIVITY,
        max_frame: MAX_FRAME,
        bytes: BYTES,
    }
}

/// Where a URL leads. Those of a manifest are checked, so none is left out.
fn node(url: &str) -> Option<Endpoint> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    let tls = url.scheme() == "ssl";
    let port = url.port().unwrap_or(if tls { TLS_PORT } else { PORT });
    Some(Endpoint { host, port, tls })
}
