//! Messages of the daemon to systemd and its journal, and from its threads to each other.
//!
//! Notifications go as datagrams to the socket of systemd's `sd_notify(3)`; without a supervisor
//! they go nowhere.

use crate::exit::{one_line, print_line};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

#[derive(Debug)]
pub struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// Time without a notification after which the supervisor considers the process hung.
    patience: Option<Duration>,
}

impl Supervisor {
    /// Reads the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`). Fails if the
    /// socket's name is invalid.
    pub fn of_environment() -> io::Result<Supervisor> {
        let socket = std::env::var_os("NOTIFY_SOCKET").map(connect).transpose()?;
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_meant =
            number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let micros =
            number("WATCHDOG_USEC").filter(|&micros| micros > 0 && is_meant && socket.is_some());
        Ok(Supervisor {
            socket,
            patience: micros.map(Duration::from_micros),
        })
    }

    /// Sends lines to the supervisor. Errors are ignored, because they do not concern the sessions.
    pub fn notify(&self, lines: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        if let Err(error) = socket.send_to_addr(lines.as_bytes(), address) {
            log::warn!(
                "cannot notify the supervisor of \"{}\": {error}",
                lines.escape_default()
            );
        }
    }

    pub fn ticks_every(&self) -> Option<Duration> {
        self.patience.map(|patience| patience / 4)
    }
}

fn connect(name: OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// Check for stuck event loops: each is woken at one check and must have turned by the next.
#[derive(Debug, Default)]
pub struct Rounds {
    seen: BTreeMap<String, u64>,
}

impl Rounds {
    /// Records the turns of the running loops, and returns those without progress since the last
    /// check.
    pub fn look<'a>(&mut self, loops: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<String> {
        let now: BTreeMap<String, u64> = loops
            .into_iter()
            .map(|(name, turns)| (name.to_owned(), turns))
            .collect();
        let stuck = now
            .iter()
            .filter(|(name, turns)| self.seen.get(*name) == Some(turns));
        let stuck = stuck.map(|(name, _)| name.clone()).collect();
        self.seen = now;
        stuck
    }
}

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
pub enum Severity {
    Error,
    Warning,
    Info,
}

impl Severity {
    /// Writes a line to stderr, prefixed with its level if the journal reads it (sd-daemon(3)).
    pub fn print(self, text: &str) {
        static JOURNAL: OnceLock<bool> = OnceLock::new();
        print_line(self.line(
            text,
            *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some()),
        ));
    }

    /// Returns the line. A name of the sender's cannot begin another, which the journal would read
    /// with a level of its own.
    fn line(self, text: &str, is_journal: bool) -> String {
        let level = match self {
            Severity::Error => 3,
            Severity::Warning => 4,
            Severity::Info => 6,
        };
        let text = one_line(text);
        if is_journal {
            format!("<{level}>{text}")
        } else {
            format!("ethbcast: {text}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_has_not_come_round_since_the_last_look_is_stuck_and_a_new_one_is_not() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.look([("a", 0), ("b", 5)]), [""; 0]);
        assert_eq!(rounds.look([("a", 1), ("b", 5), ("c", 0)]), ["b"]);
        assert_eq!(
            rounds.look([("a", 2), ("b", 6)]),
            [""; 0],
            "it has come round after all, and one has ended"
        );
        assert_eq!(rounds.look([("c", 0)]), [""; 0], "it was away in between");
    }

    #[test]
    fn a_supervisor_is_notified_at_a_path_and_at_an_abstract_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        // A name that is unique in this network namespace.
        let abstract_name = path.display().to_string();
        let names: [(OsString, UnixDatagram); 2] = [
            (
                path.clone().into(),
                UnixDatagram::bind(&path).expect("bound"),
            ),
            (
                format!("@{abstract_name}").into(),
                UnixDatagram::bind_addr(
                    &SocketAddr::from_abstract_name(abstract_name).expect("short"),
                )
                .expect("bound"),
            ),
        ];
        for (name, ear) in names {
            ear.set_read_timeout(Some(Duration::from_secs(60)))
                .expect("a limit");
            let supervisor = Supervisor {
                socket: Some(connect(name).expect("a name")),
                patience: None,
            };
            supervisor.notify("READY=1\nSTATUS=well");
            let mut heard = [0; 64];
            let bytes = ear.recv(&mut heard).expect("heard");
            assert_eq!(&heard[..bytes], b"READY=1\nSTATUS=well");
        }
    }

    #[test]
    fn a_name_begins_no_line_of_its_own_and_turns_none_round() {
        let text = "a\n<0>the disk is full\u{1b}[2J\u{202e}x";
        assert_eq!(
            Severity::Error.line(text, true),
            "<3>a\u{FFFD}<0>the disk is full\u{FFFD}[2J\u{FFFD}x"
        );
        assert_eq!(Severity::Info.line("a\nb", false), "ethbcast: a\u{FFFD}b");
    }
}
