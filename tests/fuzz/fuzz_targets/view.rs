//! Fuzz target (libFuzzer) for a transfer's list of members; the code is in `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("view", bytes));
