use crate::Problem;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Messages of the source will not come.
    Error,
    /// They will, as long as nothing else fails.
    Warning,
}

/// One thing in the way of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How grave it is.
    pub severity: Severity,
    /// What it is, and the cure.
    pub problem: Problem,
}

impl Finding {
    /// Messages of the source will not come.
    pub const fn error(problem: Problem) -> Self {
        Self { severity: Severity::Error, problem }
    }

    /// They will, as long as nothing else fails.
    pub const fn warning(problem: Problem) -> Self {
        Self { severity: Severity::Warning, problem }
    }

    /// The gravest first, and none twice in a row.
    pub fn in_order(mut findings: Vec<Self>) -> Vec<Self> {
        findings.sort_by_key(|finding| finding.severity);
        findings.dedup();
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_before_warnings_and_in_the_order_in_which_they_were_found() {
        let problem = |reason| Problem { reason, message: String::new(), remedy: String::new() };
        let (a, b, c) =
            (Finding::warning(problem("A")), Finding::error(problem("B")), Finding::error(problem("C")));
        let found = vec![a.clone(), b.clone(), a.clone(), c.clone()];
        assert_eq!(Finding::in_order(found), [b, c, a]);
    }
}
