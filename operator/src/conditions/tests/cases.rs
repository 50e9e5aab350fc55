//! The rules that Kubernetes holds once the children are made, from the table of all rules.

use lockstep_crds::cases::{Case, Held, Refused, ToldRule};

use crate::status::{ApplyFailure, scene::Scene};

#[test]
fn what_kubernetes_does_not_take_is_told_by_reason() {
    let mut cases = 0;
    for case in Case::all() {
        let (Held::Told(rule), Refused::ByOperator(reason)) = (case.held, case.refused) else { continue };
        let mut scene = Scene::new();
        match rule {
            ToldRule::ChildTaken => {
                let message = format!("{}: {}", case.field, case.says);
                scene.failure = Some(ApplyFailure { message, for_good: true });
            }
            ToldRule::ImageName => scene.waits("c", case.says),
        }
        assert_eq!(scene.condition("Stalled"), format!("True/{reason}"), "{case}");
        let message = scene.message("Stalled");
        assert!(message.contains(case.field) && message.contains(case.says), "{case}: {message}");
        assert!(scene.condition("Ready").starts_with("False/"), "{case}");
        assert_eq!(Scene::new().condition("Stalled"), "False/NotStalled");
        cases += 1;
    }
    assert_eq!(cases, ToldRule::ALL.len());
}
