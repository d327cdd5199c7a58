//! SOURCE: a file, a device, or stdin.

use crate::exit::{Code, Failure, fail};
use ethbcast_collectives::session::live::RestOfFile;
use ethbcast_content::unchanged::{Unchanged, WholeFile};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

/// SOURCE, opened.
pub struct Input {
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
    /// The same bytes at any position, if it has positions.
    pub rest: io::Result<RestOfFile>,
    /// What errors call it.
    pub what: String,
    /// The file's own name, for receivers that were given a directory.
    pub name: String,
    /// Its size, if known in advance.
    pub size: Option<u64>,
}

impl Input {
    /// Opens SOURCE. A file that changes while it is read fails with an error, unless that is allowed.
    ///
    /// # Errors
    /// A [`Failure`]: 4 if it is missing or unreadable, 2 if it is a directory.
    pub fn open(source: &OsStr, allow_changing: bool) -> anyhow::Result<Input> {
        let path = Path::new(source);
        let what = format!("SOURCE {}", path.display());
        let cannot = |error: io::Error| Failure::new(Code::System, format!("cannot read {what}: {error}"));
        if source == "-" {
            // Not through the standard library's buffer, so that the position is the true one where there is one.
            let file = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?);
            let rest = RestOfFile::of(&file);
            return Ok(Input { reader: Box::new(file), rest, what, name: "stdin".to_owned(), size: None });
        }
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            let name = path.display();
            let text = format!("{what} is a directory: send it as an archive, `tar c {name} | ethbcast send -`");
            return fail(Code::Usage, text);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let rest = RestOfFile::of(&file);
        // A device or a pipe says 0, and its times say nothing of its content.
        let size = metadata.is_file().then_some(metadata.len());
        let reader: Box<dyn Read + Send> = match size {
            Some(size) if allow_changing => Box::new(file.take(size)),
            Some(_) => Box::new(WholeFile::new(file, Unchanged::new(path, &metadata))),
            None => Box::new(file),
        };
        Ok(Input { reader, rest, what, name, size })
    }
}
