//! Each libFuzzer target, by the name of its program: see `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run(env!("CARGO_BIN_NAME"), bytes));
