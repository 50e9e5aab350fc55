//! lockstep-contract
