//! Reading of anything at all.

use proptest::prelude::*;

use super::{ROCKETMQ, patched};
use crate::{Strictness, parse};

fn yaml() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-zA-Z0-9:/%|. -]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof![
            Just("rocketmq".to_owned()),
            Just("delivery".to_owned()),
            Just("port".to_owned()),
            Just("subscriptions".to_owned()),
            Just("topic".to_owned()),
            Just("retry".to_owned()),
            Just("backoff".to_owned()),
            Just("source".to_owned()),
            Just("statusCodes".to_owned()),
            Just("done".to_owned()),
            Just("nameServers".to_owned()),
            Just("timeoutSeconds".to_owned()),
            "[a-zA-Z]{1,8}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in a spec is read or refused, never a panic.
    #[test]
    fn any_spec_is_read_or_refused(spec in yaml()) {
        let over = serde_yaml::to_string(&serde_json::json!({ "spec": spec })).unwrap();
        let text = patched(ROCKETMQ, &over);
        for strictness in [Strictness::Strict, Strictness::Tolerant] {
            if let Err(mistakes) = parse(&text, strictness) {
                prop_assert!(mistakes.len() > 0);
                prop_assert!(!mistakes.to_string().is_empty());
            }
        }
    }

    /// So is any text.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", more in "[-a-z:&*!\\[\\]{},\"'|>%@#\\n\\t ]{0,200}") {
        prop_assert!(parse(&text, Strictness::Strict).is_err());
        prop_assert!(parse(&more, Strictness::Strict).is_err());
    }
}
