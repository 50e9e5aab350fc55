//! Queues that the broker gives to one consumer at a time: who takes which, when, and for how long.
