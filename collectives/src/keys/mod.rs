//! Keys that protect transfers: a cluster's secret, senders' signatures, their text forms.
//!
//! Nothing here reads a file, a clock or a random source: drawn numbers are arguments.
//! `docs/keys.md` has the reasons.

mod cluster;
#[doc(hidden)]
mod contents;
mod file;
mod phrase;
#[doc(hidden)]
mod schedule;
#[doc(hidden)]
mod signer;

pub(crate) use cluster::{CLUSTER_NAME_BYTES, ClusterSecrets, Protection, SealedMessage, name_of};
#[doc(hidden)]
pub use contents::{ContentCipher, RankCipher, SEAL_BYTES};
#[doc(hidden)]
pub use contents::{VEIL_BYTES, Veil, VeilContext};
pub use file::{
    FILE_VARIABLE, KEY_PATH, KeyFileError, KeyName, Keys, MAX_KEY_FILE_BYTES, NO_KEY_VARIABLE,
    PHRASE_VARIABLE, SenderKey,
};
pub use log::KeyLog;
pub use phrase::{Phrase, PhraseError};
#[doc(hidden)]
pub use schedule::ExchangePair;
#[doc(hidden)]
pub use schedule::{Secret, SessionFacts, SessionName, pair_secret, request_digest};
#[doc(hidden)]
pub use signer::{PublicKey, SIGNATURE_BYTES, Signed, Signer};

/// Conversion of bytes to and from hexadecimal digits.
mod hex {
    use zeroize::Zeroizing;

    /// Appends the digits of `bytes`. `text` must have room for them, so that no copy of a secret
    /// is left behind.
    pub(in crate::keys) fn write(text: &mut String, bytes: &[u8]) {
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).expect("a digit is below 16"));
            }
        }
    }

    pub(in crate::keys) fn read<const N: usize>(digits: &str) -> Option<Zeroizing<[u8; N]>> {
        let mut bytes = Zeroizing::new([0; N]);
        if digits.len() != 2 * N {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod vectors;

/// Log of the secrets of single sessions, by which a capture of them can be read (`ethbcast dump
/// --key-log`).
///
/// A line has a session, a suite (1 POLYVAL, 2 Poly1305, 3 BLAKE3) and a secret in hexadecimal
/// digits. Secrets of clusters are not logged.
pub(crate) mod log {
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
}
