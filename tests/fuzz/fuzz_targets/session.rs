//! Fuzz target (libFuzzer) for frames received during a transfer; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("session", bytes));
