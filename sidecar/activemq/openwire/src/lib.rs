//! OpenWire, the protocol of ActiveMQ: commands, messages and their bodies, without I/O.
