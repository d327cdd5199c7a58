//! Fuzz target (libFuzzer) for frames received by a communicator; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("group", bytes));
