//! What takes file systems of many kinds, in `./test --full` alone.

mod file_systems;
