//! A directory, or several files and directories, as a stream.

mod ahead;
mod attributes;
mod error;
mod exclusion;
mod files;
mod listing;
mod opened;
mod reader;

pub use attributes::{Owners, has_rights, has_xattrs};
pub use error::SourceError;
pub use exclusion::Exclusion;
pub use files::SourceFiles;
pub(crate) use listing::extents_of;
pub use opened::{Opened, Opening, Unpack};
pub use reader::TreeReader;

use crate::layout::Layout;
use crate::name;
use crate::replay::{Replay, Troubles};
use listing::Listing;
use std::path::PathBuf;
use std::sync::Arc;

/// What of a directory is sent, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// What is left out.
    pub exclusion: Exclusion,
    /// Whether owners are sent: by name or only by number.
    pub owners: Option<Owners>,
    /// Whether extended attributes are sent.
    pub xattrs: bool,
    /// Whether device nodes, fifos and sockets are sent; if not, the first of them is an error.
    pub devices: bool,
    /// Whether files may be written to meanwhile; if not, receivers leave those out that were.
    pub allow_changing: bool,
    /// Whether directories on which something is mounted are taken as empty ones.
    pub one_file_system: bool,
    /// Whether what links out of the directory lead to is sent instead of them.
    pub follow: bool,
}

/// What of a directory arrives as less than it is here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Links that lead out of it and arrive as links: where, and where to.
    pub links_out: Counted<(PathBuf, PathBuf)>,
    /// Files with capabilities or access lists that are not sent.
    pub unsent_rights: Counted<PathBuf>,
}

/// How many there are, and the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    /// How many.
    pub count: usize,
    /// The first.
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

/// What is sent, listed: from this moment on it is to stay as it is.
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
    /// Lists a directory; or several files and directories, each of which will be in DEST under its own name. A
    /// directory with a slash at the end of its path, or `.`, stands for what is in it.
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

    /// The directory's own name for people, empty where what is in it is sent.
    pub fn name(&self) -> String {
        name::shown(&self.layout.manifest().root().name)
    }

    /// What of it arrives as less than it is here.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// How many entries it has, without the directory itself.
    pub fn entries(&self) -> usize {
        self.layout.manifest().entries().len() - 1
    }

    /// How long the stream is.
    pub fn bytes(&self) -> u64 {
        self.layout.bytes()
    }

    /// The stream.
    pub fn reader(&self) -> TreeReader {
        let files = self.files.clone();
        let (layout, encoded, troubles) =
            (Arc::clone(&self.layout), Arc::clone(&self.encoded), Arc::clone(&self.troubles));
        TreeReader::new(layout, encoded, files, troubles, self.allow_changing)
    }

    /// The same stream at any position.
    pub fn again(&self) -> Replay<SourceFiles> {
        let (layout, encoded) = (Arc::clone(&self.layout), Arc::clone(&self.encoded));
        Replay::new(layout, encoded, Arc::clone(&self.troubles), self.files.clone())
    }

    /// The files that receivers leave out, and why: they changed, vanished, or could not be read.
    pub fn left_out(&self) -> Vec<String> {
        let troubles = self.troubles.lock();
        let line = |(&entry, trouble): (&usize, &crate::replay::Trouble)| {
            format!("{}: {}", self.files.path(entry).display(), trouble.why)
        };
        troubles.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests;
