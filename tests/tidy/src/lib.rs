//! lockstep-tests-tidy
