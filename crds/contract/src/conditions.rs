//! The words of conditions. They are an interface: people's alerts and scripts compare them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares an enum of words together with the list of all; a word of another version reads as `Unknown`.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$doc])* $word,)+
            /// Not known yet, or a word of another version.
            #[default]
            #[serde(other)]
            Unknown,
        }

        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$word,)+ Self::Unknown];

            /// The word as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                    Self::Unknown => "Unknown",
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The conditions of a group. `Reconciling` and `Stalled` are the operator's alone.
    ConditionType {
        /// The group does what its spec says.
        Ready,
        /// A change is on its way.
        Reconciling,
        /// Only a change of the spec helps.
        Stalled,
        /// The pods have a session with the source.
        SourceConnected,
        /// The application takes messages.
        ApplicationHealthy,
        /// Every queue has an owner.
        QueuesOwned,
        /// A message holds up what is behind it.
        Blocked,
        /// The spec says that nothing is consumed.
        Paused,
    }
}

words! {
    /// Whether a condition holds.
    ConditionStatus {
        /// It does.
        True,
        /// It does not.
        False,
    }
}

words! {
    /// Why a condition is as it is. Reasons of a source's trouble are the adapter's own words and stand as text in
    /// [`crate::SourceStatus::reason`].
    Reason {
        // Ready
        /// Messages are delivered.
        Delivering,
        /// The application or the source was not there yet since the process started.
        Starting,
        /// The pod ends.
        Draining,
        /// Nothing is consumed, since `replicas` is 0.
        ScaledToZero,
        /// Fewer pods are ready than are wanted.
        PodsNotReady,
        /// The newest pods were not ready within ten minutes; Kubernetes goes on trying.
        RolloutStuck,
        /// The pods can't be asked, so nobody knows.
        PodsUnreachable,

        // Reconciling
        /// Nothing is on its way.
        UpToDate,
        /// Pods are replaced one by one.
        RollingOut,
        /// All pods end before new ones start, since all members must agree on the subscriptions.
        ReplacingAll,
        /// Pods are added or removed.
        Scaling,
        /// Some pods have not applied the changed configuration yet.
        Configuring,
        /// A newer sidecar image waits until fewer groups are being rolled.
        WaitingForUpgrade,
        /// The Kubernetes API refused or failed; it is tried again.
        ApplyFailed,

        // Stalled
        /// Nothing in the spec is wrong.
        NotStalled,
        /// The spec breaks a rule.
        InvalidSpec,
        /// The pod template can't carry the sidecar.
        InvalidTemplate,
        /// Another group of the namespace consumes as the same consumer group.
        DuplicateConsumerGroup,
        /// An object with the name of a child exists and belongs to somebody else.
        ChildNotOwned,
        /// The Kubernetes API refuses the pods or another child for good.
        ChildRefused,

        // SourceConnected
        /// A session stands.
        Connected,
        /// A session is being made.
        Connecting,
        /// It is not wanted now: the group is paused or the application is away.
        NotConnecting,
        /// No session; the message says why.
        Disconnected,
        /// The kind of source is not supported by this version.
        SourceUnsupported,

        // ApplicationHealthy
        /// The health check succeeds.
        Healthy,
        /// The first health check has not succeeded yet.
        NeverHealthy,
        /// The health check fails.
        HealthCheckFailed,
        /// A Secret that the manifest names is missing, or a key in it. Of `SourceConnected` too.
        SecretMissing,
        /// A Secret's content can't be used.
        SecretInvalid,
        /// The application answers as if the path, the method or the credentials were wrong.
        CallbackMisconfigured,
        /// Message after message would be given up.
        DeadLetterStorm,

        // QueuesOwned
        /// The queues assigned to the pod are owned.
        Owned,
        /// Some are still held by another owner.
        Acquiring,
        /// The lease of some is in doubt.
        LeaseDoubtful,
        /// There are more pods than queues: some pods have nothing to do.
        MoreReplicasThanQueues,
        /// How the queues were declared can't be verified.
        OwnershipUnverified,
        /// No pod owns some of the queues.
        QueuesWithoutOwner,

        // Blocked
        /// Nothing is.
        NotBlocked,
        /// The attempts of a message are spent and `retry.whenExhausted` is `Block`.
        AttemptsExhausted,
        /// The application called a message faulty and `retry.whenExhausted` is `Block`.
        MessageRejected,
        /// A stored message can't be decoded and `retry.undecodable` is `Block`.
        Undecodable,
        /// A message could not be written to the dead-letter queue.
        DeadLetterFailed,
        /// A message is the first of its lane for too long, whatever the cause.
        HeadTooOld,
        /// The broker removed messages before they were delivered and `retry.onDataLoss` is `Stop`.
        DataLoss,

        // Paused
        /// `state: Running`.
        NotPaused,
        /// `state: Paused`.
        PausedBySpec,
        /// A container has a shutdown hook of its own, so that the drain can't hold the application's end.
        OwnPreStopHook,
        /// A PodDisruptionBudget of the user's own selects the pods, so that Lockstep keeps none.
        OwnDisruptionBudget,
        /// The mounted configuration is faulty; the former one stays in force.
        ConfigurationInvalid,
    }
}
