//! The controller at work on a namespace `shop`.

use std::{sync::Arc, time::Duration};

use lockstep_operator::{
    Settings,
    controller::{self, Setup},
    leader::Leadership,
    metrics::Metrics,
    poll::Poller,
    server::Probes,
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    fake::{Fake, Write},
    sidecars::Sidecars,
};

/// A controller that runs until this is dropped.
pub(crate) struct Scenario {
    pub(crate) fake: Fake,
    pub(crate) leadership: watch::Sender<Leadership>,
    controller: JoinHandle<()>,
}

impl Scenario {
    /// A leading controller.
    pub(crate) fn start(fake: Fake) -> Self {
        Self::watching(fake, &[])
    }

    pub(crate) fn watching(fake: Fake, namespaces: &[&str]) -> Self {
        Self::with(fake, namespaces, settings(), Poller::new().unwrap())
    }

    /// One whose pods are played by `sidecars`.
    pub(crate) fn polling(fake: Fake, sidecars: &Sidecars) -> Self {
        Self::with(fake, &[], settings(), Poller::over(Arc::new(sidecars.clone())))
    }

    pub(crate) fn with(fake: Fake, namespaces: &[&str], settings: Settings, poller: Poller) -> Self {
        let until = Instant::now() + Duration::from_secs(1_000_000);
        let (leadership, leads) = watch::channel(Leadership::Leader { until });
        let setup = Setup {
            client: fake.client(),
            settings,
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            identity: "operator-0".to_owned(),
            poller,
            leadership: leads,
            metrics: Arc::new(Metrics::new("1.0.0")),
            probes: Arc::new(Probes::default()),
        };
        let controller = tokio::spawn(controller::run(setup));
        Self { fake, leadership, controller }
    }

    /// Two minutes of the paused clock, in which whatever is going to happen happens.
    pub(crate) async fn two_minutes(&self) -> Vec<Write> {
        self.fake.take_writes();
        sleep(Duration::from_secs(120)).await;
        self.fake.take_writes()
    }

    /// Waits until a group's condition is as asked for.
    pub(crate) async fn until_condition(&self, group: &str, kind: &str, status: &str) -> Value {
        self.fake
            .until(|fake| {
                let group = fake.get("consumergroups", group)?;
                let condition = condition(&group, kind)?;
                (condition["status"] == status).then_some(condition)
            })
            .await
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        self.controller.abort();
    }
}

pub(crate) fn settings() -> Settings {
    Settings { sidecar_image: "sidecar:1".to_owned(), version: "1.0.0".to_owned(), upgrade_groups_max: 5 }
}

pub(crate) fn condition(group: &Value, kind: &str) -> Option<Value> {
    let conditions = group["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

/// A small group.
pub(crate) fn group(name: &str) -> Value {
    json!({
        "apiVersion": "lockstep.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "source": {"rocketmq": {
                "nameServers": ["namesrv.mq:9876"],
                "consumerGroup": format!("shop-{name}"),
                "subscriptions": [{"topic": "orders"}],
            }},
            "template": {"spec": {"containers": [{
                "name": "app",
                "image": "app:1",
                "resources": {"requests": {"cpu": "1000m"}},
            }]}},
        },
    })
}

/// A server that holds small groups.
pub(crate) fn with_groups(names: &[&str]) -> Fake {
    let fake = Fake::new();
    for name in names {
        fake.edit(|store| store.put("consumergroups", "shop", name, group(name)));
    }
    fake
}

/// Waits until the group has all its children.
pub(crate) async fn until_made(fake: &Fake, name: &str) {
    fake.until(|fake| {
        let deployment = fake.get("deployments", name)?;
        fake.get("configmaps", &format!("{name}-hot"))?;
        fake.get("poddisruptionbudgets", name)?;
        let group = fake.get("consumergroups", name)?;
        condition(&group, "Ready").map(|_| deployment)
    })
    .await;
}
