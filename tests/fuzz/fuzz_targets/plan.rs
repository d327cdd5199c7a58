//! Fuzz target (libFuzzer) for files of saved broadcast trees; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("plan", bytes));
