//! What the delivery is told, checked once and rendered once.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use http::{HeaderName, HeaderValue, header};
use lockstep_contract::Format;
use lockstep_model::{QueueId, QueueName};
use reqwest::Url;

use super::{escape, names, signing::SigningKey, template::Template};

/// Where the application listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address; of `localhost` both address families are tried.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, beginning with a slash, and a query if there is one.
    pub path: String,
}

/// How the source is named to the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// The scheme of `ce-source`, for example `rocketmq`.
    pub scheme: &'static str,
    /// The authority of `ce-source`: what tells this source from others, for example the consumer group.
    pub authority: String,
    /// Properties that are the broker's bookkeeping and of no use to an application; `*` at the end of a name stands for
    /// any ending.
    pub hidden_properties: &'static [&'static str],
}

/// Everything the delivery is told. Replaced whole when a file behind it changes.
#[derive(Clone)]
pub struct Settings {
    /// Where the application listens.
    pub endpoint: Endpoint,
    /// How a message becomes a request.
    pub format: Format,
    /// The content type of messages that do not say.
    pub content_type: String,
    /// The consumer group's name.
    pub consumer_group: String,
    /// How the source is named.
    pub source: SourceInfo,
    /// Headers that every request carries (`headersSecretRef`): name and value. Values are secret.
    pub headers: Vec<(String, String)>,
    /// Standard Webhooks keys (`whsec_...`), each signing every request. Secret.
    pub signing_keys: Vec<String>,
}

/// Settings that can't be used. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The endpoint makes no URL.
    #[error("the callback {url} is not usable: {why}; give http://<host>:<port>/<path>")]
    Endpoint {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The default content type is not a header value.
    #[error("the content type {value:?} is not a media type; give one such as application/json")]
    ContentType {
        /// What was given.
        value: String,
    },
    /// A static header has an impossible name.
    #[error(
        "the static header {name:?} has a name that HTTP does not allow; use letters, digits and hyphens as the key"
    )]
    HeaderName {
        /// The name, escaped.
        name: String,
    },
    /// A static header would replace one of the protocol's or of Lockstep's own.
    #[error("the static header {name} is reserved: it {why}; remove it from the headers secret")]
    HeaderReserved {
        /// The name.
        name: String,
        /// Whose it is.
        why: &'static str,
    },
    /// A static header's value is not one.
    #[error(
        "the value of the static header {name} holds characters that HTTP does not allow; use printable ASCII on one line"
    )]
    HeaderValue {
        /// The name.
        name: String,
    },
    /// A signing key can't be used.
    #[error(
        "signing key {number} is not usable: {why}; give whsec_ followed by 24 to 64 random bytes in base64"
    )]
    SigningKey {
        /// Its place in the list, from 1.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The HTTP client can't be made.
    #[error("failed to prepare the HTTP client: {why}; start the sidecar again")]
    Client {
        /// What the client library says.
        why: String,
    },
}

/// Settings, checked, with all that is constant rendered.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) url: Url,
    pub(super) format: Format,
    pub(super) content_type: HeaderValue,
    pub(super) consumer_group: String,
    pub(super) hidden: &'static [&'static str],
    pub(super) keys: Vec<SigningKey>,
    /// The headers of a request without attributes.
    pub(super) bare: Template,
    /// The headers of a request with the attributes of a plain message.
    pub(super) with_attributes: Template,
    source: SourceInfo,
    /// One entry per queue of the group.
    queues: Mutex<BTreeMap<QueueId, Arc<QueueParts>>>,
}

/// What is constant per queue.
#[derive(Debug)]
pub(super) struct QueueParts {
    name: QueueName,
    /// The CloudEvents source.
    pub(super) source: String,
    /// The same as a header value.
    pub(super) source_header: HeaderValue,
    /// `Lockstep-Queue`.
    pub(super) queue_header: HeaderValue,
    /// The beginning of a webhook id.
    pub(super) id_prefix: Vec<u8>,
}

impl Endpoint {
    /// Reads the URL of a callback.
    ///
    /// # Errors
    /// When it is not `http://<host>[:<port>][/<path>]`, or carries credentials or a fragment.
    pub fn from_url(text: &str) -> Result<Self, SettingsError> {
        let refuse = |why| SettingsError::Endpoint { url: escape::printable(text.as_bytes(), 200), why };
        let url = Url::parse(text).map_err(|_| refuse("it is not a URL"))?;
        if url.scheme() != "http" {
            return Err(refuse("only http is spoken to the application beside the sidecar"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(SettingsError::Endpoint {
                url: "(with credentials)".into(),
                why: "it names credentials",
            });
        }
        if url.fragment().is_some() {
            return Err(refuse("it has a fragment"));
        }
        let host = url.host_str().ok_or_else(|| refuse("it names no host"))?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(80),
            path: format!("{}{query}", url.path()),
        })
    }

    fn url(&self) -> Result<Url, SettingsError> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let text = format!("http://{host}:{}{}", self.port, self.path);
        let refuse = |why| SettingsError::Endpoint { url: escape::printable(text.as_bytes(), 200), why };
        if !self.path.starts_with('/') {
            return Err(refuse("the path does not begin with a slash"));
        }
        if self.host.is_empty() || self.host.contains(['/', '@', '?', '#', '\\']) {
            return Err(refuse("the host is not a name or an address"));
        }
        let url = Url::parse(&text).map_err(|_| refuse("it is not a URL"))?;
        if url.fragment().is_some() { Err(refuse("it has a fragment")) } else { Ok(url) }
    }
}

impl Prepared {
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let content_type = super::request::media_type(&settings.content_type)
            .ok_or_else(|| SettingsError::ContentType { value: settings.content_type.clone() })?;
        let url = settings.endpoint.url()?;
        // The client would add the first two to each request by itself.
        let mut constant = vec![
            (header::ACCEPT, HeaderValue::from_static("*/*")),
            (header::HOST, host(&url)),
            (header::USER_AGENT, HeaderValue::from_static(concat!("lockstep/", env!("CARGO_PKG_VERSION")))),
            (names::CONSUMER_GROUP, escaped(settings.consumer_group.as_bytes())),
        ];
        for (name, value) in &settings.headers {
            constant.push(static_header(name, value)?);
        }
        let mut keys = Vec::new();
        for (index, key) in settings.signing_keys.iter().enumerate() {
            let refuse = |why: super::signing::KeyError| SettingsError::SigningKey {
                number: index + 1,
                why: why.to_string(),
            };
            keys.push(SigningKey::parse(key).map_err(refuse)?);
        }
        let bare = Template::bare(&constant);
        constant.extend([
            (names::CE_SPECVERSION, HeaderValue::from_static("1.0")),
            (names::CE_TYPE, HeaderValue::from_static(names::DEFAULT_TYPE)),
            (names::CE_CONSUMERGROUP, escaped(settings.consumer_group.as_bytes())),
        ]);
        Ok(Self {
            url,
            format: settings.format,
            content_type,
            consumer_group: settings.consumer_group.clone(),
            hidden: settings.source.hidden_properties,
            keys,
            bare,
            with_attributes: Template::with_attributes(&constant),
            source: settings.source.clone(),
            queues: Mutex::new(BTreeMap::new()),
        })
    }

    /// The constant parts of a queue.
    pub(super) fn queue(&self, id: QueueId, name: &QueueName) -> Arc<QueueParts> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = queues.get(&id).filter(|parts| parts.name == *name) {
            return Arc::clone(parts);
        }
        let parts = Arc::new(QueueParts::new(&self.source, name));
        queues.insert(id, Arc::clone(&parts));
        parts
    }
}

impl SourceInfo {
    /// A consumer group of RocketMQ.
    pub fn rocketmq(consumer_group: &str) -> Self {
        Self {
            scheme: "rocketmq",
            authority: consumer_group.to_owned(),
            hidden_properties: names::ROCKETMQ_HIDDEN,
        }
    }

    /// A virtual host of RabbitMQ: messages are the same whoever consumes them. The usual one, `/`, is told as none.
    pub fn rabbitmq(vhost: &str) -> Self {
        let authority = if vhost == "/" { "" } else { vhost };
        Self {
            scheme: "rabbitmq",
            authority: authority.to_owned(),
            hidden_properties: names::RABBITMQ_HIDDEN,
        }
    }

    /// A broker of ActiveMQ, or several that are one: messages are the same whoever consumes them, so that a queue's name
    /// says all.
    pub fn activemq() -> Self {
        Self { scheme: "activemq", authority: String::new(), hidden_properties: names::ACTIVEMQ_HIDDEN }
    }
}

impl QueueParts {
    fn new(source: &SourceInfo, name: &QueueName) -> Self {
        let mut authority = Vec::new();
        escape::component(&mut authority, source.authority.as_bytes());
        let mut uri = format!("{}://", source.scheme).into_bytes();
        uri.extend_from_slice(&authority);
        uri.push(b'/');
        escape::path(&mut uri, name.as_bytes());

        let mut id_prefix = authority;
        for component in name.split('/') {
            id_prefix.push(b'/');
            escape::component(&mut id_prefix, component.as_bytes());
        }
        id_prefix.push(b'/');
        Self {
            name: Arc::clone(name),
            source_header: escaped(&uri),
            source: String::from_utf8_lossy(&uri).into_owned(),
            queue_header: escaped(name.as_bytes()),
            id_prefix,
        }
    }
}

/// As the HTTP client would render it: without the port where that is the scheme's own.
fn host(url: &Url) -> HeaderValue {
    let host = url.host_str().unwrap_or_default();
    let text = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    // The host of a URL is printable ASCII, so the fallback is never taken.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

fn escaped(text: &[u8]) -> HeaderValue {
    let mut value = Vec::with_capacity(text.len());
    escape::value(&mut value, text);
    // Escaped bytes are printable ASCII, so the fallback is never taken.
    HeaderValue::from_maybe_shared(bytes::Bytes::from(value)).unwrap_or(HeaderValue::from_static(""))
}

fn static_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), SettingsError> {
    let printable = || escape::printable(name.as_bytes(), 100);
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| SettingsError::HeaderName { name: printable() })?;
    if let Some(why) = reserved(&parsed) {
        return Err(SettingsError::HeaderReserved { name: parsed.to_string(), why });
    }
    // A secret's file often ends with a line feed.
    let mut value = HeaderValue::from_str(value.trim_matches([' ', '\t', '\r', '\n']))
        .map_err(|_| SettingsError::HeaderValue { name: parsed.to_string() })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn reserved(name: &HeaderName) -> Option<&'static str> {
    const CONNECTION: [HeaderName; 11] = [
        header::CONNECTION,
        header::HOST,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        header::EXPECT,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        HeaderName::from_static("keep-alive"),
    ];
    let text = name.as_str();
    if CONNECTION.contains(name) || text == "proxy-connection" {
        Some("belongs to the connection")
    } else if *name == header::CONTENT_TYPE {
        Some("is set from the message or delivery.contentType")
    } else if ["lockstep-", "webhook-", "ce-"].iter().any(|prefix| text.starts_with(prefix)) {
        Some("is one of those that Lockstep sets itself")
    } else {
        None
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("format", &self.format)
            .field("content_type", &self.content_type)
            .field("consumer_group", &self.consumer_group)
            .field("source", &self.source)
            .field("headers", &self.headers.len())
            .field("signing_keys", &self.signing_keys.len())
            .finish()
    }
}
