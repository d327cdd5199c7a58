//! Keys of this host: where they are configured, and how they are read.
//!
//! The order is that of `docs/keys.md` §1; the program reads its configuration file by itself.

use crate::keys::{
    FILE_VARIABLE, KEY_PATH, Keys, MAX_KEY_FILE_BYTES, NO_KEY_VARIABLE, PHRASE_VARIABLE, Phrase,
    PhraseError,
};
use ethbcast_transport::packet::OptionName;
use nix::unistd::geteuid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Variable of systemd that names the directory of a service's credentials; one of them may be the
/// key.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
const CREDENTIAL: &str = "ethbcast.key";
/// The program's configuration file, which may name a key, unless the variable names another; empty
/// for none.
const CONFIGURATION: &str = "/etc/ethbcast/ethbcast.toml";
const CONFIGURATION_VARIABLE: &str = "ETHBCAST_CONFIG";

/// A key that cannot be used. The sentence says what to do, and contains nothing of the key.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct KeyError {
    pub fault: KeyFault,
    text: String,
}

/// Kind of a mistake of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFault {
    /// A phrase has a mistake, or stands for a file.
    Phrase,
    /// Others than the owner may read the file, or this user may not.
    Mode,
    Text,
    System,
}

impl KeyError {
    fn new(fault: KeyFault, text: impl ToString) -> KeyError {
        KeyError {
            fault,
            text: text.to_string(),
        }
    }
}

impl From<PhraseError> for KeyError {
    fn from(error: PhraseError) -> KeyError {
        KeyError::new(KeyFault::Phrase, error)
    }
}

/// Reads a key file, which nobody but its owner may read.
///
/// # Errors
/// If it cannot be used.
pub fn key_of_file(path: &Path) -> Result<Keys, KeyError> {
    if path
        .to_str()
        .is_some_and(|typed| Phrase::parse(typed).is_ok())
    {
        let text = format!(
            "this is a key phrase, and no file: type it for {}, where it is not seen by others",
            OptionName("key-phrase")
        );
        return Err(KeyError::new(KeyFault::Phrase, text));
    }
    checked(path, File::open(path))
}

/// Returns the key of a phrase.
///
/// # Errors
/// If it has a mistake.
pub fn key_of_phrase(typed: &str) -> Result<Keys, KeyError> {
    Ok(Phrase::parse(typed)?.keys())
}

/// Returns the key that the environment, systemd or this host's file gives, in this order.
///
/// # Errors
/// If it is there and cannot be used.
pub fn key_of_host() -> Result<Option<Keys>, KeyError> {
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        return key_of_file(Path::new(&path)).map(Some);
    }
    if let Some(typed) = std::env::var_os(PHRASE_VARIABLE) {
        let typed = Zeroizing::new(typed.into_string().unwrap_or_default());
        return key_of_phrase(&typed).map(Some);
    }
    if is_off(std::env::var_os(NO_KEY_VARIABLE)) {
        return Ok(None);
    }
    key_of_system()
}

/// Returns the key that systemd or this host's file gives, in this order.
///
/// # Errors
/// If it is there and cannot be used.
pub fn key_of_system() -> Result<Option<Keys>, KeyError> {
    if let Some(path) = std::env::var_os(CREDENTIALS).map(credential) {
        // The directory belongs to the service alone; the files may show a mode of their access
        // list. One that cannot be reached, as another user's, may have a key: nothing runs without
        // it by mistake.
        let is_there = path.try_exists().map_err(|error| {
            let text = format!(
                "{}: {error}: unset CREDENTIALS_DIRECTORY if they are another service's",
                path.display()
            );
            KeyError::new(KeyFault::System, text)
        });
        if is_there? {
            return parse(&path, &text_of(&path, File::open(&path))?).map(Some);
        }
    }
    match File::open(KEY_PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => checked(Path::new(KEY_PATH), file).map(Some),
    }
}

/// Refuses to speak without a key on a host that has one.
///
/// # Errors
/// The place of its key, and what to do.
pub fn check_unkeyed() -> Result<(), UnusedKey> {
    let place = place(
        |variable| std::env::var_os(variable),
        Path::try_exists,
        |path| std::fs::read_to_string(path),
    );
    place.map_or(Ok(()), |place| Err(UnusedKey { place }))
}

/// A key of this host that its caller does not use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "E-UNKEYED: this host has a key ({place}), and this call names none: its frames would be neither authenticated \
     nor encrypted; name the key with {}, or set {} if that is meant",
    OptionName("key"),
    OptionName("unkeyed")
)]
pub struct UnusedKey {
    pub place: String,
}

fn credential(directory: OsString) -> PathBuf {
    PathBuf::from(directory).join(CREDENTIAL)
}

fn is_off(no_key: Option<OsString>) -> bool {
    no_key.is_some_and(|value| {
        !["", "0", "false", "no", "off"]
            .iter()
            .any(|off| value.eq_ignore_ascii_case(off))
    })
}

/// Returns the place of the key that the program would use here, without reading it.
fn place(
    variable: impl Fn(&str) -> Option<OsString>,
    exists: impl Fn(&Path) -> io::Result<bool>,
    read: impl Fn(&Path) -> io::Result<String>,
) -> Option<String> {
    if let Some(variable) = [FILE_VARIABLE, PHRASE_VARIABLE]
        .into_iter()
        .find(|name| variable(name).is_some())
    {
        return Some(format!("${variable}"));
    }
    if is_off(variable(NO_KEY_VARIABLE)) {
        return None;
    }
    let is_key = |line: &str| {
        line.split_once('=')
            .is_some_and(|(name, _)| name.trim() == "key")
    };
    let configuration =
        variable(CONFIGURATION_VARIABLE).map_or(PathBuf::from(CONFIGURATION), PathBuf::from);
    let may_name_one = match read(&configuration) {
        Ok(text) => text.lines().any(is_key),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if may_name_one {
        return Some(configuration.display().to_string());
    }
    // What cannot be reached may be a key.
    let files = variable(CREDENTIALS)
        .map(credential)
        .into_iter()
        .chain([PathBuf::from(KEY_PATH)]);
    files
        .into_iter()
        .find(|path| exists(path).unwrap_or(true))
        .map(|path| path.display().to_string())
}

fn checked(path: &Path, file: io::Result<File>) -> Result<Keys, KeyError> {
    if let Ok(file) = &file {
        let shown = path.display();
        let about = file
            .metadata()
            .map_err(|error| KeyError::new(KeyFault::System, error))?;
        let refused = |text: String| Err(KeyError::new(KeyFault::Mode, text));
        if !about.is_file() {
            return refused(format!("{shown} is no file"));
        }
        let (owner, user) = (about.uid(), geteuid().as_raw());
        if owner != user && owner != 0 {
            return refused(format!(
                "{shown} is another user's: `chown` it to this user or root"
            ));
        }
        if about.mode() & 0o077 != 0 {
            return refused(format!("others can read {shown}: `chmod 600 {shown}`"));
        }
    }
    parse(path, &text_of(path, file)?)
}

fn text_of(path: &Path, file: io::Result<File>) -> Result<Zeroizing<String>, KeyError> {
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE_BYTES + 1));
    let read = file.and_then(|file| {
        file.take(MAX_KEY_FILE_BYTES as u64 + 1)
            .read_to_string(&mut text)
    });
    let Err(error) = read else { return Ok(text) };
    let shown = path.display();
    Err(match error.kind() {
        io::ErrorKind::PermissionDenied => KeyError::new(
            KeyFault::Mode,
            format_args!(
                "this user may not read the key {shown}: run as its owner, name another with {} FILE, or send \
                 without one by {}",
                OptionName("key"),
                OptionName("no-key")
            ),
        ),
        io::ErrorKind::InvalidData => KeyError::new(
            KeyFault::Text,
            format_args!("{shown}: this is no key file: it is no text"),
        ),
        _ => KeyError::new(KeyFault::System, format_args!("{shown}: {error}")),
    })
}

fn parse(path: &Path, text: &str) -> Result<Keys, KeyError> {
    Keys::parse(text)
        .map_err(|error| KeyError::new(KeyFault::Text, format_args!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNREACHABLE: &str = "/run/other/ethbcast.key";

    #[test]
    fn a_key_that_is_not_used_is_found_where_the_program_would_look() {
        let found = |set: &[(&str, &str)], files: &[&str], configuration: Option<&str>| {
            let value = |name: &str| {
                set.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.into())
            };
            let at = value(CONFIGURATION_VARIABLE).unwrap_or_else(|| CONFIGURATION.into());
            let read = |path: &Path| match configuration {
                Some("unreadable") => Err(io::ErrorKind::PermissionDenied.into()),
                Some(text) if path == Path::new(&at) => Ok(text.to_owned()),
                _ => Err(io::ErrorKind::NotFound.into()),
            };
            let exists = |path: &Path| match path == Path::new(UNREACHABLE)
                || files.contains(&"unreachable")
            {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => Ok(files.iter().any(|file| path == Path::new(file))),
            };
            place(value, exists, read)
        };
        assert_eq!(found(&[], &[], None), None);
        assert_eq!(
            found(&[], &[KEY_PATH], Some("host = \"n0\"\n#key = 1\n")).as_deref(),
            Some(KEY_PATH)
        );
        let names_one = Some("[send]\nkey = \"f\"\n");
        assert_eq!(found(&[], &[], names_one).as_deref(), Some(CONFIGURATION));
        assert_eq!(
            found(&[], &[], Some("unreadable")).as_deref(),
            Some(CONFIGURATION)
        );
        assert_eq!(
            found(&[(CONFIGURATION_VARIABLE, "/x")], &[], names_one).as_deref(),
            Some("/x")
        );
        let systemd = (CREDENTIALS, "/run/c");
        assert_eq!(
            found(&[systemd], &["/run/c/ethbcast.key"], None).as_deref(),
            Some("/run/c/ethbcast.key")
        );
        assert_eq!(
            found(&[], &["unreachable"], None).as_deref(),
            Some(KEY_PATH),
            "what cannot be read may be a key"
        );
        assert_eq!(
            found(&[(CREDENTIALS, "/run/other")], &[], None).as_deref(),
            Some(UNREACHABLE),
            "so may this"
        );
        for (off, is_off) in [
            ("1", true),
            ("yes", true),
            ("0", false),
            ("", false),
            ("off", false),
        ] {
            let found = found(&[(NO_KEY_VARIABLE, off), systemd], &[KEY_PATH], None);
            assert_eq!(found.is_none(), is_off, "{off:?}");
        }
        for variable in [FILE_VARIABLE, PHRASE_VARIABLE] {
            let named = found(&[(NO_KEY_VARIABLE, "1"), (variable, "")], &[], None);
            assert_eq!(named, Some(format!("${variable}")));
        }
    }
}
