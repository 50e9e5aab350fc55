//! lockstep-tests-sim
