//! The sidecar's volumes and where it sees them.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EmptyDirVolumeSource, KeyToPath,
    ObjectFieldSelector, ProjectedVolumeSource, SecretProjection, SecretVolumeSource, Volume, VolumeMount,
    VolumeProjection,
};
use lockstep_contract::{
    ConsumerGroup, SecretKeyRef,
    names::{VOLUME_PREFIX, annotations, files},
};

use super::hot_name;

/// Readable by everyone in the container: the sidecar is not root, and a pod need not have an `fsGroup`.
const READABLE: i32 = 0o444;
/// Where Kubernetes would mount the pod's token.
const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The volumes, and the mounts in the sidecar's container.
pub(super) fn of(contract: &ConsumerGroup, cold: String, group: &str) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut all = vec![
        (config_map("cold", cold), mount("cold", folder(files::COLD), true)),
        (config_map("hot", hot_name(group)), mount("hot", folder(files::HOT), true)),
        (pod_info(), mount("pod", files::POD_INFO, true)),
        (empty("state"), mount("state", files::STATE, false)),
        // Hides the token that the application's service account may have. Admission adds none where something is
        // mounted already.
        (empty("no-token"), mount("no-token", TOKEN_FOLDER, true)),
    ];
    all.extend(secrets(contract).into_iter().map(|(volume, folder)| {
        let mount = mount(folder, &format!("{}/{folder}", files::ROOT), true);
        (volume, mount)
    }));
    all.into_iter().unzip()
}

/// Volumes of Secrets, each with its folder below [`files::ROOT`]. All are optional, so that a missing Secret is a
/// condition of the group and not a pod that never starts.
fn secrets(contract: &ConsumerGroup) -> Vec<(Volume, &'static str)> {
    let source = &contract.spec.source;
    let tls = source.tls.as_ref();
    let ca = tls.and_then(|tls| tls.ca_secret_ref.as_ref());
    let client = tls.and_then(|tls| tls.client_cert_secret_ref.as_ref());
    let delivery = &contract.spec.delivery;
    let whole = |folder, name: &str| (secret(folder, name, None), folder);
    let mut all = Vec::new();
    all.extend(source.credentials_secret_ref.as_ref().map(|secret| whole(files::CREDENTIALS, &secret.name)));
    all.extend(ca.map(|ca| {
        let items = vec![file_of(ca, files::CA_FILE.to_owned())];
        (secret(files::TLS_CA, &ca.name, Some(items)), files::TLS_CA)
    }));
    all.extend(client.map(|secret| whole(files::TLS_CLIENT, &secret.name)));
    all.extend(delivery.headers_secret_ref.as_ref().map(|secret| whole(files::HEADERS, &secret.name)));
    all.extend(delivery.signing.as_ref().map(|signing| (keys(&signing.secret_refs), files::SIGNING)));
    all
}

fn secret(folder: &str, name: &str, items: Option<Vec<KeyToPath>>) -> Volume {
    let secret = SecretVolumeSource {
        secret_name: Some(name.to_owned()),
        default_mode: Some(READABLE),
        items,
        optional: Some(true),
        ..SecretVolumeSource::default()
    };
    Volume { secret: Some(secret), ..volume(folder) }
}

/// A key of a Secret as the file of that name.
fn file_of(key: &SecretKeyRef, path: String) -> KeyToPath {
    KeyToPath { key: key.key.clone(), path, ..KeyToPath::default() }
}

/// The signing keys, each a file named by its index.
fn keys(refs: &[SecretKeyRef]) -> Volume {
    let sources = refs.iter().enumerate().map(|(index, key)| VolumeProjection {
        secret: Some(SecretProjection {
            name: key.name.clone(),
            items: Some(vec![file_of(key, index.to_string())]),
            optional: Some(true),
        }),
        ..VolumeProjection::default()
    });
    let projected = ProjectedVolumeSource {
        default_mode: Some(READABLE),
        sources: Some(sources.collect()),
        ..ProjectedVolumeSource::default()
    };
    Volume { projected: Some(projected), ..volume(files::SIGNING) }
}

fn config_map(name: &str, config_map: String) -> Volume {
    let source = ConfigMapVolumeSource {
        name: config_map,
        default_mode: Some(READABLE),
        ..ConfigMapVolumeSource::default()
    };
    Volume { config_map: Some(source), ..volume(name) }
}

/// The pod's own annotation that names the queues it should take.
fn pod_info() -> Volume {
    let path = format!("metadata.annotations['{}']", annotations::ASSIGNMENT);
    let file = DownwardAPIVolumeFile {
        path: files::ASSIGNMENT.to_owned(),
        field_ref: Some(ObjectFieldSelector { field_path: path, api_version: None }),
        ..DownwardAPIVolumeFile::default()
    };
    let source = DownwardAPIVolumeSource {
        default_mode: Some(READABLE),
        items: Some(vec![file]),
        ..DownwardAPIVolumeSource::default()
    };
    Volume { downward_api: Some(source), ..volume("pod") }
}

/// A folder that lives as long as the pod; every user may write to it.
fn empty(name: &str) -> Volume {
    Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..volume(name) }
}

fn volume(name: &str) -> Volume {
    Volume { name: format!("{VOLUME_PREFIX}{name}"), ..Volume::default() }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: format!("{VOLUME_PREFIX}{name}"),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// The folder of a file.
fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(folder, _)| folder)
}
