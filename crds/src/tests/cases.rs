//! Every case holds, and every rule has one.

use std::collections::BTreeSet;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use lockstep_contract::{Reason, Rule, Strictness, parse};
use serde_json::Value;

use super::schema::{filled, mistakes};
use crate::{
    CEL_RULES, ConsumerGroup,
    cases::{BesideRule, Bound, Case, Held, Keyed, Refused, SpecRule, TemplateRule, ToldRule, When},
};

fn compiled() -> (Value, CompiledSchema) {
    let schema = super::schema();
    let rules = compile_schema(&schema);
    assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
    (schema, rules)
}

/// The field and the words of everything that an API server would refuse.
fn refusals(
    (schema, rules): &(Value, CompiledSchema),
    value: &Value,
    before: Option<&Value>,
) -> Vec<(String, String)> {
    let ready = |value: &Value| {
        let mut value = value.clone();
        filled(schema, &mut value);
        value
    };
    let (value, before) = (ready(value), before.map(ready));
    let found = mistakes(schema, &value);
    if !found.is_empty() {
        return found;
    }
    match Validator::new().validate_compiled(rules, &value, before.as_ref()) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.iter().map(|error| (error.field_path.clone(), error.message.clone())).collect(),
    }
}

fn contract(value: &Value) -> Vec<(Rule, String)> {
    match parse(&value.to_string(), Strictness::Strict) {
        Ok(_) => Vec::new(),
        Err(found) => found.iter().map(|mistake| (mistake.rule, mistake.to_string())).collect(),
    }
}

/// `a[b]` and `a.b` are one field.
fn plain(path: &str) -> String {
    path.replace('[', ".").replace(']', "").trim_start_matches('.').to_owned()
}

#[test]
fn what_keeps_a_rule_is_taken() {
    let schema = compiled();
    for case in Case::all() {
        let value = case.keeping();
        let refused = refusals(&schema, &value, case.before().as_ref());
        assert!(refused.is_empty(), "{case}: {refused:?}");
        assert_eq!(contract(&value), [], "{case}");
        let mut value = value;
        filled(&schema.0, &mut value);
        let group: ConsumerGroup = serde_json::from_value(value).unwrap();
        assert!(group.spec.template.spec.is_some(), "{case}");
    }
}

#[test]
fn what_breaks_a_rule_is_refused_by_name_and_once() {
    let schema = compiled();
    for case in Case::all() {
        let value = case.breaking();
        let refused = refusals(&schema, &value, case.before().as_ref());
        match case.refused {
            Refused::ByApiServer => {
                let [(field, text)] = refused.as_slice() else { panic!("{case}: {refused:?}") };
                assert_eq!(plain(field), plain(case.field), "{case}: {text}");
                assert!(text.contains(case.says), "{case}: {text}");
            }
            Refused::ByOperator(_) => assert!(refused.is_empty(), "{case}: {refused:?}"),
        }
        if let Held::Cel(id) = case.held {
            let rule = CEL_RULES.iter().find(|rule| rule.id == id).expect(id);
            assert_eq!(refused[0].1, rule.message, "{case}");
        }
    }
}

/// What concerns the sidecar is refused by `lockstep-sidecar check` as well, which knows nothing of the definition.
#[test]
fn the_contract_refuses_the_same() {
    let operators = ["spec.template", "spec.replicas", "spec.podDisruptionBudget"];
    for case in Case::all().filter(|case| case.when == When::Create) {
        let expected = match (case.held, case.refused) {
            (Held::Contract(_), _) => true,
            (_, Refused::ByOperator(_)) => false,
            // Bounds for the API server alone.
            (Held::Schema(Bound::MaxProperties), _) => false,
            _ => !operators.iter().any(|path| case.field.starts_with(path)),
        };
        let found = contract(&case.breaking());
        assert_eq!(!found.is_empty(), expected, "{case}: {found:?}");
        if let Held::Contract(rule) = case.held {
            assert!(found.iter().all(|(found, _)| *found == rule), "{case}: {found:?}");
            assert!(found[0].1.contains(case.field) && found[0].1.contains(case.says), "{case}: {found:?}");
            assert_eq!(case.refused, Refused::ByOperator(Reason::InvalidSpec));
        }
    }
}

#[test]
fn every_rule_has_a_case() {
    let has = |held: Held| Case::all().any(|case| case.held == held);
    for rule in CEL_RULES {
        assert!(has(Held::Cel(rule.id)), "the rule {} has no case", rule.id);
    }
    for bound in Bound::ALL {
        assert!(has(Held::Schema(*bound)), "{bound:?} has no case");
    }
    for rule in TemplateRule::ALL {
        assert!(has(Held::Template(*rule)), "{rule:?} has no case");
    }
    for rule in SpecRule::ALL {
        assert!(has(Held::Spec(*rule)), "{rule:?} has no case");
    }
    for list in Keyed::ALL {
        assert!(has(Held::Once(*list)), "{list:?} has no case");
    }
    for rule in BesideRule::ALL {
        assert!(has(Held::Beside(*rule)), "{rule:?} has no case");
    }
    for rule in ToldRule::ALL {
        assert!(has(Held::Told(*rule)), "{rule:?} has no case");
    }
}

#[test]
fn every_rule_of_the_contract_has_a_case() {
    // About a file's text, or about which resource it is: no object of this kind can break them.
    let of_files = [
        Rule::Syntax,
        Rule::Size,
        Rule::Nesting,
        Rule::Empty,
        Rule::OneDocument,
        Rule::DuplicateKey,
        Rule::TextKey,
        Rule::ApiVersion,
        Rule::Kind,
    ];
    let broken: BTreeSet<Rule> =
        Case::all().flat_map(|case| contract(&case.breaking())).map(|(rule, _)| rule).collect();
    for rule in Rule::ALL.iter().filter(|rule| !of_files.contains(rule)) {
        assert!(broken.contains(rule), "{rule:?} has no case");
    }
}

#[test]
fn names_of_rules_are_distinct() {
    let ids: BTreeSet<&str> = CEL_RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), CEL_RULES.len());
}
