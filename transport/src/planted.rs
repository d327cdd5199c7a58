//! Bugs planted on purpose, to prove that the tests find them.
//!
//! Each is one line of the engine or of what stands on it, behind [`planted!`](crate::planted!) and a name. Without
//! debug assertions, as in every release, the macro is `false`, and nothing is left of the branch. With them none is on
//! until the program of the mutants chooses one for its process. What they are and what has found them:
//! `docs/testing.md`.

use std::sync::OnceLock;

/// Whether bugs are planted in this build: in those with debug assertions.
pub const ARE_PLANTED: bool = cfg!(debug_assertions);

static CHOSEN: OnceLock<String> = OnceLock::new();

/// Whether the planted bug of this name is on.
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is_on($name)
    };
}

/// Chooses the planted bug of this name, for the rest of this process; where none [is planted](ARE_PLANTED), nothing
/// comes of it.
///
/// # Panics
/// If one has been chosen before.
pub fn choose(name: &str) {
    CHOSEN.set(name.to_owned()).expect("one bug at a time");
}

/// Whether the planted bug of this name has been chosen.
#[inline]
pub fn is_on(name: &str) -> bool {
    ARE_PLANTED && CHOSEN.get().is_some_and(|chosen| chosen == name)
}
