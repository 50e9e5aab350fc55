//! lockstep-sidecar
