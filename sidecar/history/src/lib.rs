//! lockstep-history
