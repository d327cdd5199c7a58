//! The inputs that are kept: one file each, under the first half of the BLAKE3 of what is in it, so that one that was
//! damaged on its way through an editor or a checkout is known.

use std::fs;
use std::io;
use std::path::Path;

/// Digits of a name: half of a digest.
const NAME_DIGITS: usize = 32;

/// An input that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its file's name.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

fn name_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..NAME_DIGITS].to_owned()
}

/// All inputs of a folder, by name.
///
/// # Errors
/// A sentence that says which file cannot be read or is damaged, and what to do.
pub fn load(folder: &Path) -> Result<Vec<Entry>, String> {
    let unreadable = |error: io::Error| format!("the corpus {} cannot be read: {error}", folder.display());
    let mut entries = Vec::new();
    for file in fs::read_dir(folder).map_err(unreadable)? {
        let path = file.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if name_of(&bytes) != name {
            return Err(format!(
                "{} is damaged, or no file of the corpus: its name is not the digest of what is in it. Restore it \
                 with git, or put it into the corpus with `fuzz keep`",
                path.display()
            ));
        }
        entries.push(Entry { name, bytes });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Puts an input into a folder, which is made if it is not there.
///
/// # Errors
/// If that cannot be written.
pub fn keep(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name_of(bytes)), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_loaded_and_what_is_damaged_is_refused_with_words() {
        let folder = tempfile::tempdir().expect("there is a temporary folder");
        keep(folder.path(), b"one").expect("it can be written");
        keep(folder.path(), b"two").expect("it can be written");
        let loaded = load(folder.path()).expect("all is well");
        assert_eq!(loaded.len(), 2);
        fs::write(folder.path().join(&loaded[0].name), b"other").expect("it can be written");
        let refused = load(folder.path()).expect_err("it is damaged");
        assert!(refused.contains(&loaded[0].name) && refused.contains("damaged"), "{refused}");
        assert!(load(&folder.path().join("none")).is_err_and(|why| why.contains("cannot be read")));
    }
}
