//! SOURCE: a file, a device, or stdin.

use crate::exit::{Code, Failure, fail};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// SOURCE, opened.
pub struct Input {
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
    /// What errors call it.
    pub what: String,
    /// The file's own name, for receivers that were given a directory.
    pub name: String,
    /// Its size, if known in advance.
    pub size: Option<u64>,
}

impl Input {
    /// Opens SOURCE.
    ///
    /// # Errors
    /// A [`Failure`]: 4 if it is missing or unreadable, 2 if it is a directory.
    pub fn open(source: &OsStr) -> anyhow::Result<Input> {
        let path = Path::new(source);
        let what = format!("SOURCE {}", path.display());
        if source == "-" {
            let (reader, name) = (Box::new(std::io::stdin()), "stdin".to_owned());
            return Ok(Input { reader, what, name, size: None });
        }
        let cannot = |error: std::io::Error| Failure::new(Code::System, format!("cannot read {what}: {error}"));
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            let name = path.display();
            let text = format!("{what} is a directory: send it as an archive, `tar c {name} | ethbcast send -`");
            return fail(Code::Usage, text);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // A device or a pipe says 0.
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Input { reader: Box::new(file), what, name, size })
    }
}
