//! libFuzzer target `manifest`: see `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("manifest", bytes));
