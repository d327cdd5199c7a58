//! What must not outlive a process that is ended at once: half a file, a command that takes its end for that of the
//! whole.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::{Path, PathBuf};

/// All that is unfinished.
static UNFINISHED: Mutex<Vec<What>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File(PathBuf),
    Group(Pid),
}

/// Something unfinished, for as long as this is there.
#[derive(Debug)]
pub struct Unfinished(What);

impl Unfinished {
    /// Whoever ends the process at once removes this file first.
    pub fn note(path: &Path) -> Unfinished {
        Unfinished::note_this(What::File(path.to_owned()))
    }

    /// Whoever ends the process at once kills this group of processes first.
    pub fn note_group(group: Pid) -> Unfinished {
        Unfinished::note_this(What::Group(group))
    }

    fn note_this(what: What) -> Unfinished {
        UNFINISHED.lock().push(what.clone());
        Unfinished(what)
    }

    /// Removes and kills all of it: the process ends next.
    pub fn remove_all() {
        // Not unlocked again: nobody makes another one before the process ends.
        let unfinished = UNFINISHED.lock();
        for what in unfinished.iter() {
            match what {
                What::File(path) => drop(std::fs::remove_file(path)),
                What::Group(group) => drop(kill_process_group(*group, Signal::KILL)),
            }
        }
        std::mem::forget(unfinished);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        UNFINISHED.lock().retain(|what| *what != self.0);
    }
}
