//! The process that opened something. A forked child has a copy of it, but none of its threads, and
//! its socket is the parent's.

use thiserror::Error;

/// The process that opened something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener(u32);

/// A call in a forked child on what its parent has opened. Nothing was sent, and the parent's is as
/// it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "this process is a fork of process {parent}, which opened this and still has it: open one here, or start this \
     process anew instead (in Python by multiprocessing's spawn or forkserver)"
)]
pub struct Forked {
    /// Id of the process that opened it.
    pub parent: u32,
}

impl Opener {
    /// Returns the calling process.
    pub fn here() -> Opener {
        Opener(std::process::id())
    }

    /// Fails in every other process.
    ///
    /// # Errors
    /// If this process is a fork of the one that opened it.
    pub fn check(self) -> Result<(), Forked> {
        if self == Opener::here() { Ok(()) } else { Err(Forked { parent: self.0 }) }
    }
}

#[test]
fn another_process_is_told_whose_it_is() {
    assert_eq!(Opener::here().check(), Ok(()));
    let parent = std::process::id() + 1;
    assert_eq!(Opener(parent).check(), Err(Forked { parent }));
}
