//! lockstep-tests-support
