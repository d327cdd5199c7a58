//! Fuzz target (libFuzzer) for compressed and virtual-machine images; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("packed", bytes));
