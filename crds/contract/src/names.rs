//! Names, ports and paths through which operator, sidecar and application meet.
//!
//! The mounted folders lie below [`files::ROOT`] in a pod. Outside a cluster, `--credentials-dir` names a folder with
//! the same layout below it.

/// Default of `sidecar.adminPort`: not registered and outside the usual ranges of applications and node ports.
pub const ADMIN_PORT: u16 = 15464;
/// The longest name of a group, so that its children's names fit into Kubernetes' 63 characters.
pub const MAX_GROUP_NAME: usize = 52;
/// The name of the sidecar's container in a pod.
pub const SIDECAR_CONTAINER: &str = "lockstep";
/// The name of its admin port in a pod.
pub const ADMIN_PORT_NAME: &str = "lockstep-admin";
/// What the names of its volumes begin with.
pub const VOLUME_PREFIX: &str = "lockstep-";
/// What the keys of all labels and annotations begin with that are Lockstep's own.
pub const KEY_PREFIX: &str = "lockstep.dev/";
/// Where the sidecar's image holds its binary.
pub const SIDECAR_BINARY: &str = "/lockstep-sidecar";
/// The user and the group that the sidecar runs as: the usual number of images without a shell.
pub const SIDECAR_USER: i64 = 65_532;
/// Who applies fields on the server's side.
pub const FIELD_MANAGER: &str = "lockstep-operator";

/// Environment variables that the operator sets for the sidecar.
pub mod env {
    /// The pod's UID: the client id at the broker, so that a restarted container regains its locks at once.
    pub const POD_UID: &str = "POD_UID";
    /// The pod's name, for logs.
    pub const POD_NAME: &str = "POD_NAME";
    /// The pod's namespace, for logs.
    pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
    /// The pod's address, which its probes and peers use.
    pub const POD_IP: &str = "POD_IP";
    /// The node's name, for logs.
    pub const NODE_NAME: &str = "NODE_NAME";
    /// The group's UID, which the path of the application's shutdown hook carries.
    pub const GROUP_UID: &str = "LOCKSTEP_GROUP_UID";
    /// The application's shutdown time in seconds: how long dispatch stays held after its shutdown hook.
    pub const APPLICATION_GRACE_SECONDS: &str = "LOCKSTEP_APPLICATION_GRACE_SECONDS";
    /// The longest drain in seconds that the pod's termination grace period has room for.
    pub const DRAIN_SECONDS: &str = "LOCKSTEP_DRAIN_SECONDS";
}

/// Files and folders in the sidecar's container.
pub mod files {
    /// What the operator mounts.
    pub const ROOT: &str = "/etc/lockstep";
    /// The manifest's cold part: an immutable ConfigMap.
    pub const COLD: &str = "/etc/lockstep/cold/group.yaml";
    /// The manifest's hot part: a ConfigMap that changes while the pod lives.
    pub const HOT: &str = "/etc/lockstep/hot/group.yaml";
    /// The key of both ConfigMaps.
    pub const CONFIG_KEY: &str = "group.yaml";
    /// Labels and annotations of the pod, through the downward API.
    pub const POD_INFO: &str = "/etc/lockstep/pod";
    /// The file below [`POD_INFO`] that holds the annotation [`super::annotations::ASSIGNMENT`].
    pub const ASSIGNMENT: &str = "assignment";
    /// Attempts, marks and the start position that outlive a container: an emptyDir.
    pub const STATE: &str = "/var/lib/lockstep";

    /// Below [`ROOT`]: the Secret of `source.credentialsSecretRef`, a file per key.
    pub const CREDENTIALS: &str = "credentials";
    /// Below [`ROOT`]: the authorities to trust, in the file [`CA_FILE`] whatever the key in the Secret is.
    pub const TLS_CA: &str = "tls-ca";
    /// Below [`TLS_CA`].
    pub const CA_FILE: &str = "ca.crt";
    /// Below [`ROOT`]: the Secret of `source.tls.clientCertSecretRef`.
    pub const TLS_CLIENT: &str = "tls-client";
    /// Below [`TLS_CLIENT`]: the certificate, as in Secrets of type `kubernetes.io/tls`.
    pub const TLS_CERT_FILE: &str = "tls.crt";
    /// Below [`TLS_CLIENT`]: its private key.
    pub const TLS_KEY_FILE: &str = "tls.key";
    /// Below [`ROOT`]: the signing keys, a file per entry of `delivery.signing.secretRefs`, named by its index.
    pub const SIGNING: &str = "signing";
    /// Below [`ROOT`]: the Secret of `delivery.headersSecretRef`, a file per header.
    pub const HEADERS: &str = "headers";

    /// Keys of the Secret of `source.credentialsSecretRef`, and so the files below [`CREDENTIALS`].
    pub mod credentials {
        /// User of RabbitMQ or ActiveMQ.
        pub const USERNAME: &str = "username";
        /// Their password.
        pub const PASSWORD: &str = "password";
        /// Access key of RocketMQ.
        pub const ACCESS_KEY: &str = "accessKey";
        /// Its secret.
        pub const SECRET_KEY: &str = "secretKey";
        /// A temporary session's token.
        pub const SECURITY_TOKEN: &str = "securityToken";
    }
}

/// Paths of the admin port.
pub mod admin {
    /// Whether the process lives. Depends on neither broker nor application. Pod network.
    pub const LIVE: &str = "/live";
    /// Whether the application was healthy and the source connected once. Pod network.
    pub const READY: &str = "/ready";
    /// Prometheus metrics. Pod network.
    pub const METRICS: &str = "/metrics";
    /// The [`crate::Status`] document. Pod network.
    pub const STATUS: &str = "/status";
    /// The application's shutdown hook: `GET <this>/<group UID>`. Pod network.
    pub const WAIT_FOR_DRAIN: &str = "/wait-for-drain";
    /// Begins the drain. Loopback only.
    pub const DRAIN: &str = "/drain";
    /// Changes the log level. Loopback only.
    pub const LOG_LEVEL: &str = "/log-level";
    /// Drops a queue's first message. Loopback only.
    pub const SKIP: &str = "/skip";
    /// Moves a queue's first message to the dead-letter queue. Loopback only.
    pub const DEAD_LETTER: &str = "/dead-letter";
}

/// Labels of pods and children.
pub mod labels {
    /// The group's name; what the Deployment selects by.
    pub const GROUP: &str = "lockstep.dev/consumergroup";
    /// Who made it: [`super::FIELD_MANAGER`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
}

/// Annotations of pods and children.
pub mod annotations {
    /// The cold hash that a ConfigMap or a pod template carries.
    pub const COLD_HASH: &str = "lockstep.dev/cold-hash";
    /// Touched so that the kubelet looks at the hot ConfigMap at once; the value is the hot hash.
    pub const HOT_HASH: &str = "lockstep.dev/hot-hash";
    /// The queues that this pod should take, as a JSON list of names.
    pub const ASSIGNMENT: &str = "lockstep.dev/assignment";
    /// On a pod: the UID of its group, which another one of the same name does not have.
    pub const GROUP_UID: &str = "lockstep.dev/group-uid";
    /// On a pod: as whom it takes part at the broker.
    pub const MEMBER_OF: &str = "lockstep.dev/member-of";
    /// On a child: the hash of what was applied.
    pub const APPLIED_HASH: &str = "lockstep.dev/applied-hash";
    /// On a Deployment: the hash of what the user wrote and what needs new pods. Does not depend on the operator's
    /// version.
    pub const INPUT_HASH: &str = "lockstep.dev/input-hash";
    /// On a Deployment: the operator's version and its default sidecar image, with a space between.
    pub const BUILT_BY: &str = "lockstep.dev/built-by";
    /// On a Deployment: the hash of what all members of the broker's group must agree on.
    pub const SUBSCRIPTION_HASH: &str = "lockstep.dev/subscription-hash";
    /// On a Deployment that was last changed by an upgrade of the operator and not by its user: the [`BUILT_BY`] of that
    /// upgrade. Until all of its pods are there, it holds a place in the wave.
    pub const UPGRADED_TO: &str = "lockstep.dev/upgraded-to";
    /// On a Deployment: the drain's time in seconds that its pods were built with ([`super::env::DRAIN_SECONDS`]).
    pub const DRAIN_SECONDS: &str = "lockstep.dev/drain-seconds";
}
