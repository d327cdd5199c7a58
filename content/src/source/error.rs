//! Why a directory cannot be sent.

use crate::manifest::ManifestError;
use std::io;
use std::path::PathBuf;

/// Why a directory cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Something in it cannot be read.
    #[error("cannot read SOURCE {path}: {cause}; leave it out with --exclude, or send as a user who may read it")]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A SOURCE is not there.
    #[error("cannot read SOURCE {path}: {cause}")]
    NoSource {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A link that is followed leads to a directory that it is in.
    #[error(
        "{path} leads to {target}, which it is in: leave it out with --exclude, or send it as a link, without \
             --follow"
    )]
    Loop {
        /// Where.
        path: PathBuf,
        /// Where to.
        target: PathBuf,
    },
    /// There is something in it that is no file.
    #[error("{path} is a {kind}: leave it out with --exclude, or send it as what it is with --devices")]
    Special {
        /// Where.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Two SOURCEs would be the same file at DEST.
    #[error("two SOURCEs are called {name:?}: send them one after the other, or from a directory that holds both")]
    Twice {
        /// Their name.
        name: String,
    },
    /// A SOURCE among several has no name of its own.
    #[error("SOURCE {path} has no name to have at DEST: give its whole path, or send it alone")]
    NoName {
        /// Which.
        path: PathBuf,
    },
    /// It cannot be sent so.
    #[error("{0}")]
    Refused(String),
    /// It cannot be read.
    #[error("cannot read {what}: {cause}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// There is too much of something, or too deep.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
}

impl SourceError {
    /// Whether other arguments would help, and not the system.
    pub fn is_usage(&self) -> bool {
        !matches!(self, SourceError::Read { .. } | SourceError::NoSource { .. } | SourceError::Unreadable { .. })
    }
}
