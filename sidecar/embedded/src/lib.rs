//! lockstep-embedded
