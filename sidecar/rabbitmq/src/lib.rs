//! The RabbitMQ adapter, with an own AMQP 0-9-1 client.
//!
//! This crate owns everything that is RabbitMQ's: the protocol, sessions, ownership of queues, settlement and dead
//! letters. It knows nothing of the engine and of HTTP callbacks.

pub mod amqp;
