//! Tests that need file systems of many kinds, run by `./test --full` only.

mod file_systems;
