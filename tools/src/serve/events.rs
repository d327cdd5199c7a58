//! Events between the server's threads, and log levels.

use crate::exit::{one_line, print_line};
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
        print_line(self.line(text, *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some())));
    }

    /// Returns the line. A name of the sender's cannot begin another, which the journal would read with a level of its
    /// own.
    fn line(self, text: &str, is_journal: bool) -> String {
        let level = match self {
            Say::Error => 3,
            Say::Warning => 4,
            Say::Info => 6,
        };
        let text = one_line(text);
        if is_journal { format!("<{level}>{text}") } else { format!("ethbcast: {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_no_line_of_its_own_and_turns_none_round() {
        let text = "a\n<0>the disk is full\u{1b}[2J\u{202e}x";
        assert_eq!(Say::Error.line(text, true), "<3>a\u{FFFD}<0>the disk is full\u{FFFD}[2J\u{FFFD}x");
        assert_eq!(Say::Info.line("a\nb", false), "ethbcast: a\u{FFFD}b");
    }
}
