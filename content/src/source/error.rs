//! Errors of reading and listing a SOURCE.

use crate::manifest::ManifestError;
use std::io;
use std::path::PathBuf;

/// Reason why a directory cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// An entry cannot be read.
    #[error("cannot read SOURCE {path}: {cause}; leave it out with --exclude, or send as a user who may read it")]
    Read {
        /// Path of the entry.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A SOURCE does not exist.
    #[error("cannot read SOURCE {path}: {cause}")]
    NoSource {
        /// Path of the SOURCE.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A followed link leads to a directory that contains it.
    #[error(
        "{path} leads to {target}, which it is in: leave it out with --exclude, or send it as a link, without \
             --follow"
    )]
    Loop {
        /// Path of the link.
        path: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
    /// A device node, fifo or socket.
    #[error("{path} is a {kind}: leave it out with --exclude, or send it as what it is with --devices")]
    Special {
        /// Path of the entry.
        path: PathBuf,
        /// Kind of the entry, in words.
        kind: &'static str,
    },
    /// Two SOURCEs would have the same name at DEST.
    #[error("two SOURCEs are called {name:?}: send them one after the other, or from a directory that holds both")]
    Twice {
        /// The common name.
        name: String,
    },
    /// One of several SOURCEs has no name of its own.
    #[error("SOURCE {path} has no name to have at DEST: give its whole path, or send it alone")]
    NoName {
        /// Path of the SOURCE.
        path: PathBuf,
    },
    /// The SOURCE cannot be sent with these options.
    #[error("{0}")]
    Refused(String),
    /// The content cannot be read.
    #[error("cannot read {what}: {cause}")]
    Unreadable {
        /// Name of the content.
        what: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A limit of the manifest is exceeded.
    #[error("{0}")]
    Manifest(#[from] ManifestError),
}

impl SourceError {
    /// Whether the caller's arguments are the cause, and not the system.
    pub fn is_usage(&self) -> bool {
        !matches!(self, SourceError::Read { .. } | SourceError::NoSource { .. } | SourceError::Unreadable { .. })
    }
}
