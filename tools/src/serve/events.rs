//! Events between the server's threads, and log levels.

use crate::exit::print_line;
use nix::sys::signal::Signal;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

/// Event for the main thread.
#[derive(Debug)]
pub enum ServeEvent {
    Signal(Signal),
    Open(String),
    Waits(String),
    Over {
        is_delivered: bool,
    },
    /// A worker has ended, with the error if it was not asked to.
    Ended(String, anyhow::Result<()>),
}

#[derive(Clone, Debug)]
pub struct ServeLog(Sender<ServeEvent>);

impl ServeLog {
    pub fn channel() -> (ServeLog, std::sync::mpsc::Receiver<ServeEvent>) {
        let (sender, receiver) = channel();
        (ServeLog(sender), receiver)
    }

    /// Sends an event, which is dropped after the end of the server.
    pub fn send(&self, word: ServeEvent) {
        drop(self.0.send(word));
    }
}

/// Log level, as in syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    Error,
    Warning,
    Info,
}

impl Say {
    /// Writes a line to stderr, prefixed with its level if the journal reads it (sd-daemon(3)).
    pub fn print(self, text: &str) {
        static JOURNAL: OnceLock<bool> = OnceLock::new();
        let is_journal = *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some());
        let level = match self {
            Say::Error => 3,
            Say::Warning => 4,
            Say::Info => 6,
        };
        if is_journal {
            print_line(format_args!("<{level}>{text}"))
        } else {
            print_line(format_args!("ethbcast: {text}"))
        }
    }
}
