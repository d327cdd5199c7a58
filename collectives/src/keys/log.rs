//! Log of the secrets of single sessions, by which a capture of them can be read (`ethbcast dump
//! --key-log`).
//!
//! A line has a session, a suite (1 POLYVAL, 2 Poly1305, 3 BLAKE3) and a secret in hexadecimal
//! digits. Secrets of clusters are not logged.

use super::hex;
use super::schedule::Secret;
use ethbcast_transport::wire::PayloadHash;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

const FIRST: &str = "ethbcast-secret";
const SUITES: [PayloadHash; 3] = [
    PayloadHash::Polyval,
    PayloadHash::Poly1305,
    PayloadHash::Blake3,
];

/// Receiver of lines of a log.
#[derive(Clone)]
pub struct KeyLog(Arc<dyn Fn(&str) + Send + Sync>);

impl KeyLog {
    /// Creates a log whose lines go to `write`.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> KeyLog {
        KeyLog(Arc::new(write))
    }

    pub(super) fn note(&self, session: u32, hash: PayloadHash, secret: &Secret) {
        let suite = SUITES
            .iter()
            .position(|suite| *suite == hash)
            .map_or(0, |at| at + 1);
        let mut line = Zeroizing::new(String::with_capacity(128));
        line.push_str(&format!("{FIRST} {session:08x} {suite} "));
        hex::write(&mut line, secret.expose());
        line.push('\n');
        (self.0)(&line);
    }
}

impl fmt::Debug for KeyLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyLog(…)")
    }
}

/// Reads a log: sessions with their secrets.
///
/// # Errors
/// The number of the first line that is none of a log.
pub(crate) fn read(text: &str) -> Result<Vec<(u32, PayloadHash, Secret)>, usize> {
    let line = |words: &[&str]| {
        let [FIRST, session, suite, secret] = *words else {
            return None;
        };
        let session = u32::from_str_radix(session, 16).ok()?;
        let hash = *SUITES.get(suite.parse::<usize>().ok()?.checked_sub(1)?)?;
        Some((session, hash, Secret::new(*hex::read(secret)?)))
    };
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(text, _)| !text.trim().is_empty());
    lines
        .map(|(text, at)| line(&text.split_whitespace().collect::<Vec<_>>()).ok_or(at))
        .collect()
}

#[test]
fn a_log_is_read_as_it_was_written_and_other_lines_are_named() {
    let text = Arc::new(std::sync::Mutex::new(String::new()));
    let log = KeyLog::new({
        let text = Arc::clone(&text);
        move |line| text.lock().expect("whole").push_str(line)
    });
    let secrets = [[1; 32], [2; 32], [3; 32]].map(Secret::new);
    SUITES
        .iter()
        .zip(&secrets)
        .for_each(|(hash, secret)| log.note(0x5e55_0001, *hash, secret));
    let text = text.lock().expect("whole").clone();
    let read = super::log::read(&text).expect("a log");
    let written = SUITES
        .into_iter()
        .zip(secrets)
        .map(|(hash, secret)| (0x5e55_0001, hash, secret));
    assert!(read.into_iter().eq(written));
    let wrong = |text: String| super::log::read(&text).err();
    assert_eq!(wrong(format!("{text}\nethbcast-key 1\n")), Some(5));
    assert_eq!(wrong(text.replace(" 2 ", " 4 ")), Some(2));
    assert_eq!(
        wrong(text[..text.len() - 2].to_owned()),
        Some(3),
        "cut short"
    );
}
