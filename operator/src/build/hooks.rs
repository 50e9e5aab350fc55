//! The shutdown hook that holds an application's end until nothing is in flight.

use k8s_openapi::{
    api::core::v1::{Container, HTTPGetAction, Lifecycle, LifecycleHandler},
    apimachinery::pkg::util::intstr::IntOrString,
};
use lockstep_contract::names::admin;

/// Whether the user gave the container a shutdown hook.
pub(crate) fn has_own(container: &Container) -> bool {
    container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.pre_stop.is_some())
}

/// Adds the hook to a container that has none. The kubelet calls it on the pod's address.
pub(super) fn inject(container: &mut Container, group_uid: &str, admin_port: u16) {
    if has_own(container) {
        return;
    }
    let get = HTTPGetAction {
        path: Some(format!("{}/{group_uid}", admin::WAIT_FOR_DRAIN)),
        port: IntOrString::Int(admin_port.into()),
        ..HTTPGetAction::default()
    };
    let hook = LifecycleHandler { http_get: Some(get), ..LifecycleHandler::default() };
    container.lifecycle.get_or_insert_with(Lifecycle::default).pre_stop = Some(hook);
}
