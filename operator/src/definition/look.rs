//! Looks at the installed definition from the start on, and says once what a person should know of it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{GetParams, Request},
};
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::{Definition, Difference, compare};
use crate::metrics::Metrics;

/// The only definition that the operator reads, and may read.
const NAME: &str = "consumergroups.lockstep.dev";
/// Between two looks. The first part of each is small: the whole definition is read only when it has changed.
const PERIOD: Duration = Duration::from_secs(60);
/// The same while there is none: somebody is installing.
const MISSING_PERIOD: Duration = Duration::from_secs(5);
/// A request that takes longer has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many fields a line of the log names.
const NAMED_MAX: usize = 8;

/// What is known of the installed definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Known {
    /// Nobody has looked yet.
    #[default]
    Nothing,
    /// The operator may not read it.
    Hidden,
    /// There is none.
    Missing,
    /// It was compared.
    Compared {
        /// Its UID and generation.
        which: (String, i64),
        /// In what it differs from the operator's own.
        difference: Difference,
    },
}

impl Known {
    /// Whether what users write may be dropped or refused.
    pub fn is_outdated(&self) -> bool {
        match self {
            Self::Nothing | Self::Hidden => false,
            Self::Missing => true,
            Self::Compared { difference, .. } => !difference.lacks.is_empty(),
        }
    }
}

/// The definition was not read.
#[derive(Debug, Error)]
enum LookError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("failed to understand it: {0}")]
    Text(String),
}

/// Looks from time to time, for as long as it is polled. Cancel safe: it only reads.
pub async fn follow(client: Client, metrics: Arc<Metrics>) -> Infallible {
    let mut known = Known::Nothing;
    loop {
        let now = look(&client, &known).await;
        if now != known {
            metrics.crd_outdated.set(i64::from(now.is_outdated()));
            tell(&now);
            known = now;
        }
        sleep(if known == Known::Missing { MISSING_PERIOD } else { PERIOD }).await;
    }
}

/// What is known after one more look; when the API is away, what was known before. Cancel safe.
pub async fn look(client: &Client, known: &Known) -> Known {
    match timeout(REQUEST_TIMEOUT, read(client, known)).await {
        Ok(Ok(now)) => now,
        Ok(Err(LookError::Api(kube::Error::Api(status)))) if status.code == 404 => Known::Missing,
        Ok(Err(LookError::Api(kube::Error::Api(status)))) if matches!(status.code, 401 | 403) => {
            Known::Hidden
        }
        Ok(Err(error)) => {
            debug!(error = %error, "the definition of ConsumerGroup can't be read now");
            known.clone()
        }
        Err(_) => known.clone(),
    }
}

async fn read(client: &Client, known: &Known) -> Result<Known, LookError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let meta = api.get_metadata(NAME).await?.metadata;
    let now = (meta.uid.unwrap_or_default(), meta.generation.unwrap_or_default());
    if let Known::Compared { which, .. } = known
        && *which == now
    {
        return Ok(known.clone());
    }
    // As text: the client's own type for it would take many times the memory.
    let path = CustomResourceDefinition::url_path(&(), None);
    let request = Request::new(path).get(NAME, &GetParams::default());
    let request = request.map_err(|error| LookError::Text(error.to_string()))?;
    let text = client.request_text(request).await?;
    let difference = judge(&text)?;
    Ok(Known::Compared { which: now, difference })
}

fn judge(text: &str) -> Result<Difference, LookError> {
    let unreadable = |error: &dyn std::fmt::Display| LookError::Text(error.to_string());
    let installed: Definition = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    let own: Definition = serde_json::from_str(lockstep_crds::OUTLINE).map_err(|error| unreadable(&error))?;
    Ok(compare(&installed, &own))
}

fn tell(now: &Known) {
    const REMEDY: &str =
        "run `helm upgrade` with crds.enabled, or `lockstep-operator crd | kubectl apply --server-side -f -`";
    match now {
        Known::Nothing => {}
        Known::Hidden => info!(
            definition = NAME,
            "the definition may not be read, so that nobody says whether it is older than this operator; to have it \
             compared, allow `get` on it"
        ),
        Known::Missing => {
            warn!(
                definition = NAME,
                "the definition is not installed; no group can be served before: {REMEDY}"
            );
        }
        Known::Compared { difference, .. } if !difference.lacks.is_empty() => {
            let lacks = named(&difference.lacks);
            warn!(
                definition = NAME,
                lacks,
                "the installed definition is older than this operator: what groups say there is dropped or refused; \
                 {REMEDY}"
            );
        }
        Known::Compared { difference, .. } if !difference.adds.is_empty() => {
            let adds = named(&difference.adds);
            info!(
                definition = NAME,
                adds,
                "the installed definition is newer than this operator, which does not know what groups say there"
            );
        }
        Known::Compared { .. } => info!(definition = NAME, "the installed definition is this operator's"),
    }
}

fn named(fields: &[String]) -> String {
    let first: Vec<&str> = fields.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = fields.len().saturating_sub(first.len());
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", first.join(", "))
}
