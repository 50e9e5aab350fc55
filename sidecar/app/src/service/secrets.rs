//! Secrets that are missing or can't be used. In a pod they are mounted as optional and may come, change and go: the
//! process lives on, `/status` says what is wrong, and delivery waits until they were complete once.

#[cfg(test)]
mod tests;

use std::{fmt, fs, path::Path};

use lockstep_contract::{
    ConditionStatus, ConditionType, ConsumerGroup, Health, PodCondition, Reason, SourceKind, Status,
    names::files::{self, credentials},
};

use super::{StartError, WARNINGS_MAX};
use crate::{config::DeliveryError, deliver::SettingsError};

/// A Secret that is not as the manifest needs it. Never holds a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretProblem {
    reason: Reason,
    message: String,
}

/// What is known of the Secrets now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets {
    /// What is wrong with the delivery's.
    pub(super) delivery: Option<SecretProblem>,
    /// Whether the delivery's were never complete since the start, so that nothing may be sent.
    pub(super) waiting: bool,
    /// What is wrong with the source's.
    pub(super) source: Option<SecretProblem>,
}

impl SecretProblem {
    /// The problem behind settings that can't be used; `None` when it is no Secret's.
    pub(super) fn of(error: &StartError) -> Option<Self> {
        let reason = match error {
            StartError::Delivery(error) => match error {
                DeliveryError::NamedPort(_) => return None,
                DeliveryError::NoHeaders { .. } => Reason::SecretMissing,
                DeliveryError::Secret(error) if error.is_missing() => Reason::SecretMissing,
                DeliveryError::Secret(_) | DeliveryError::Headers { .. } | DeliveryError::TooManyHeaders => {
                    Reason::SecretInvalid
                }
            },
            StartError::Settings(error) => match error {
                SettingsError::HeaderName { .. }
                | SettingsError::HeaderReserved { .. }
                | SettingsError::HeaderValue { .. }
                | SettingsError::SigningKey { .. } => Reason::SecretInvalid,
                SettingsError::Endpoint { .. }
                | SettingsError::ContentType { .. }
                | SettingsError::Client { .. } => return None,
            },
            StartError::Admin(_) | StartError::Signals(_) | StartError::NoDeadLetters => return None,
        };
        Some(Self { reason, message: error.to_string() })
    }

    /// The first file that the source needs and that is not there. The adapter judges the content.
    pub(super) fn of_source(group: &ConsumerGroup, folder: &Path) -> Option<Self> {
        let source = &group.spec.source;
        let mut needed = Vec::new();
        if let Some(secret) = &source.credentials_secret_ref {
            let keys = match source.kind() {
                Some(SourceKind::RocketMq(_)) | None => [credentials::ACCESS_KEY, credentials::SECRET_KEY],
                Some(SourceKind::RabbitMq(_) | SourceKind::ActiveMq(_)) => {
                    [credentials::USERNAME, credentials::PASSWORD]
                }
            };
            let of = |key| ("credentialsSecretRef", secret.name.as_str(), key, files::CREDENTIALS, key);
            needed.extend(keys.map(of));
        }
        if let Some(tls) = &source.tls {
            needed.extend(tls.ca_secret_ref.as_ref().map(|ca| {
                ("tls.caSecretRef", ca.name.as_str(), ca.key.as_str(), files::TLS_CA, files::CA_FILE)
            }));
            if let Some(secret) = &tls.client_cert_secret_ref {
                let of = |key| ("tls.clientCertSecretRef", secret.name.as_str(), key, files::TLS_CLIENT, key);
                needed.extend([files::TLS_CERT_FILE, files::TLS_KEY_FILE].map(of));
            }
        }
        let is_missing = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() == 0) || !path.exists();
        let (field, secret, key, _, _) =
            needed.into_iter().find(|(_, _, _, below, file)| is_missing(&folder.join(below).join(file)))?;
        let message =
            format!("spec.source.{field}: the Secret \"{secret}\" with the key \"{key}\" is missing");
        Some(Self { reason: Reason::SecretMissing, message })
    }
}

impl fmt::Display for SecretProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Secrets {
    /// Writes what is wrong into what the loop says of itself.
    pub(super) fn tell(&self, status: &mut Status) {
        let mut warnings = Vec::new();
        if let Some(problem) = &self.source {
            if status.source.connected {
                warnings.push(format!("{problem}; the session lives on, the next one needs it"));
            } else {
                let remedy = "create it, or the file in --credentials-dir; it is taken up by itself";
                status.source.reason = problem.reason.to_string();
                status.source.message.clone_from(&problem.message);
                remedy.clone_into(&mut status.source.remedy);
                say(status, ConditionType::SourceConnected, problem);
            }
        }
        if let Some(problem) = &self.delivery {
            if self.waiting {
                status.application.health = Health::Unhealthy;
                status.application.reason = problem.reason;
                status.application.message = format!("nothing is delivered yet: {problem}");
                say(status, ConditionType::ApplicationHealthy, problem);
            } else {
                warnings
                    .push(format!("{problem}; the former values stay in use until the container restarts"));
            }
        }
        // Before what the manifest's reading passed over, since these need somebody.
        warnings.append(&mut status.config.warnings);
        warnings.truncate(WARNINGS_MAX);
        status.config.warnings = warnings;
    }
}

fn say(status: &mut Status, kind: ConditionType, problem: &SecretProblem) {
    status.conditions.retain(|condition| condition.kind != kind);
    let SecretProblem { reason, message } = problem.clone();
    status.conditions.push(PodCondition { kind, status: ConditionStatus::False, reason, message });
}
