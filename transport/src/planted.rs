//! Bugs planted on purpose, to prove that the tests find them.
//!
//! Each is one line of the engine or of what stands on it, behind [`planted!`](crate::planted!) and a name. In every
//! build but that of the mutants (`--cfg planted`) the macro is `false`, and nothing is left of the branch. There, one
//! of them is chosen for a process. What they are and what has found them: `docs/testing.md`.

/// Whether the planted bug of this name is on: `false` but in a build with `--cfg planted`.
#[cfg(not(planted))]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        false
    };
}

/// Whether the planted bug of this name is on.
#[cfg(planted)]
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        $crate::planted::is_on($name)
    };
}

#[cfg(planted)]
mod choice {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<String> = OnceLock::new();

    /// Chooses the planted bug of this name, for the rest of this process.
    ///
    /// # Panics
    /// If one has been chosen before.
    pub fn choose(name: &str) {
        CHOSEN.set(name.to_owned()).expect("one bug at a time");
    }

    /// Whether the planted bug of this name has been chosen.
    pub fn is_on(name: &str) -> bool {
        CHOSEN.get().is_some_and(|chosen| chosen == name)
    }
}

#[cfg(planted)]
pub use choice::{choose, is_on};
