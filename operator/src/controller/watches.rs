//! The watches: each fills a store and says which groups to look at.

use std::{convert::Infallible, fmt::Debug, hash::Hash};

use futures_util::{Stream, StreamExt, stream, stream::BoxStream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Pod},
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use lockstep_contract::names::{FIELD_MANAGER, labels};
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use std::sync::Arc;

use super::{Entry, strip};
use crate::{
    compact::Compact,
    context::{GroupRef, Key, Stores},
    dereference::group_label,
    metrics::{Metrics, WatchKind},
};

/// Objects in a page of the first list: bounds what is decoded at once.
const PAGE: u32 = 50;

/// The stores, and the groups to look at as the watches fill them. An item is one group; the stream never ends.
pub(super) fn start(
    client: &Client,
    namespace: Option<&str>,
    metrics: &Arc<Metrics>,
) -> (Stores, impl Stream<Item = Result<GroupRef, Infallible>> + Send + use<>) {
    let labelled = format!("{}={FIELD_MANAGER}", labels::MANAGED_BY);
    let everything = watcher::Config::default().page_size(PAGE);
    let managed = everything.clone().labels(&labelled);
    let members = everything.clone().labels(labels::GROUP);
    let watch = Watches { client, namespace, metrics };
    let (groups, all) = store();
    let (deployments, deployments_in) = store::<Compact<Deployment>>();
    let (replica_sets, replica_sets_in) = store::<Compact<ReplicaSet>>();
    let (pods, pods_in) = store::<Compact<Pod>>();
    let (config_maps, config_maps_in) = store::<ConfigMap>();
    let (disruption_budgets, budgets_in) = store::<PodDisruptionBudget>();
    let (readers, beside) = (groups.clone(), groups.clone());
    let streams = [
        watch.run(all, &everything, WatchKind::ConsumerGroup, strip::group, move |entry, known| {
            group_and_rivals(&readers, entry, known)
        }),
        watch.run(deployments_in, &managed, WatchKind::Deployment, as_read, by_label),
        watch.run(replica_sets_in, &members, WatchKind::ReplicaSet, as_read, by_label),
        watch.run(pods_in, &members, WatchKind::Pod, as_read, by_label),
        watch.run(config_maps_in, &managed, WatchKind::ConfigMap, strip::config_map, by_label),
        watch.run(
            budgets_in,
            &everything,
            WatchKind::PodDisruptionBudget,
            strip::disruption_budget,
            move |budget, _| {
                match group_label(budget.meta()) {
                    Some(_) => by_label(budget, false),
                    // One of the user's own may select any group's pods.
                    None => groups_beside(&beside, budget.meta().namespace.as_deref()),
                }
            },
        ),
    ];
    let stores = Stores { groups, deployments, replica_sets, pods, config_maps, disruption_budgets };
    (stores, stream::select_all(streams).map(Ok))
}

struct Watches<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    metrics: &'a Arc<Metrics>,
}

impl Watches<'_> {
    /// Watches one kind. `wakes` says which groups an object concerns; its second argument is whether the object was
    /// there before and is there now.
    fn run<K>(
        &self,
        mut writer: Writer<K>,
        config: &watcher::Config,
        kind: WatchKind,
        keep: fn(&mut K),
        wakes: impl Fn(&K, bool) -> Vec<GroupRef> + Send + 'static,
    ) -> BoxStream<'static, GroupRef>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
        K::DynamicType: Hash + Eq,
    {
        let api: Api<K> = match self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let reader = writer.as_reader();
        let metrics = Arc::clone(self.metrics);
        let mut failing = false;
        let events = watcher(api, config.clone()).default_backoff();
        let groups = events.map(move |event| match event {
            Ok(event) => {
                failing = false;
                let event = event.modify(keep);
                let known = known(&reader, &event);
                writer.apply_watcher_event(&event);
                match &event {
                    Event::Apply(object) | Event::InitApply(object) => wakes(object, known),
                    Event::Delete(object) => wakes(object, false),
                    Event::Init | Event::InitDone => Vec::new(),
                }
            }
            Err(error) => {
                metrics.watch_restarted(kind);
                if failing {
                    debug!(kind = ?kind, error = %error, "the watch fails still");
                } else {
                    warn!(kind = ?kind, error = %error, "the watch broke; it is begun again");
                }
                failing = true;
                Vec::new()
            }
        });
        groups.flat_map(stream::iter).boxed()
    }
}

/// Compact objects are stripped when they are read.
fn as_read<K>(_object: &mut K) {}

/// Whether the store holds the event's object already.
fn known<K>(store: &Store<K>, event: &Event<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    match event {
        Event::Apply(object) | Event::InitApply(object) => store.get(&ObjectRef::from_obj(object)).is_some(),
        Event::Delete(_) | Event::Init | Event::InitDone => true,
    }
}

/// The group of the object's label.
fn by_label(object: &impl Resource, _known: bool) -> Vec<GroupRef> {
    let meta = object.meta();
    let group = group_label(meta).zip(meta.namespace.as_deref());
    group.map(|(name, namespace)| ObjectRef::new(name).within(namespace)).into_iter().collect()
}

/// The group itself and, when it appears or goes, those of its namespace that would consume as the same consumer group.
fn group_and_rivals(groups: &Store<Entry>, entry: &Entry, known: bool) -> Vec<GroupRef> {
    let key = Key::of(entry);
    let mut wakes = vec![key.group()];
    let Some(group) = entry.0.as_ref().ok().filter(|_| !known) else { return wakes };
    let rivals = groups.state_filter(|other| {
        other.meta().namespace == entry.meta().namespace
            && other.meta().name != entry.meta().name
            && other.0.as_ref().is_ok_and(|other| {
                other.spec.source == group.spec.source || rocketmq(other) == rocketmq(group)
            })
    });
    wakes.extend(rivals.iter().map(|rival| Key::of(rival.as_ref()).group()));
    wakes
}

fn rocketmq(group: &lockstep_crds::ConsumerGroup) -> Option<&str> {
    group.spec.source.rocketmq.as_ref().map(|source| source.consumer_group.as_str())
}

fn groups_beside(groups: &Store<Entry>, namespace: Option<&str>) -> Vec<GroupRef> {
    let beside = groups.state_filter(|group| group.meta().namespace.as_deref() == namespace);
    beside.iter().map(|group| Key::of(group.as_ref()).group()).collect()
}
