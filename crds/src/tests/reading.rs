//! Objects as an API server stores them are read.

use serde_json::{Value, json};

use crate::{ConsumerGroup, cases::Base};

fn group(change: impl FnOnce(&mut Value)) -> ConsumerGroup {
    let mut value = Base::Rocket.manifest();
    change(&mut value["spec"]);
    serde_json::from_value(value).unwrap()
}

#[test]
fn amounts_may_be_numbers() {
    let amounts = json!({ "limits": { "cpu": 1, "memory": "64Mi" }, "requests": { "cpu": 0.5 } });
    let group = group(|spec| {
        spec["sidecar"] = json!({ "resources": amounts });
        spec["template"]["spec"]["containers"][0]["resources"] = amounts.clone();
        spec["template"]["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": { "sizeLimit": 1000 } }]);
        spec["template"]["spec"]["containers"][0]["env"] = json!([{ "name": "E", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": 1 } } }]);
        spec["template"]["spec"]["containers"][0]["livenessProbe"] = json!({ "httpGet": { "port": 8080 } });
    });
    let value = serde_json::to_value(&group).unwrap();
    let spec = &value["spec"]["template"]["spec"];
    let read = json!({ "limits": { "cpu": "1", "memory": "64Mi" }, "requests": { "cpu": "0.5" } });
    assert_eq!(spec["containers"][0]["resources"], read);
    assert_eq!(value["spec"]["sidecar"]["resources"], read);
    assert_eq!(spec["volumes"][0]["emptyDir"]["sizeLimit"], "1000");
    assert_eq!(spec["containers"][0]["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"], "1");
    assert_eq!(spec["containers"][0]["livenessProbe"]["httpGet"]["port"], 8080);
}

/// Where Kubernetes' types say that a value is an amount, the reader takes a number. A new place must be added.
#[test]
fn every_amount_is_known() {
    fn walk(schema: &Value, path: &str, found: &mut Vec<String>) {
        let is_amount = schema["description"].as_str().is_some_and(|text| text.starts_with("Quantity is"));
        // The description of a field stands in place of its type's.
        let by_name = path.ends_with(".sizeLimit") || path.ends_with(".divisor");
        if schema["x-kubernetes-int-or-string"] == true && (is_amount || by_name) {
            found.push(path.to_owned());
        }
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            walk(below, &format!("{path}.{name}"), found);
        }
        for key in ["items", "additionalProperties"] {
            if let Some(below) = schema.get(key) {
                walk(below, &format!("{path}.{key}"), found);
            }
        }
    }
    use kube::CustomResourceExt;
    let derived = serde_json::to_value(ConsumerGroup::crd()).unwrap();
    let mut found = Vec::new();
    walk(&derived["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", &mut found);
    assert!(found.len() > 10, "{found:?}");
    let known =
        ["limits.additionalProperties", "requests.additionalProperties", "overhead.additionalProperties"];
    for path in found {
        let taken = known.iter().chain(&["sizeLimit", "divisor"]).any(|end| path.ends_with(end));
        assert!(taken, "{path}");
    }
}

#[test]
fn the_templates_metadata_is_kept() {
    let metadata = json!({ "labels": { "a": "b" }, "annotations": { "c": "d" }, "creationTimestamp": null });
    let group = group(|spec| spec["template"]["metadata"] = metadata.clone());
    let read = group.spec.template.metadata.unwrap();
    assert_eq!(read.labels.unwrap()["a"], "b");
    assert_eq!(read.annotations.unwrap()["c"], "d");
    let mut filled = json!({ "spec": { "template": { "metadata": metadata } } });
    super::schema::filled(&super::schema(), &mut filled);
    let found = super::schema::mistakes(
        &super::schema()["properties"]["spec"]["properties"]["template"],
        &filled["spec"]["template"],
    );
    assert_eq!(found, [("spec".to_owned(), "Required value".to_owned())]);
}

#[test]
fn unknown_fields_of_a_newer_definition_are_passed_over() {
    let group = group(|spec| {
        spec["moon"] = json!({ "phase": 1 });
        spec["delivery"] = json!({ "maxInFlight": 4, "moon": true });
        spec["template"]["spec"]["moon"] = json!([1]);
    });
    assert_eq!(group.contract().spec.delivery.max_in_flight.get(), 4);
}

#[test]
fn a_written_group_is_read_again() {
    for base in [Base::Rocket, Base::Rabbit, Base::Active] {
        let read: ConsumerGroup = serde_json::from_value(base.manifest()).unwrap();
        let again: ConsumerGroup = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(read, again);
    }
}
