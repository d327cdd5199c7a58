//! Simulated switched Ethernet.
