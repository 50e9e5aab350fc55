mod membership;

use proptest::{collection::vec, prelude::*, sample::Index};

use super::*;

const HAND_OVER: Duration = Duration::from_secs(30);

/// Pods and queues over time.
struct World {
    start: Instant,
    queues: Vec<String>,
    members: Vec<Member>,
    now: Instant,
    assigned: Assignment,
}

impl World {
    fn new(queues: usize, pods: usize) -> Self {
        let start = Instant::now();
        let queues = (0..queues).map(|index| format!("orders-{index}")).collect();
        let mut world = Self { start, queues, members: Vec::new(), now: start, assigned: Assignment::new() };
        (0..pods).for_each(|pod| world.join(&format!("pod-{pod}")));
        world.assign();
        world
    }

    fn join(&mut self, pod: &str) {
        self.members.push(Member { pod: pod.to_owned(), fit: true, since: self.now });
    }

    fn leave(&mut self, pod: &str) {
        self.members.retain(|member| member.pod != pod);
    }

    fn turn(&mut self, pod: &str, fit: bool) {
        let now = self.now;
        let member = self.members.iter_mut().find(|member| member.pod == pod).unwrap();
        (member.fit, member.since) = (fit, now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Assigns anew; answers how many queues of pods that are still there moved, and how many of pods that are gone.
    fn assign(&mut self) -> (usize, usize) {
        let before = std::mem::take(&mut self.assigned);
        self.assigned = assign(&self.queues, &self.members, &before, HAND_OVER, self.now);
        let mut moved = (0, 0);
        for (pod, queues) in &before {
            match self.assigned.get(pod) {
                Some(now) => moved.0 += queues.iter().filter(|queue| !now.contains(queue)).count(),
                None => moved.1 += queues.len(),
            }
        }
        moved
    }

    fn sizes(&self) -> Vec<usize> {
        self.assigned.values().map(Vec::len).collect()
    }

    fn of(&self, pod: &str) -> Vec<String> {
        self.assigned[pod].clone()
    }

    /// Each queue is with one pod, and nobody has two more than another.
    fn check(&self) {
        let mut all: Vec<_> = self.assigned.values().flatten().cloned().collect();
        all.sort();
        let mut wanted = self.queues.clone();
        wanted.sort();
        assert_eq!(all, wanted);
        let sizes = self.sizes();
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Pods come and go one by one. A pod that comes moves its own share, rounded down, and nothing else; one that goes
    /// moves what it had and nothing else.
    #[test]
    fn nothing_moves_without_need(queues in 0_usize..70, changes in vec((any::<bool>(), any::<Index>()), 1..40)) {
        let mut world = World::new(queues, 1);
        for (number, (comes, which)) in changes.into_iter().enumerate() {
            let pods = world.members.len();
            if comes || pods == 1 {
                world.join(&format!("new-{number}"));
                world.pass(SETTLE);
                prop_assert_eq!(world.assign(), (queues / (pods + 1), 0));
            } else {
                let gone = which.get(&world.members).pod.clone();
                let had = world.of(&gone).len();
                prop_assert!(had <= queues.div_ceil(pods));
                world.leave(&gone);
                prop_assert_eq!(world.assign(), (0, had));
            }
            world.check();
            prop_assert_eq!(world.assign(), (0, 0), "a second look changes nothing");
        }
    }

    /// The same facts in another order give the same answer.
    #[test]
    fn order_does_not_matter(queues in 0_usize..40, pods in 1_usize..9, turn in any::<usize>()) {
        let world = World::new(queues, pods);
        let (mut members, mut names) = (world.members.clone(), world.queues.clone());
        members.rotate_left(turn % pods);
        if !names.is_empty() {
            let by = turn % names.len();
            names.rotate_left(by);
        }
        let again = assign(&names, &members, &Assignment::new(), HAND_OVER, world.now);
        prop_assert_eq!(again, world.assigned);
    }

    /// Whatever the former state: each queue is with one pod, and the answer is stable.
    #[test]
    fn any_former_state_is_repaired(former in vec(vec(0_usize..20, 0..25), 0..6), fit in vec(any::<bool>(), 1..6)) {
        let mut world = World::new(12, 0);
        for (pod, queues) in former.into_iter().enumerate() {
            let names = queues.into_iter().map(|queue| format!("orders-{queue}")).collect();
            world.assigned.insert(format!("pod-{pod}"), names);
        }
        for (pod, fit) in fit.iter().enumerate() {
            let member = Member { pod: format!("pod-{pod}"), fit: *fit, since: world.start };
            world.members.push(member);
        }
        world.pass(HAND_OVER);
        world.assign();
        let mut all: Vec<_> = world.assigned.values().flatten().collect();
        all.sort();
        let count = all.len();
        all.dedup();
        prop_assert_eq!(all.len(), count, "a queue is with two pods");
        if fit.contains(&true) {
            prop_assert_eq!(count, 12);
        }
        prop_assert_eq!(world.assign(), (0, 0));
    }
}

#[test]
fn a_pod_that_falls_ill_keeps_its_queues_for_the_hand_over_time() {
    let mut world = World::new(9, 3);
    let ill = world.of("pod-1");
    world.turn("pod-1", false);
    world.pass(HAND_OVER - Duration::from_millis(1));
    assert_eq!(world.assign(), (0, 0));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.assign(), (ill.len(), 0));
    assert!(world.of("pod-1").is_empty());
    world.turn("pod-1", true);
    assert_eq!(world.assign(), (0, 0), "it has to be fit for a while");
    world.pass(SETTLE);
    assert_eq!(world.assign(), (3, 0));
    world.check();
}

#[test]
fn an_ill_pod_gets_nothing_more() {
    let mut world = World::new(9, 3);
    let ill = world.of("pod-1");
    world.turn("pod-1", false);
    world.leave("pod-2");
    world.assign();
    assert_eq!(world.of("pod-1"), ill);
    assert_eq!(world.of("pod-0").len(), 6);
}

#[test]
fn a_pod_that_comes_and_goes_moves_nothing() {
    let mut world = World::new(8, 2);
    for _ in 0..5 {
        world.join("restless");
        world.pass(SETTLE / 2);
        assert_eq!(world.assign(), (0, 0));
        assert_eq!(world.of("restless"), Vec::<String>::new());
        world.leave("restless");
        world.pass(SETTLE);
        world.assign();
    }
}

#[test]
fn the_first_pods_take_everything_at_once() {
    let world = World::new(8, 2);
    world.check();
    let mut world = World::new(8, 1);
    world.leave("pod-0");
    world.join("successor");
    assert_eq!(world.assign(), (0, 8));
    world.check();
}

#[test]
fn while_nobody_is_fit_everything_stays() {
    let mut world = World::new(8, 3);
    let before = world.assigned.clone();
    for pod in ["pod-0", "pod-1", "pod-2"] {
        world.turn(pod, false);
    }
    world.pass(HAND_OVER * 10);
    world.assign();
    assert_eq!(world.assigned, before);
}

#[test]
fn more_pods_than_queues() {
    let mut world = World::new(2, 5);
    world.check();
    let (idle, _) = world.assigned.iter().find(|(_, queues)| queues.is_empty()).unwrap();
    let idle = idle.clone();
    world.leave(&idle);
    assert_eq!(world.assign(), (0, 0));
}

#[test]
fn queues_spread_over_pods_by_their_score() {
    // With a poor hash all leftovers would go to one pod: a single pod's share of many separate draws must be fair.
    let pods: Vec<_> = (0..4).map(|pod| format!("orders-6d4f8b7c9-{pod}")).collect();
    let mut wins = [0; 4];
    for queue in 0..4_000 {
        let best = (0..4).max_by_key(|pod| score(&pods[*pod], &format!("orders-{queue}"))).unwrap();
        wins[best] += 1;
    }
    assert!(wins.iter().all(|wins| (850..1150).contains(wins)), "{wins:?}");
}

#[test]
fn the_annotation_is_a_list_of_names_within_bounds() {
    let queues = ["a\"b", "ü"].map(str::to_owned);
    let text = annotation(&queues).unwrap();
    assert_eq!(text, r#"["a\"b","ü"]"#);
    let largest = vec!["q".repeat(255); 256];
    assert!(annotation(&largest).is_ok(), "the longest list that the resource allows");
    let escaped = vec!["\u{1}".repeat(255); 256];
    let error = annotation(&escaped).unwrap_err().to_string();
    assert!(error.contains("256 queues") && error.contains("divide"), "{error}");
}
