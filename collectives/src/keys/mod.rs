//! Keys that protect transfers: a cluster's secret, senders' signatures, their text forms.
//!
//! Nothing here reads a file, a clock or a random source: drawn numbers are arguments. `docs/keys.md` has the reasons.

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
    FILE_VARIABLE, KEY_PATH, KeyFileError, KeyName, Keys, MAX_KEY_FILE_BYTES, NO_KEY_VARIABLE, PHRASE_VARIABLE,
    SenderKey,
};
pub use log::KeyLog;
pub use phrase::{Phrase, PhraseError};
#[doc(hidden)]
pub use schedule::ExchangePair;
#[doc(hidden)]
pub use schedule::{Secret, SessionFacts, SessionName, pair_secret, request_digest};
#[doc(hidden)]
pub use signer::{PublicKey, SIGNATURE_BYTES, Signed, Signer};

#[cfg(test)]
mod vectors;
