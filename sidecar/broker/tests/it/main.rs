//! The conformance suite on the broker in memory, as it is and made unreliable.

mod memory;
