//! The lease-keeping half: membership, allocation, locks and their renewal.

mod machine;
