//! Scenarios with real ActiveMQ brokers.
