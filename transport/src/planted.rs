//! Deliberate bugs, switched on one at a time to test the tests.
//!
//! Each is one line of the engine or of a crate above it, behind [`planted!`](crate::planted!) and
//! a name. Without debug assertions, as in every release, the macro is `false`, and the compiler
//! removes the branch. With them none is on until the mutation program chooses one for its process.
//! `docs/testing.md` lists them with the tests that have found them.

use std::sync::OnceLock;

/// Whether this build contains the seeded faults: true with debug assertions.
pub const ARE_PLANTED: bool = cfg!(debug_assertions);

static CHOSEN: OnceLock<String> = OnceLock::new();

/// Whether the seeded fault of this name is on.
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is_on($name)
    };
}

/// Turns on the seeded fault of this name, for the rest of this process; without effect in builds
/// [without them](ARE_PLANTED).
///
/// # Panics
/// If one has been chosen before.
pub fn choose(name: &str) {
    CHOSEN.set(name.to_owned()).expect("one bug at a time");
}

#[inline]
pub fn is_on(name: &str) -> bool {
    ARE_PLANTED && CHOSEN.get().is_some_and(|chosen| chosen == name)
}
