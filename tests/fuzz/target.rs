//! Main file of all libFuzzer programs: each runs the target of its own name
//! (`ethbcast_tests::fuzz`).
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run(
    env!("CARGO_BIN_NAME"),
    bytes
));
