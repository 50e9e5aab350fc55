use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lockstep_contract::{ConsumerGroup, Port, names::files};
use thiserror::Error;

use crate::{
    deliver::{Endpoint, Settings, SourceInfo},
    health::HealthSettings,
    secret::{Secret, SecretError},
};

/// Static headers read from a secret: more would not fit into an application's limits beside ours.
const HEADERS_MAX: usize = 32;

/// Delivery can't be set up.
#[derive(Debug, Error)]
pub enum DeliveryError {
    /// A port's name means nothing outside a pod.
    #[error(
        "spec.delivery.port is the name \"{0}\", which only the operator can look up; \
         give the application's address with --callback http://127.0.0.1:<port>/<path>"
    )]
    NamedPort(String),
    /// A secret is missing.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The secret of the static headers is missing or empty: Kubernetes mounts both as an empty folder.
    #[error(
        "there is no header in {}; spec.delivery.headersSecretRef (Secret \"{secret}\") needs one at least: create the Secret \
         with a key for each header, or the files in --credentials-dir", path.display()
    )]
    NoHeaders {
        /// The folder.
        path: PathBuf,
        /// The Secret.
        secret: String,
    },
    /// The folder of static headers can't be read.
    #[error(
        "failed to read the headers in {}: {source}; spec.delivery.headersSecretRef needs them: let the sidecar read the \
         folder", path.display()
    )]
    Headers {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There are too many static headers.
    #[error("spec.delivery.headersSecretRef holds more than {HEADERS_MAX} headers; remove some")]
    TooManyHeaders,
}

/// The delivery's settings, with the secrets that they name.
pub fn delivery_settings(
    group: &ConsumerGroup,
    callback: Option<&Endpoint>,
    source: SourceInfo,
    secrets: &Path,
) -> Result<Settings, DeliveryError> {
    let delivery = &group.spec.delivery;
    let headers = match &delivery.headers_secret_ref {
        Some(secret) => static_headers(&secrets.join(files::HEADERS), &secret.name)?,
        None => Vec::new(),
    };
    let folder = secrets.join(files::SIGNING);
    let keys = delivery.signing.iter().flat_map(|signing| &signing.secret_refs).enumerate();
    let keys = keys.map(|(index, of)| {
        let field =
            format!("spec.delivery.signing.secretRefs[{index}] (Secret \"{}\", key \"{}\")", of.name, of.key);
        let key = Secret::read(&folder.join(index.to_string()), &field)?;
        Ok(key.reveal().to_owned())
    });
    Ok(Settings {
        endpoint: endpoint(group, callback)?,
        format: delivery.format,
        content_type: delivery.content_type.clone(),
        consumer_group: group.metadata.name.clone(),
        source,
        headers,
        signing_keys: keys.collect::<Result<_, SecretError>>()?,
    })
}

/// The health check's settings.
pub fn health_settings(
    group: &ConsumerGroup,
    callback: Option<&Endpoint>,
) -> Result<HealthSettings, DeliveryError> {
    let check = &group.spec.delivery.health_check;
    let endpoint = endpoint(group, callback)?;
    let threshold = check.failure_threshold.get().into();
    Ok(HealthSettings::new(&endpoint, check.path.clone(), check.period, threshold))
}

fn endpoint(group: &ConsumerGroup, callback: Option<&Endpoint>) -> Result<Endpoint, DeliveryError> {
    if let Some(endpoint) = callback {
        return Ok(endpoint.clone());
    }
    let delivery = &group.spec.delivery;
    match &delivery.port {
        Port::Number(port) => {
            Ok(Endpoint { host: delivery.host.clone(), port: port.get(), path: delivery.path.clone() })
        }
        Port::Name(name) => Err(DeliveryError::NamedPort(name.clone())),
    }
}

/// One header for each file; what Kubernetes keeps beside them begins with a dot.
fn static_headers(folder: &Path, secret: &str) -> Result<Vec<(String, String)>, DeliveryError> {
    let none = || DeliveryError::NoHeaders { path: folder.to_owned(), secret: secret.to_owned() };
    let failed = |source: io::Error| match source.kind() == io::ErrorKind::NotFound {
        true => none(),
        false => DeliveryError::Headers { path: folder.to_owned(), source },
    };
    let mut headers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        if headers.len() == HEADERS_MAX {
            return Err(DeliveryError::TooManyHeaders);
        }
        let value = Secret::read(&entry.path(), "spec.delivery.headersSecretRef")?;
        headers.push((name, value.reveal().to_owned()));
    }
    if headers.is_empty() {
        return Err(none());
    }
    headers.sort();
    Ok(headers)
}
