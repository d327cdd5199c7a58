//! A directory, or several files and directories, as one stream.

mod listing;
mod opened;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use listing::extents_of;
pub use listing::{Exclusion, Owners, has_rights, has_xattrs};
pub(crate) use opened::SEVERAL;
pub use opened::{Opened, Opening, Unpack};
pub use reader::{SourceFiles, TreeReader};

use crate::layout::{Layout, Replay, Troubles};
use crate::manifest::ManifestError;
use crate::name;
use listing::Listing;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Selection of entries and attributes that are sent.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Patterns of excluded entries.
    pub exclusion: Exclusion,
    /// Representation of owners; none: owners are not sent.
    pub owners: Option<Owners>,
    pub xattrs: bool,
    /// Whether device nodes, fifos and sockets are sent; otherwise the first of them is an error.
    pub devices: bool,
    /// Whether files may change during the transfer; otherwise receivers omit the changed ones.
    pub allow_changing: bool,
    /// Whether mount points are sent as empty directories.
    pub one_file_system: bool,
    /// Whether links that lead out of the directory are replaced by their targets.
    pub follow: bool,
}

/// Properties of the directory that are lost on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Links that lead out of the directory and are sent as links: path and target.
    pub links_out: Counted<(PathBuf, PathBuf)>,
    /// Files with capabilities or access lists that are not sent.
    pub unsent_rights: Counted<PathBuf>,
}

/// The number of occurrences, and the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    pub count: usize,
    pub first: Option<T>,
}

impl<T> Default for Counted<T> {
    fn default() -> Counted<T> {
        Counted { count: 0, first: None }
    }
}

impl<T> Counted<T> {
    fn note(&mut self, one: T) {
        self.count += 1;
        self.first.get_or_insert(one);
    }
}

/// A listed directory, which must not change from now on.
#[derive(Debug)]
pub struct Tree {
    layout: Arc<Layout>,
    encoded: Arc<Vec<u8>>,
    files: SourceFiles,
    troubles: Troubles,
    allow_changing: bool,
    losses: Losses,
}

impl Tree {
    /// Lists one directory, or several files and directories, each of which will be in DEST under
    /// its own name. A directory whose path ends with a slash or `.` stands for its contents.
    ///
    /// # Errors
    /// If something cannot be read, or may not be sent.
    pub fn list(sources: &[PathBuf], selection: &Selection) -> Result<Tree, SourceError> {
        let listed = Listing::new(selection).list(sources)?;
        let encoded = Arc::new(listed.manifest.encode());
        let layout = Arc::new(Layout::new(listed.manifest, encoded.len() as u64));
        let files = SourceFiles::new(listed.bases, Arc::clone(&layout), listed.stamps);
        let (troubles, allow_changing) = (Troubles::default(), selection.allow_changing);
        Ok(Tree { layout, encoded, files, troubles, allow_changing, losses: listed.losses })
    }

    /// Returns the directory's own name for display, empty if only its contents are sent.
    pub fn name(&self) -> String {
        name::shown(&self.layout.manifest().root().name)
    }

    /// Returns the properties that are lost on the way.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the number of entries, without the root directory.
    pub fn entries(&self) -> usize {
        self.layout.manifest().entries().len() - 1
    }

    /// Returns the length of the stream, in bytes.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// Returns the stream.
    pub fn reader(&self) -> TreeReader {
        let files = self.files.clone();
        let (layout, encoded, troubles) =
            (Arc::clone(&self.layout), Arc::clone(&self.encoded), Arc::clone(&self.troubles));
        TreeReader::new(layout, encoded, files, troubles, self.allow_changing)
    }

    /// Returns the stream for random access.
    pub fn again(&self) -> Replay<SourceFiles> {
        let (layout, encoded) = (Arc::clone(&self.layout), Arc::clone(&self.encoded));
        Replay::new(layout, encoded, Arc::clone(&self.troubles), self.files.clone())
    }

    /// Returns the files that receivers omit, with the reason: they changed, vanished, or could not
    /// be read.
    pub fn left_out(&self) -> Vec<String> {
        let troubles = self.troubles.lock();
        let line = |(&entry, trouble): (&usize, &crate::layout::Trouble)| {
            format!("{}: {}", self.files.path(entry).display(), trouble.why)
        };
        troubles.iter().map(line).collect()
    }
}

#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot read SOURCE {path}: {cause}; leave it out with --exclude, or send as a user who may read it")]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read SOURCE {path}: {cause}")]
    NoSource {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    /// A followed link leads to a directory that contains it.
    #[error(
        "{path} leads to {target}, which it is in: leave it out with --exclude, or send it as a link, without \
             --follow"
    )]
    Loop { path: PathBuf, target: PathBuf },
    #[error("{path} is a {kind}: leave it out with --exclude, or send it as what it is with --devices")]
    Special { path: PathBuf, kind: &'static str },
    #[error("two SOURCEs are called {name:?}: send them one after the other, or from a directory that holds both")]
    Twice { name: String },
    #[error("SOURCE {path} does not end in a name for DEST: give its whole path, or send it alone")]
    NoName { path: PathBuf },
    #[error("{0}")]
    Refused(String),
    #[error("cannot read {what}: {cause}")]
    Unreadable {
        what: String,
        #[source]
        cause: io::Error,
    },
    #[error("{0}")]
    Manifest(#[from] ManifestError),
}

impl SourceError {
    /// Whether the caller's arguments are the cause, and not the system.
    pub fn is_usage(&self) -> bool {
        !matches!(self, SourceError::Read { .. } | SourceError::NoSource { .. } | SourceError::Unreadable { .. })
    }
}
