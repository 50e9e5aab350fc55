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
    /// The folder of static headers can't be read.
    #[error(
        "failed to read the headers in {}: {source}; spec.delivery.headersSecretRef needs them: \
         create the Secret, or the folder in --credentials-dir", path.display()
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
        Some(_) => static_headers(&secrets.join(files::HEADERS))?,
        None => Vec::new(),
    };
    let keys = delivery.signing.as_ref().map_or(0, |signing| signing.secret_refs.len());
    let folder = secrets.join(files::SIGNING);
    let keys = (0..keys).map(|index| {
        let key = Secret::read(&folder.join(index.to_string()), "spec.delivery.signing.secretRefs")?;
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
fn static_headers(folder: &Path) -> Result<Vec<(String, String)>, DeliveryError> {
    let failed = |source| DeliveryError::Headers { path: folder.to_owned(), source };
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
    headers.sort();
    Ok(headers)
}
