//! The pod template of the former operator, kept while an upgrade waits: as it is, but for what another writer changed in
//! it. What the former operator built is not known any more; what the user wrote is, and the sidecar's image.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use lockstep_contract::names::SIDECAR_CONTAINER;
use serde_json::{Map, Value, from_value, to_value};

/// Lists of a pod whose members Kubernetes tells apart by keys. In all others it takes the whole list as one.
const KEYED: &[(&str, &[&str])] = &[
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("volumes", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
];
/// Of a port that names none.
const DEFAULT_PROTOCOL: &str = "TCP";
/// The former operator's: the drain's time is in it.
const GRACE: &str = "terminationGracePeriodSeconds";

/// `live` with what its user wrote laid over it again. `None` = the sidecar is not in it, so that nothing is worth keeping.
pub(super) fn template(
    live: &PodTemplateSpec,
    given: &PodTemplateSpec,
    image: Option<&str>,
) -> Option<PodTemplateSpec> {
    let (Value::Object(mut kept), Value::Object(given)) = (to_value(live).ok()?, to_value(given).ok()?)
    else {
        return None;
    };
    for (name, value) in given {
        match (kept.get_mut(&name), value) {
            (Some(Value::Object(spec)), Value::Object(given)) if name == "spec" => lay(spec, &given),
            (Some(Value::Object(kept)), Value::Object(given)) => add(kept, &given),
            (_, value) => drop(kept.insert(name, value)),
        }
    }
    let mut kept: PodTemplateSpec = from_value(Value::Object(kept)).ok()?;
    let init = kept.spec.as_mut()?.init_containers.as_mut()?;
    let at = init.iter().position(|container| container.name == SIDECAR_CONTAINER)?;
    let mut sidecar = init.remove(at);
    if let Some(image) = image {
        sidecar.image = Some(image.to_owned());
    }
    // The last one, also where one of the user's was put back.
    init.push(sidecar);
    Some(kept)
}

/// Lays the fields of a pod or of a container over what is there.
fn lay(kept: &mut Map<String, Value>, given: &Map<String, Value>) {
    for (name, value) in given.iter().filter(|(name, _)| *name != GRACE) {
        let keys = KEYED.iter().find(|(list, _)| list == name).map(|(_, keys)| *keys);
        match (kept.get_mut(name), value, keys) {
            (Some(Value::Array(kept)), Value::Array(given), Some(keys)) => {
                let deep = matches!(name.as_str(), "containers" | "initContainers");
                given.iter().for_each(|item| lay_item(kept, item, keys, deep));
            }
            // Our hook stands beside the user's.
            (Some(Value::Object(kept)), Value::Object(given), None) if name == "lifecycle" => {
                add(kept, given);
            }
            (_, value, _) => drop(kept.insert(name.clone(), value.clone())),
        }
    }
}

fn lay_item(kept: &mut Vec<Value>, item: &Value, keys: &[&str], deep: bool) {
    let same = |other: &&mut Value| {
        keys.iter().all(|key| match (other.get(key), item.get(key)) {
            (None, Some(Value::String(named))) | (Some(Value::String(named)), None) => {
                *key == "protocol" && named == DEFAULT_PROTOCOL
            }
            (one, other) => one == other,
        })
    };
    match (kept.iter_mut().find(same), item) {
        (Some(Value::Object(kept)), Value::Object(given)) if deep => lay(kept, given),
        (Some(kept), item) => *kept = item.clone(),
        (None, item) => kept.push(item.clone()),
    }
}

fn add(kept: &mut Map<String, Value>, given: &Map<String, Value>) {
    for (name, value) in given {
        match (kept.get_mut(name), value) {
            (Some(Value::Object(kept)), Value::Object(given))
                if matches!(name.as_str(), "labels" | "annotations") =>
            {
                add(kept, given);
            }
            (_, value) => drop(kept.insert(name.clone(), value.clone())),
        }
    }
}
