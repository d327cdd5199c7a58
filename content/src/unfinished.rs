//! Registry of files and process groups that must not outlive a process that ends at once: half a
//! file, or a command that would take the end of its input for success.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::{Path, PathBuf};

static UNFINISHED: Mutex<Vec<What>> = Mutex::new(Vec::new());

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    File(PathBuf),
    Group(Pid),
}

/// Guard of a registered file or process group.
#[derive(Debug)]
pub struct Unfinished(What);

impl Unfinished {
    /// Registers a file to be removed if the process ends at once.
    pub fn note(path: &Path) -> Unfinished {
        Unfinished::note_this(What::File(path.to_owned()))
    }

    /// Registers a process group to be killed if the process ends at once.
    pub fn note_group(group: Pid) -> Unfinished {
        Unfinished::note_this(What::Group(group))
    }

    fn note_this(what: What) -> Unfinished {
        UNFINISHED.lock().push(what.clone());
        Unfinished(what)
    }

    /// Removes all registered files and kills all registered groups. The process must end next.
    pub fn remove_all() {
        // Not unlocked: nothing may be registered before the process ends.
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
