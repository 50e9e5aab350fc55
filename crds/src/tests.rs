mod cases;
mod definition;
mod reading;
mod schema;

use serde_json::Value;

/// The schema of the whole object.
fn schema() -> Value {
    crate::definition::json()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}
