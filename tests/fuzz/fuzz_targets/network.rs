//! Fuzz target (libFuzzer) for outputs of Slurm and LLDP, and host lists; the code is in
//! `ethbcast_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ethbcast_tests::fuzz::run("network", bytes));
