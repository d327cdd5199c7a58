//! ethbcast.
fn main() {}
