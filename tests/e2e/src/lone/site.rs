//! An API server with the chart's definitions and rights in it.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};

use super::{fakes::Fakes, operator::Operator};
use crate::{
    api::Api,
    cluster::{Cluster, Kind},
    site::{SYSTEM, chart},
};

/// An API server with the chart in it; nothing runs by itself.
#[derive(Debug)]
pub struct LoneSite {
    /// A client with all rights.
    pub api: Api,
    /// What plays controllers, kubelet and sidecars.
    pub fakes: Fakes,
    /// The API server; it ends last.
    pub cluster: Cluster,
    account: String,
}

impl LoneSite {
    /// Starts the API server and installs the chart.
    ///
    /// # Panics
    /// When something does not come up.
    pub fn start() -> Self {
        let cluster = Cluster::start(Kind::ApiServer);
        let folder = chart().display().to_string();
        let install = ["install", "lockstep", &folder, "--namespace", SYSTEM, "--create-namespace"];
        cluster.helm(&install).unwrap_or_else(|error| panic!("helm install: {error}"));
        let api = Api::new(&cluster.kubeconfig());
        // kubectl remembers what it was told of the API server's resources, so it must not be told too soon.
        let discovery = "/apis/lockstep.dev/v1alpha1";
        api.await_object(discovery, "groups are known", Duration::from_secs(30), |found| {
            found["resources"].is_array()
        });
        let deployments = api.list(&format!("/apis/apps/v1/namespaces/{SYSTEM}/deployments"));
        let account =
            deployments[0]["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap().to_owned();
        let fakes = Fakes::start(&cluster.kubeconfig());
        Self { api, fakes, cluster, account }
    }

    /// Starts an operator with the rights of the chart's service account.
    pub fn operator(&self, name: &str) -> Operator {
        let kubeconfig = self.kubeconfig_of(name, SYSTEM);
        Operator::start(name, &kubeconfig, self.cluster.state(), &["--namespace", SYSTEM])
    }

    /// A kubeconfig file with the rights of a chart's service account in that namespace.
    pub fn kubeconfig_of(&self, name: &str, namespace: &str) -> PathBuf {
        let file = self.cluster.state().join(format!("{name}.kubeconfig"));
        let token = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{}/token", self.account);
        let asked = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 43200},
        });
        let granted = self.api.create(&token, &asked);
        let admin = fs::read_to_string(self.cluster.kubeconfig()).unwrap();
        let mut config: Value = serde_yaml::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({"token": granted["status"]["token"]});
        fs::write(&file, config.to_string()).unwrap();
        file
    }

    /// Starts an operator when no other runs: what a killed one left of its Lease is not waited for.
    pub fn alone(&self, name: &str) -> Operator {
        self.end_lease();
        self.operator(name)
    }

    /// Ends the Lease of an operator that was killed.
    pub fn end_lease(&self) {
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/lockstep-operator");
        if self.api.get(&lease).is_some() {
            self.api.merge(&lease, &json!({"spec": {"holderIdentity": ""}}));
        }
    }

    /// A new namespace.
    pub fn namespace(&self, name: &str) -> String {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.create("/api/v1/namespaces", &object);
        name.to_owned()
    }

    /// Begins to look at what the operator writes.
    pub fn writes(&self) -> Writes {
        let file = self.cluster.state().join("audit.log");
        let from = fs::metadata(&file).unwrap().len();
        Writes { file, from, user: format!("system:serviceaccount:{SYSTEM}:{}", self.account) }
    }
}

/// What the API server's audit log says of the operator since a moment.
#[derive(Debug)]
pub struct Writes {
    file: PathBuf,
    from: u64,
    user: String,
}

impl Writes {
    /// Its writes but those of Leases and events: verb, resource with subresource, namespace and name.
    pub fn seen(&self) -> Vec<String> {
        let mut text = String::new();
        let mut file = fs::File::open(&self.file).unwrap();
        file.seek(SeekFrom::Start(self.from)).and_then(|_| file.read_to_string(&mut text)).unwrap();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let entries = text.split_at(whole).0.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ours = entries.filter(|entry| entry["user"]["username"] == *self.user);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named = ours.map(|entry| {
            let object = &entry["objectRef"];
            let words = [
                &entry["verb"],
                &object["resource"],
                &object["subresource"],
                &object["namespace"],
                &object["name"],
            ];
            words.map(text).join(" ")
        });
        named.filter(|write| !write.contains(" leases ") && !write.contains(" events ")).collect()
    }
}
