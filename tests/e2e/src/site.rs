//! What all scenarios of the whole cluster share: the cluster with the operator in it, a broker beside it, and the
//! place where applications send what they see.

use std::path::{Path, PathBuf};

use lockstep_tests_support::{
    brokers::{RocketMqOptions, RocketMqServers},
    collector::Collector,
    rocketmq,
};

use crate::{
    api::Api,
    cluster::{Cluster, Kind, NODE},
};

/// The broker's name.
pub const BROKER: &str = "broker-a";
/// How long the broker keeps a lock unrenewed.
pub const LOCK_SECONDS: u64 = 10;
/// The namespace of the operator.
pub const SYSTEM: &str = "lockstep-system";

/// The cluster and what is beside it.
#[derive(Debug)]
pub struct Site {
    /// A client of the API server.
    pub api: Api,
    /// Where applications send what they see.
    pub collector: Collector,
    /// A client of the broker.
    pub mq: rocketmq::Cluster,
    /// The broker and its name server: processes of this machine that pods reach.
    pub servers: RocketMqServers,
    /// The cluster; it ends last.
    pub cluster: Cluster,
}

impl Site {
    /// Starts everything and installs the chart.
    ///
    /// # Panics
    /// When something does not come up.
    pub fn start() -> Self {
        let site = Self::without_operator();
        site.install(&[]).unwrap_or_else(|error| panic!("helm install: {error}"));
        site
    }

    /// Starts everything but the operator.
    pub fn without_operator() -> Self {
        let cluster = Cluster::start(Kind::Whole);
        for image in ["lockstep-sidecar", "lockstep-operator", "lockstep-test-app"] {
            let file = images().join(format!("{image}.tar"));
            assert!(file.is_file(), "{} is missing: run tests/cluster/images.sh", file.display());
            cluster.load(&file);
        }
        let servers = RocketMqServers::start(RocketMqOptions {
            nodes: &["namesrv", BROKER],
            lock_seconds: LOCK_SECONDS,
            bind: NODE,
            ..RocketMqOptions::default()
        });
        let mq = rocketmq::Cluster::new([(BROKER.to_owned(), servers.broker(BROKER))]);
        let api = Api::new(&cluster.kubeconfig());
        Self { api, collector: Collector::start(NODE), mq, servers, cluster }
    }

    /// Asks the container runtime.
    ///
    /// # Panics
    /// When it refuses.
    pub fn crictl(&self, arguments: &[&str]) -> String {
        let socket = format!("unix://{}/containerd/containerd.sock", self.cluster.state().display());
        let output = self
            .cluster
            .command("crictl")
            .args(["--runtime-endpoint", &socket])
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "crictl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Gives an image of the container runtime another name too.
    ///
    /// # Panics
    /// When it refuses.
    pub fn tag(&self, image: &str, name: &str) {
        let socket = self.cluster.state().join("containerd/containerd.sock");
        let mut command = self.cluster.command("ctr");
        command.arg("--address").arg(socket).args([
            "--namespace",
            "k8s.io",
            "images",
            "tag",
            "--force",
            image,
            name,
        ]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "ctr images tag: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// `helm upgrade --install --wait` with the tests' images.
    ///
    /// # Errors
    /// What helm printed.
    pub fn install(&self, more: &[&str]) -> Result<String, String> {
        let chart = chart().display().to_string();
        let common =
            ["upgrade", "--install", "lockstep", &chart, "--namespace", SYSTEM, "--create-namespace"];
        let images = [
            "--set=image.repository=localhost/lockstep-operator",
            "--set=image.tag=test",
            "--set=sidecar.image.repository=localhost/lockstep-sidecar",
            "--set=sidecar.image.tag=test",
            "--wait",
            "--timeout=120s",
        ];
        self.cluster.helm(&[&common[..], &images, more].concat())
    }
}

/// The chart's folder.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/lockstep")
}

/// The folder with the images: `LOCKSTEP_IMAGES` names it.
///
/// # Panics
/// When it does not.
pub fn images() -> PathBuf {
    std::env::var_os("LOCKSTEP_IMAGES")
        .map(PathBuf::from)
        .unwrap_or_else(|| panic!("LOCKSTEP_IMAGES must name the folder that tests/cluster/images.sh filled"))
}
