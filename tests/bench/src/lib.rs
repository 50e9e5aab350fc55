//! lockstep-tests-bench
