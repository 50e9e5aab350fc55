//! The ActiveMQ adapter, for Classic and Artemis over OpenWire.

mod client;
