//! At most so many groups roll at once, in whatever order things happen.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use lockstep_contract::names::annotations;
use proptest::{collection, prelude::*};

use super::{begun, carried_out, fresh, newer};
use crate::{
    Observed, Settings,
    rollout::{Candidate, Hashes, Plan, TemplateSource, Wave, WaveView, built_by, is_rolled_out, plan},
    test_support::observed,
};

const GROUPS: usize = 7;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The operator looks at a group; what it reads may be old.
    Reconcile(usize),
    /// The watch catches up with a group.
    Watch(usize),
    /// Kubernetes finishes a group, unless its pods never become ready.
    Finish(usize),
    /// New pods of a group never become ready.
    Break(usize),
    /// The user deletes a group.
    Delete(usize),
    /// The user changes a group's application.
    Change(usize),
    /// The operator starts anew, or another takes over.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let group = 0..GROUPS;
    let step = prop_oneof![
        8 => group.clone().prop_map(Step::Reconcile),
        4 => group.clone().prop_map(Step::Watch),
        4 => group.clone().prop_map(Step::Finish),
        1 => group.clone().prop_map(Step::Break),
        1 => group.clone().prop_map(Step::Delete),
        1 => group.prop_map(Step::Change),
        1 => Just(Step::Restart),
    ];
    collection::vec(step, 0..200)
}

struct World {
    settings: Settings,
    wave: Wave,
    groups: Vec<Group>,
}

struct Group {
    /// As the operator reads it.
    observed: Observed,
    hashes: Hashes,
    /// What the API server holds.
    truth: Option<Deployment>,
    broken: bool,
    version: u32,
}

impl World {
    fn new(max: usize) -> Self {
        let groups = (0..GROUPS).map(|number| {
            let mut observed = observed(&format!("metadata: {{name: g{number}}}"));
            let mut live = carried_out(&fresh(&observed));
            live.metadata.uid = Some(format!("uid-{number}"));
            live.metadata.name = Some(format!("g{number}"));
            observed.deployment = Some(Arc::new(live.clone()));
            Group {
                hashes: Hashes::of(&observed.group),
                observed,
                truth: Some(live),
                broken: false,
                version: 1,
            }
        });
        let settings = Settings { upgrade_groups_max: max, ..newer() };
        Self { settings, wave: Wave::default(), groups: groups.collect() }
    }

    fn plan(&self, group: usize) -> Plan {
        let live = self.groups.iter().filter_map(|group| group.observed.deployment.as_deref());
        let known: Vec<_> = live.map(Candidate::from).collect();
        let candidates: Vec<_> = known.iter().collect();
        let view = WaveView { wave: &self.wave, candidates: &candidates };
        let observed = &self.groups[group].observed;
        plan(observed, &self.settings, &view, &self.groups[group].hashes)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Reconcile(number) => self.reconcile(number),
            Step::Watch(number) => self.groups[number].watch(),
            Step::Finish(number) => {
                let group = &mut self.groups[number];
                if let Some(truth) = group.truth.as_mut().filter(|_| !group.broken) {
                    truth.status.as_mut().unwrap().observed_generation = truth.metadata.generation;
                }
            }
            Step::Break(number) => self.groups[number].broken = true,
            Step::Delete(number) => {
                self.groups[number].truth = None;
            }
            Step::Change(number) => {
                let group = &mut self.groups[number];
                group.version += 1;
                let changed = observed(&format!(
                    "{{metadata: {{name: g{number}}}, spec: {{delivery: {{path: /{}}}}}}}",
                    group.version
                ));
                group.hashes = Hashes::of(&changed.group);
                group.observed.group = changed.group;
            }
            Step::Restart => {
                self.wave = Wave::default();
                self.groups.iter_mut().for_each(Group::watch);
            }
        }
    }

    fn reconcile(&mut self, number: usize) {
        if self.groups[number].observed.deployment.is_none() {
            return;
        }
        let plan = self.plan(number);
        let Some(truth) = self.groups[number].truth.as_mut() else { return };
        if plan.template == TemplateSource::KeepLive {
            return;
        }
        let built = begun(&plan);
        if truth.metadata.annotations != built.metadata.annotations {
            truth.metadata.generation = truth.metadata.generation.map(|generation| generation + 1);
            truth.metadata.annotations = built.metadata.annotations;
        }
    }

    /// Groups that an upgrade has changed and whose pods are not all there.
    fn rolling(&self) -> usize {
        let ours = built_by(&self.settings);
        let mark =
            |truth: &Deployment| truth.metadata.annotations.as_ref()?.get(annotations::UPGRADED_TO).cloned();
        let truths = self.groups.iter().filter_map(|group| group.truth.as_ref());
        truths.filter(|truth| mark(truth).as_ref() == Some(&ours) && !is_rolled_out(truth)).count()
    }

    fn waiting(&self) -> usize {
        let ours = built_by(&self.settings);
        let by =
            |truth: &Deployment| truth.metadata.annotations.as_ref()?.get(annotations::BUILT_BY).cloned();
        self.groups
            .iter()
            .filter(|group| group.truth.as_ref().is_some_and(|truth| by(truth).as_ref() != Some(&ours)))
            .count()
    }

    /// Everything that can still happen by itself does.
    fn settle(&mut self) {
        for _ in 0..=GROUPS {
            for step in [Step::Watch, Step::Reconcile, Step::Finish, Step::Watch] {
                (0..GROUPS).for_each(|number| self.step(step(number)));
            }
        }
    }
}

impl Group {
    fn watch(&mut self) {
        self.observed.deployment = self.truth.clone().map(Arc::new);
    }
}

proptest! {
    // A case is a small cluster for two hundred steps.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn never_more_than_the_bound_roll_and_all_get_their_turn(steps in steps(), max in 1..4_usize) {
        let mut world = World::new(max);
        for step in steps {
            world.step(step);
            prop_assert!(world.rolling() <= max, "{step:?}");
        }
        world.settle();
        // Who waits now waits for broken ones, which hold every place.
        prop_assert!(world.waiting() == 0 || world.rolling() == max, "{} wait", world.waiting());
    }
}

#[test]
fn a_broken_group_holds_its_place_and_a_deleted_one_frees_it() {
    let mut world = World::new(1);
    world.step(Step::Break(3));
    world.step(Step::Reconcile(3));
    world.settle();
    assert_eq!((world.rolling(), world.waiting()), (1, GROUPS - 1));
    world.step(Step::Restart);
    world.settle();
    assert_eq!((world.rolling(), world.waiting()), (1, GROUPS - 1), "also for the next operator");
    world.step(Step::Delete(3));
    world.settle();
    assert_eq!((world.rolling(), world.waiting()), (0, 0));
}

#[test]
fn a_place_is_held_before_the_watch_shows_it() {
    let mut world = World::new(2);
    for number in 0..GROUPS {
        world.step(Step::Reconcile(number));
    }
    assert_eq!((world.rolling(), world.waiting()), (2, GROUPS - 2));
    // The group that was let through stays so when it is looked at again.
    assert_eq!(world.plan(0).template, TemplateSource::Build);
    // One that is deleted before it was written frees its place.
    world.step(Step::Delete(0));
    world.step(Step::Watch(0));
    assert_eq!(world.plan(5).template, TemplateSource::Build);
    assert_eq!(world.plan(6).template, TemplateSource::KeepLive);
}

#[test]
fn groups_that_were_broken_before_leave_a_place_to_those_that_work() {
    let mut world = World::new(2);
    for number in 0..3 {
        world.groups[number].broken = true;
        world.groups[number].truth.as_mut().unwrap().metadata.generation = Some(3);
        world.step(Step::Watch(number));
    }
    (0..GROUPS).for_each(|number| world.step(Step::Reconcile(number)));
    assert_eq!(world.rolling(), 2);
    world.settle();
    // The working ones all had their turn through the other place, and then a second broken one took it.
    assert_eq!((world.rolling(), world.waiting()), (2, 1));
}

#[test]
fn a_stalled_group_is_not_waited_for_and_gives_its_place_back() {
    let world = World::new(1);
    let admitted = |world: &World, number| world.plan(number).template == TemplateSource::Build;
    assert!(admitted(&world, 0));
    assert!(!admitted(&world, 1), "one place");
    world.wave.sit_out("shop", "g0", Some("uid-0"));
    assert!(admitted(&world, 1), "the first one is stalled before it was written");
    assert!(!admitted(&world, 0), "repaired, it asks like any other");

    // All that work are stalled: a broken one need not leave the only place to them.
    let mut world = World::new(1);
    world.groups[6].truth.as_mut().unwrap().metadata.generation = Some(3);
    world.step(Step::Watch(6));
    assert!(!admitted(&world, 6));
    (0..5).for_each(|number| world.wave.sit_out("shop", &format!("g{number}"), None));
    assert!(!admitted(&world, 6), "the last one may still come");
    world.wave.sit_out("shop", "g5", None);
    assert!(admitted(&world, 6));
}

#[test]
fn a_users_own_broken_change_holds_no_place() {
    let mut world = World::new(1);
    for number in 0..3 {
        world.step(Step::Break(number));
        world.step(Step::Change(number));
    }
    world.settle();
    assert_eq!((world.rolling(), world.waiting()), (0, 0));
}
