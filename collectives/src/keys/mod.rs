//! Keys of a cluster: secrets, senders' signatures, and their text forms.
//!
//! Nothing here reads a file, a clock or a random source: drawn numbers are arguments. `docs/keys.md` has the reasons.

mod cluster;
mod contents;
mod exchange;
mod file;
mod hex;
mod phrase;
mod schedule;
mod signer;
mod veil;

pub(crate) use cluster::{CLUSTER_NAME_BYTES, ClusterSecrets, Protection, SealedMessage, name_of};
pub use contents::{ContentCipher, SEAL_BYTES};
pub use exchange::ExchangePair;
pub use file::{
    FILE_VARIABLE, KEY_PATH, KeyFileError, KeyName, Keys, MAX_KEY_FILE_BYTES, NO_KEY_VARIABLE, PHRASE_VARIABLE,
    SenderKey, place_here,
};
pub use phrase::{Phrase, PhraseError};
pub use schedule::{Secret, SessionFacts, SessionName, pair_secret, request_digest};
pub use signer::{PublicKey, SIGNATURE_BYTES, Signed, Signer};
pub use veil::{VEIL_BYTES, Veil, VeilContext};

#[cfg(test)]
mod vectors;
