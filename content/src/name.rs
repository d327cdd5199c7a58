//! Rules for file names in a sent directory: raw bytes that cannot lead outside.

use ethbcast_collectives::membership::is_shown;
use std::path::PathBuf;

/// The longest name of one file or directory, in bytes (Linux's `NAME_MAX`).
pub const MAX_NAME_BYTES: usize = 255;
/// The longest path below the directory that is sent, in bytes (Linux's `PATH_MAX` without the
/// end).
pub const MAX_PATH_BYTES: usize = 4095;

/// Beginning of the hidden names of unfinished data, which no name at DEST has.
pub(crate) const HIDDEN_PREFIX: &str = ".ethbcast-";

#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("is empty")]
    Empty,
    #[error("has {0} bytes, at most {MAX_NAME_BYTES} can be")]
    Long(usize),
    #[error("leads out of its directory")]
    Dots,
    #[error("is a path")]
    Path,
    #[error("begins as hidden names of ethbcast do, {HIDDEN_PREFIX:?}")]
    Hidden,
    #[error("has a NUL byte")]
    Nul,
}

/// Checks that `name` is a single name within a directory.
///
/// # Errors
/// The first rule that the name breaks.
pub fn check(name: &[u8]) -> Result<(), NameError> {
    match name {
        [] => Err(NameError::Empty),
        b"." | b".." => Err(NameError::Dots),
        name if name.len() > MAX_NAME_BYTES => Err(NameError::Long(name.len())),
        name if name.contains(&b'/') => Err(NameError::Path),
        name if name.contains(&0) => Err(NameError::Nul),
        _ => Ok(()),
    }
}

/// Checks that `name` may be that of a file or directory at DEST.
///
/// # Errors
/// The errors of [`check`], and a name that begins as hidden names do.
pub fn check_at_dest(name: &[u8]) -> Result<(), NameError> {
    if name.starts_with(HIDDEN_PREFIX.as_bytes()) {
        Err(NameError::Hidden)
    } else {
        check(name)
    }
}

/// Returns a name or path for display: invalid UTF-8 and characters that are not shown are escaped.
pub fn shown(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for part in bytes.utf8_chunks() {
        let letter = |letter: char| {
            if is_shown(letter) {
                letter.into()
            } else {
                letter.escape_default().to_string()
            }
        };
        shown.extend(part.valid().chars().map(letter));
        shown.extend(part.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    shown
}

pub fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_at_dest_is_none_that_a_run_gives_to_unfinished_data() {
        assert_eq!(check_at_dest(b".ethbcast-1.part"), Err(NameError::Hidden));
        assert_eq!(
            (check_at_dest(b"ethbcast-1.part"), check_at_dest(b"..")),
            (Ok(()), Err(NameError::Dots))
        );
    }

    #[test]
    fn a_name_is_one_step_down_and_any_bytes_otherwise() {
        for good in [
            &b"a"[..],
            b"...",
            b".a",
            b"a b\n",
            b"\xff\xfe",
            &[b'n'; 255],
        ] {
            assert_eq!(check(good), Ok(()), "{}", shown(good));
        }
        for (bad, why) in [
            (&b""[..], NameError::Empty),
            (b".", NameError::Dots),
            (b"..", NameError::Dots),
            (b"/etc/passwd", NameError::Path),
            (b"../up", NameError::Path),
            (b"a/", NameError::Path),
            (b"a\0b", NameError::Nul),
            (&[b'n'; 300], NameError::Long(300)),
        ] {
            assert_eq!(check(bad), Err(why), "{}", shown(bad));
        }
    }

    #[test]
    fn shown_names_contain_no_control_characters() {
        assert_eq!(shown("a\u{1b}[2J\nß".as_bytes()), "a\\u{1b}[2J\\nß");
        assert_eq!(shown(b"a\xffb"), "a\\xffb");
        assert_eq!(shown("exe.\u{202e}gpj".as_bytes()), "exe.\\u{202e}gpj");
    }
}
