//! The rules that the operator holds. A fault names the one that is broken, so that none is without a name, and a test
//! finds those without a case in `lockstep_crds::cases`.

use lockstep_contract::Reason;

/// Declares the rules with the word of the condition `Stalled`.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident => $reason:ident,)+) => {
        /// A rule that only a change of the spec, or of an object beside the group, can make hold again.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[$doc])* $name,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word of the condition.
            pub fn reason(self) -> Reason {
                match self {
                    $(Self::$name => Reason::$reason,)+
                }
            }
        }
    };
}

rules! {
    /// The sidecar's part of the spec keeps the contract's rules, which are told apart there.
    Contract => InvalidSpec,
    /// `spec.replicas` is not negative.
    Replicas => InvalidSpec,
    /// `spec.sidecar.image` is a name.
    SidecarImage => InvalidSpec,
    /// There is a container.
    Containers => InvalidTemplate,
    /// No container is called like the sidecar.
    SidecarName => InvalidTemplate,
    /// There are no ephemeral containers.
    EphemeralContainers => InvalidTemplate,
    /// No volume is called like one of the sidecar's.
    VolumeName => InvalidTemplate,
    /// No label or annotation is one of Lockstep's own.
    Metadata => InvalidTemplate,
    /// `delivery.containerName` is a container.
    ContainerThere => InvalidTemplate,
    /// A named `delivery.port` is a port of that container.
    PortThere => InvalidTemplate,
    /// The sidecar's port is nobody else's.
    AdminPort => InvalidTemplate,
    /// The pod has a network of its own.
    HostNetwork => InvalidTemplate,
    /// Pods live on.
    RestartPolicy => InvalidTemplate,
    /// Pods have no last hour.
    ActiveDeadline => InvalidTemplate,
    /// Pods are of Linux.
    Os => InvalidTemplate,
    /// The grace period is not negative.
    GracePeriod => InvalidTemplate,
    /// A container's name is given once.
    ContainerOnce => InvalidTemplate,
    /// A container's variable is given once.
    VariableOnce => InvalidTemplate,
    /// A container's port is given once.
    PortOnce => InvalidTemplate,
    /// A container's mount path is given once.
    MountOnce => InvalidTemplate,
    /// A container's device path is given once.
    DeviceOnce => InvalidTemplate,
    /// A claim is used once by a container, or by the pod.
    ClaimUseOnce => InvalidTemplate,
    /// A volume's name is given once.
    VolumeOnce => InvalidTemplate,
    /// A host alias' IP is given once.
    HostAliasOnce => InvalidTemplate,
    /// A pull secret is given once.
    PullSecretOnce => InvalidTemplate,
    /// A claim's name is given once.
    ClaimOnce => InvalidTemplate,
    /// A scheduling gate is given once.
    GateOnce => InvalidTemplate,
    /// A topology key is given once with what follows from it.
    SpreadOnce => InvalidTemplate,
    /// One group of a namespace consumes as one consumer group.
    OneGroup => DuplicateConsumerGroup,
    /// Objects with the names of children are the group's.
    ChildOwned => ChildNotOwned,
}
