//! Keys that protect transfers: a cluster's secret, senders' signatures, their text forms.
//!
//! Nothing here reads a file, a clock or a random source: drawn numbers are arguments.
//! `docs/keys.md` has the reasons.

mod cluster;
#[doc(hidden)]
mod contents;
mod file;
pub(crate) mod log;
mod phrase;
#[doc(hidden)]
mod schedule;
#[doc(hidden)]
mod signer;

pub(crate) use cluster::{CLUSTER_NAME_BYTES, ClusterSecrets, Protection, SealedMessage, name_of};
#[doc(hidden)]
pub use contents::{ContentCipher, SEAL_BYTES};
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
