//! The health gate: asks the application again and again whether it is well, on a connection of its own each time.
