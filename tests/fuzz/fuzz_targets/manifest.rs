//! Fuzz target (libFuzzer) for the file list of a received directory; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("manifest", bytes));
