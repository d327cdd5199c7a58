//! Fuzz target (libFuzzer) for the map of a received file with holes; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("map", bytes));
