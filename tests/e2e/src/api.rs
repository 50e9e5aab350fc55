//! The API server, asked directly: for what is looked at often, or written by the thousand.

use std::{fmt, path::Path, time::Duration};

use http::{Method, Request};
use kube::{
    Client, Config, Error,
    config::{KubeConfigOptions, Kubeconfig},
};
use lockstep_tests_support::time::{pause, wait_for};
use serde_json::Value;
use tokio::runtime::Runtime;

/// How often an object is looked at while one waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A client of the API server. It blocks: scenarios are threads.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

/// The API server's refusal.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The HTTP status; 0 when there was no answer.
    pub code: u16,
    /// Its words.
    pub message: String,
}

impl Api {
    /// A client for a kubeconfig file.
    ///
    /// # Panics
    /// When the file is not one.
    pub fn new(kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
            Client::try_from(config).unwrap()
        });
        Self { runtime, client }
    }

    /// One request.
    ///
    /// # Errors
    /// The API server's refusal.
    pub fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let media = match method {
            Method::PATCH if path.contains("fieldManager=") => "application/apply-patch+yaml",
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let answer = self.runtime.block_on(self.client.request(request.body(body).unwrap()));
        answer.map_err(|error| {
            if let Error::Api(status) = &error {
                return Refusal { code: status.code, message: status.message.clone() };
            }
            Refusal { code: 0, message: error.to_string() }
        })
    }

    /// An object or a list; `None` when it is not there.
    ///
    /// # Panics
    /// When the API server refuses.
    pub fn get(&self, path: &str) -> Option<Value> {
        match self.request(Method::GET, path, None) {
            Ok(value) => Some(value),
            Err(refusal) if refusal.code == 404 => None,
            Err(refusal) => panic!("GET {path}: {refusal:?}"),
        }
    }

    /// The items of a list.
    pub fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates an object below its collection's path.
    ///
    /// # Panics
    /// When the API server refuses.
    pub fn create(&self, path: &str, object: &Value) -> Value {
        self.request(Method::POST, path, Some(object))
            .unwrap_or_else(|refusal| panic!("POST {path}: {refusal:?}"))
    }

    /// Merges something into an object.
    ///
    /// # Panics
    /// When the API server refuses, as it does a field that it does not know.
    pub fn merge(&self, path: &str, patch: &Value) -> Value {
        self.request(Method::PATCH, &format!("{path}?fieldValidation=Strict"), Some(patch))
            .unwrap_or_else(|refusal| panic!("PATCH {path}: {refusal:?}"))
    }

    /// Deletes an object; one that is not there is deleted already.
    ///
    /// # Panics
    /// When the API server refuses.
    pub fn delete(&self, path: &str, options: &Value) {
        match self.request(Method::DELETE, path, Some(options)) {
            Ok(_) => {}
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => panic!("DELETE {path}: {refusal:?}"),
        }
    }

    /// Waits until an object satisfies a condition, and gives it.
    ///
    /// # Panics
    /// When it does not within `limit`; the sentence holds the object.
    pub fn await_object(
        &self,
        path: &str,
        what: &str,
        limit: Duration,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let since = std::time::Instant::now();
        loop {
            let object = self.get(path).unwrap_or_default();
            if condition(&object) {
                return object;
            }
            assert!(since.elapsed() < limit, "waited {limit:?} in vain until {what}; {path} is {object:#}");
            pause(LOOK_EVERY);
        }
    }

    /// Waits until a probe gives a value.
    pub fn await_value<T>(
        &self,
        what: &str,
        limit: Duration,
        mut probe: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        wait_for(what, limit, || {
            let value = probe(self);
            if value.is_none() {
                pause(LOOK_EVERY);
            }
            value
        })
    }
}

/// The condition of a type in an object's status: status, reason and message.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    Some((text("status"), text("reason"), text("message")))
}

/// Whether a condition has this status.
pub fn holds(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|(found, _, _)| found == status)
}

/// Paths of the resources that scenarios use.
pub mod paths {
    /// A namespace's groups.
    pub fn groups(namespace: &str) -> String {
        format!("/apis/lockstep.dev/v1alpha1/namespaces/{namespace}/consumergroups")
    }

    /// A namespace's Deployments.
    pub fn deployments(namespace: &str) -> String {
        format!("/apis/apps/v1/namespaces/{namespace}/deployments")
    }

    /// A namespace's objects of the core group.
    pub fn core(namespace: &str, resource: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/{resource}")
    }

    /// The pods of a group, as a query on its namespace's pods.
    pub fn pods_of(namespace: &str, group: &str) -> String {
        format!("{}?labelSelector=lockstep.dev%2Fconsumergroup%3D{group}", core(namespace, "pods"))
    }
}
