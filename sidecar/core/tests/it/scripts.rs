use lockstep_core::{OrderingMode, Output};

use crate::world::{Q, World, config};

#[test]
fn a_queue_is_delivered_in_order_and_committed() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    assert!(world.took(&Output::JoinGroup));
    world.fetch(0..3);
    for position in 0..3 {
        assert_eq!(world.attempted(), [position]);
        world.answer(position, 200);
    }
    assert_eq!(world.confirm_all(), Some(3));
}

#[test]
fn a_failed_attempt_is_tried_again_before_anything_else() {
    let mut world = World::new(config(OrderingMode::PerQueue));
    world.fetch(0..2);
    world.answer(0, 500);
    assert!(world.attempted().is_empty());
    world.secs(1);
    assert_eq!(world.attempted(), [0]);
    assert_eq!(world.number(0), 2);
    world.answer(0, 200);
    assert_eq!(world.attempted(), [1]);
    assert_eq!(world.commit_asked(Q), None, "one delivery younger than 5 ms is not worth a commit");
    world.millis(5);
    assert_eq!(world.commit_asked(Q), Some(1));
}
