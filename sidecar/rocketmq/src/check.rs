//! Looks at a source without joining its group, and says what will be in the way.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockstep_broker::{Finding, Problem, Severity};

use crate::{
    adapter::remoting_config,
    config::{Config, Filter},
    problem::{self, About, Peer, reason},
    protocol::{
        CheckClientConfig, GroupConfigRequest, QueryOffset, Request, ResponseCode, RouteRequest,
        SubscriptionData, TopicConfigRequest, TopicRoute,
    },
    remoting::{CallError, Remoting},
};

/// How long each question may take.
const TIMEOUT: Duration = Duration::from_secs(5);

struct Check<'a> {
    config: &'a Config,
    remoting: Remoting,
    findings: Vec<Finding>,
}

/// Asks the name servers and brokers of a source about everything that it needs. Sends no heartbeat, takes no lock and
/// changes nothing. Takes 5 s for each peer that does not answer. Empty when all is well.
pub async fn check(config: &Config) -> Vec<Finding> {
    let (remoting, _events) = Remoting::new(remoting_config(config));
    let mut check = Check { config, remoting, findings: Vec::new() };
    check.source().await;
    Finding::in_order(check.findings)
}

impl Check<'_> {
    async fn source(&mut self) {
        let Some(server) = self.name_server().await else { return };
        let subscriptions = self.config.subscriptions.clone();
        // Each broker is asked about each of its topics; by address and name.
        let mut brokers: BTreeMap<(String, String), Vec<SubscriptionData>> = BTreeMap::new();
        for (subscription, data) in subscriptions.iter().zip(self.config.subscription_data(1)) {
            let Some(route) = self.route(&server, &subscription.topic).await else { continue };
            for broker in &route.brokers {
                for (id, address) in &broker.addresses {
                    if *id == 0 {
                        let topics = brokers.entry((broker.broker.clone(), address.clone())).or_default();
                        topics.push(data.clone());
                    } else if let Err(error) = self.ask(address, &group_config(self.config)).await {
                        self.unreachable(Severity::Warning, &broker.broker, &error);
                    }
                }
            }
        }
        for ((broker, address), topics) in brokers {
            self.broker(&broker, &address, &topics).await;
        }
    }

    /// A name server that answers. Every one that does not is a finding.
    async fn name_server(&mut self) -> Option<String> {
        let mut good = None;
        let mut bad = Vec::new();
        for server in self.config.name_servers.clone() {
            match self.ask(&server, &RouteRequest { topic: "TBW102".to_owned() }).await {
                Err(error) if error.refusal().is_none() => bad.push(error),
                Ok(_) | Err(_) => good = good.or(Some(server)),
            }
        }
        let severity = if good.is_some() { Severity::Warning } else { Severity::Error };
        for error in bad {
            let problem = problem::of_call(&error, about(self.config, Peer::NameServer, None));
            self.findings.push(Finding { severity, problem });
        }
        good
    }

    async fn route(&mut self, server: &str, topic: &str) -> Option<TopicRoute> {
        let about = about(self.config, Peer::NameServer, Some(topic));
        let (reason, message, remedy) = match self
            .ask(server, &RouteRequest { topic: topic.to_owned() })
            .await
        {
            Ok(route) if route.logical => (
                reason::TOPIC_UNSUPPORTED,
                format!(
                    "topic {topic} is a static topic (its queues are mapped over brokers), which is not served"
                ),
                "subscribe to an ordinary topic".to_owned(),
            ),
            Ok(route) if !route.queues.iter().any(|queues| queues.readable() && queues.read_queues > 0) => (
                reason::NO_PERMISSION,
                format!("topic {topic} has no queue that may be read"),
                format!(
                    "allow reading: mqadmin updateTopicPerm -n '{}' -c CLUSTER -t '{topic}' -p 6",
                    about.name_servers.join(";")
                ),
            ),
            Ok(route) => {
                self.without_master(&route);
                return Some(route);
            }
            Err(error) if error.refusal() == Some(ResponseCode::TopicNotExist) => (
                reason::TOPIC_NOT_FOUND,
                format!("topic {topic} does not exist"),
                problem::create_topic(about, topic),
            ),
            Err(error) => {
                let problem = problem::of_call(&error, about);
                self.findings.push(Finding::error(problem));
                return None;
            }
        };
        self.error(reason, message, remedy);
        None
    }

    fn without_master(&mut self, route: &TopicRoute) {
        let has_master = |name: &str| route.brokers.iter().any(|b| b.broker == name && b.master().is_some());
        for queues in route.queues.iter().filter(|queues| !has_master(&queues.broker)) {
            let message = format!("broker {} has queues and no master with an address", queues.broker);
            self.error(reason::BROKER_WITHOUT_MASTER, message, "start the broker's master".to_owned());
        }
    }

    async fn broker(&mut self, broker: &str, address: &str, topics: &[SubscriptionData]) {
        match self.ask(address, &group_config(self.config)).await {
            Ok(config) if !config.consume_enable => {
                let message = format!("group {} may not consume on broker {broker}", self.config.group);
                let remedy = format!(
                    "allow it: mqadmin updateSubGroup -n '{}' -c CLUSTER -g '{}' -s true",
                    self.config.name_servers.join(";"),
                    self.config.group
                );
                self.error(reason::NO_PERMISSION, message, remedy);
            }
            Ok(_) => {}
            Err(error) => {
                let refusal = error.refusal();
                if refusal.is_none() {
                    return self.unreachable(Severity::Error, broker, &error);
                }
                if self.is_group_missing(&error) {
                    let message = format!("group {} does not exist on broker {broker}", self.config.group);
                    let remedy = problem::create_group(about(self.config, Peer::Broker(broker), None));
                    self.error(reason::GROUP_NOT_FOUND, message, remedy);
                } else {
                    // Asking may be allowed to administrators only; what is wrong with credentials stands all the same.
                    let problem = problem::of_call(&error, about(self.config, Peer::Broker(broker), None));
                    if problem.reason == reason::WRONG_CREDENTIALS {
                        self.findings.push(Finding::error(problem));
                        return;
                    }
                }
            }
        }
        for topic in topics {
            self.topic(broker, address, topic).await;
        }
    }

    fn is_group_missing(&self, error: &CallError) -> bool {
        // 4.9 has no code of its own for it.
        error.refusal() == Some(ResponseCode::SubscriptionGroupNotExist)
            || error.to_string().to_lowercase().contains("no group in this broker")
    }

    async fn topic(&mut self, broker: &str, address: &str, subscription: &SubscriptionData) {
        let topic = &subscription.topic;
        let config = self.ask(address, &TopicConfigRequest { topic: topic.clone() }).await;
        if config
            .is_ok_and(|config| config.attributes.get("queue.type").is_some_and(|kind| kind == "BatchCQ"))
        {
            let message = format!("topic {topic} is a batch queue (queue.type=BatchCQ), which is not served");
            self.error(reason::TOPIC_UNSUPPORTED, message, "subscribe to an ordinary topic".to_owned());
        }
        let offset = QueryOffset {
            group: Arc::from(self.config.group.as_str()),
            topic: Arc::from(topic.as_str()),
            queue_id: 0,
        };
        if let Err(error) = self.ask(address, &offset).await
            && matches!(error.refusal(), Some(ResponseCode::NoPermission) | None)
        {
            let problem = problem::of_call(&error, about(self.config, Peer::Broker(broker), Some(topic)));
            self.findings.push(Finding::error(problem));
        }
        let is_sql = |s: &crate::Subscription| s.topic == *topic && matches!(s.filter, Filter::Sql(_));
        if self.config.subscriptions.iter().any(is_sql) {
            self.filter(broker, address, subscription).await;
        }
    }

    async fn filter(&mut self, broker: &str, address: &str, subscription: &SubscriptionData) {
        let request = CheckClientConfig {
            client_id: self.config.client_id.clone(),
            group: self.config.group.clone(),
            subscription: subscription.clone(),
        };
        let Err(error) = self.ask(address, &request).await else { return };
        let problem = match error.refusal() {
            Some(ResponseCode::SystemError) => {
                let (reason, remedy) = problem::sql_disabled();
                Problem { reason, message: format!("broker {broker} takes no SQL filters"), remedy }
            }
            Some(_) | None => {
                problem::of_call(&error, about(self.config, Peer::Broker(broker), Some(&subscription.topic)))
            }
        };
        self.findings.push(Finding::error(problem));
    }

    async fn ask<R: Request>(&self, address: &str, request: &R) -> Result<R::Reply, CallError> {
        self.remoting.call(address, request, TIMEOUT).await
    }

    fn unreachable(&mut self, severity: Severity, broker: &str, error: &CallError) {
        if error.refusal().is_none() {
            let problem = problem::of_call(error, about(self.config, Peer::Broker(broker), None));
            self.findings.push(Finding { severity, problem });
        }
    }

    fn error(&mut self, reason: &'static str, message: String, remedy: String) {
        self.findings.push(Finding::error(Problem { reason, message, remedy }));
    }
}

fn group_config(config: &Config) -> GroupConfigRequest {
    GroupConfigRequest { group: config.group.clone() }
}

fn about<'a>(config: &'a Config, peer: Peer<'a>, topic: Option<&'a str>) -> About<'a> {
    About { peer, group: &config.group, topic, name_servers: &config.name_servers }
}
