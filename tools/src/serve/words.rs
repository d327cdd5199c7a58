//! What the parts of a server tell each other, and what it says to whoever reads its log.

use crate::exit::say;
use nix::sys::signal::Signal;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// What the server's own thread is told.
#[derive(Debug)]
pub enum Word {
    /// By the system.
    Signal(Signal),
    /// A group can be served.
    Open(String),
    /// A group's interface is not there.
    Waits(String),
    /// A session is over.
    Over {
        /// Whether all that was sent is here.
        is_delivered: bool,
    },
    /// A group's thread has ended, and why, if nobody told it to.
    Ended(String, anyhow::Result<()>),
}

/// Where they are told.
#[derive(Clone, Debug)]
pub struct Words(Sender<Word>);

impl Words {
    /// The two ends.
    pub fn channel() -> (Words, std::sync::mpsc::Receiver<Word>) {
        let (sender, receiver) = channel();
        (Words(sender), receiver)
    }

    /// Tells; a server that has ended does not listen any more.
    pub fn send(&self, word: Word) {
        drop(self.0.send(word));
    }
}

/// How much a line matters, as syslog(3) counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// Something has failed.
    Error,
    /// Something is not as it should be.
    Warning,
    /// Something has happened.
    Info,
}

impl Say {
    /// Says a line on stderr; in front of it, if the journal reads it, how much it matters (sd-daemon(3)).
    pub fn say(self, text: &str) {
        static JOURNAL: OnceLock<bool> = OnceLock::new();
        let is_journal = *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some());
        let level = match self {
            Say::Error => 3,
            Say::Warning => 4,
            Say::Info => 6,
        };
        if is_journal { say(format_args!("<{level}>{text}")) } else { say(format_args!("ethbcast: {text}")) }
    }
}
