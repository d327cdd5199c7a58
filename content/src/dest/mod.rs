//! Destination of received content (DEST on the command line).
//!
//! Each kind of it (file, device, pipe, directory) has the same steps:
//!
//! 1. check: [`Dest::resolve`] before any sender is known, [`Dest::offer_check`] before this host
//!    joins one, and the room when the session begins;
//! 2. prepare: `begin` of [`Storage`](ethbcast_collectives::session::live::Storage), which makes
//!    the hidden entry or takes up an earlier run's;
//! 3. write: `write` and `keep`;
//! 4. verify: `settle`, which sets attributes and syncs, and may compare with what is on the disk;
//! 5. put: `publish`, once the sender has accepted the verdict.

mod arrival;
mod bytes;
mod device;
mod file;
mod in_use;
mod kind;

pub use arrival::{Arrival, Landed};
pub use device::Device;
pub use in_use::lacking_device;
pub(crate) use in_use::written_at;

use crate::disk::{Accept, Beneath, Lack};
use crate::hidden_names::{
    HiddenNames, allocated_bytes, bring_back, broken, has_left, left_bytes, remove_stale,
};
use crate::journal::Identity;
use crate::trial::{Refused, lacks as lacks_of, sentence, try_place, try_replacing};
use crate::{mounts, name};
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::live::Offered;
use rustix::fs::statvfs;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Reason why nothing can be put at DEST, with advice.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DestError(String);

/// Whether the data is verified by reading it back from the disk, whether zeros become holes, and
/// whether an image may be written to a device with another sector size than its partition table's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handling {
    pub read_back: bool,
    pub sparse: bool,
    pub any_sectors: bool,
}

/// Permitted change to a file that exists at DEST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    #[default]
    Nothing,
    Whole,
    /// Overwriting in place, which needs no space. It applies to a device that may be replaced,
    /// too.
    InPlace,
}

impl From<bool> for Over {
    fn from(replace: bool) -> Over {
        if replace { Over::Whole } else { Over::Nothing }
    }
}

fn fail<T>(text: impl Into<String>) -> Result<T, DestError> {
    Err(DestError(text.into()))
}

#[derive(Debug)]
pub enum Dest {
    /// Stdout, for `-`.
    Stdout,
    /// The stdin of a shell command.
    Command(String),
    /// A file, which is new or may be changed as `over` says.
    File {
        path: PathBuf,
        over: Over,
        lacks: BTreeSet<Lack>,
    },
    /// A block device, which is overwritten.
    Device { path: PathBuf, device: Device },
    /// An existing directory, in which the file keeps its own name.
    Directory {
        path: PathBuf,
        over: Over,
        lacks: BTreeSet<Lack>,
    },
}

impl Dest {
    /// Resolves and checks DEST.
    ///
    /// # Errors
    /// If it exists and may not be replaced, its directory does not exist, or nothing can be
    /// written there.
    pub fn resolve(dest: &OsStr, replace: bool) -> Result<Dest, DestError> {
        Dest::resolve_over(dest, replace, replace.into())
    }

    /// Resolves and checks DEST with separate permissions: `overwrite` for a device, `over` for a
    /// file.
    ///
    /// # Errors
    /// The errors of [`resolve`](Dest::resolve).
    pub fn resolve_over(dest: &OsStr, overwrite: bool, over: Over) -> Result<Dest, DestError> {
        if dest == "-" {
            return Ok(Dest::Stdout);
        }
        let path = PathBuf::from(dest);
        if let Some(text) = lacking_device(&path) {
            return fail(text);
        }
        // A run that stopped within a replacement may have left no entry under the name.
        if let Ok(beside) = path
            .parent()
            .map_or_else(|| Beneath::open(&path), Beneath::open)
        {
            bring_back(&beside);
        }
        if !path.is_dir() && dest.as_encoded_bytes().ends_with(b"/") {
            let text = format!(
                "the directory DEST {} does not exist: make it with `mkdir -p {0}`",
                path.display()
            );
            return fail(text);
        }
        if path
            .metadata()
            .is_ok_and(|there| there.file_type().is_block_device())
        {
            return Dest::device(path, overwrite);
        }
        let lacks = BTreeSet::new();
        let mut resolved = if path.is_dir() {
            Dest::Directory { path, over, lacks }
        } else {
            Dest::File { path, over, lacks }
        };
        if let Dest::File { path, over, .. } = &resolved {
            path.file_name()
                .map_or(Ok(()), check_name)
                .map_err(DestError)?;
            check_replaceable(path, *over)?;
        }
        let directory = resolved.directory().unwrap_or(Path::new(".")).to_owned();
        if !directory.is_dir() {
            let text = format!(
                "the directory {} of DEST does not exist: make it with `mkdir -p {0}`",
                directory.display()
            );
            return fail(text);
        }
        match resolved.holders().map(|holder| remove_stale(&holder)).sum() {
            0 => {}
            count => log::warn!(
                "removed {count} unfinished files that dead receivers left where DEST is"
            ),
        }
        // Only an actual trial shows that the operations at the end will succeed.
        let opened = Beneath::open(&directory).map_err(|error| Refused {
            doing: "open it".to_owned(),
            error,
        });
        let tried = opened.and_then(|holder| try_place(&holder).map(|()| lacks_of(&holder)));
        let found = tried.map_err(|Refused { doing, error }| {
            let shown = directory.display();
            DestError(format!(
                "cannot write to {shown} ({doing}): {error}; choose another DEST"
            ))
        })?;
        if let Dest::File { lacks, .. } | Dest::Directory { lacks, .. } = &mut resolved {
            *lacks = found;
        }
        Ok(resolved)
    }

    /// Returns notes for a user before any data comes, without attributes that are not accepted.
    pub fn warnings(&self, accept: &Accept) -> Vec<String> {
        let kind = self.directory().and_then(mounts::kind_of);
        let mut lacks = self.warned_of();
        lacks.retain(|lack| match lack {
            Lack::Owners => accept.owners,
            Lack::Xattrs => accept.takes_xattrs(),
            Lack::Modes | Lack::SymbolicLinks | Lack::HardLinks => true,
        });
        let mut warnings: Vec<String> = sentence(kind.as_deref(), &lacks).into_iter().collect();
        for (path, holder) in self
            .paths()
            .filter_map(|path| Beneath::open(&path).ok().map(|holder| (path, holder)))
        {
            warnings.extend(broken(&holder).iter().map(|name| {
                format!(
                    "{} is a file that `recv {}` left neither old nor new: the next recv to the same DEST completes \
                     it; it is kept until then, or until you remove it",
                    path.join(name).display(),
                    OptionName("in-place")
                )
            }));
        }
        warnings
    }

    /// Returns the lacking attributes of which the user is warned.
    fn warned_of(&self) -> BTreeSet<Lack> {
        match self {
            Dest::File { lacks, .. } | Dest::Directory { lacks, .. } => lacks.clone(),
            Dest::Stdout | Dest::Command(_) | Dest::Device { .. } => BTreeSet::new(),
        }
    }

    fn device(path: PathBuf, overwrite: bool) -> Result<Dest, DestError> {
        let name = path.display();
        if !overwrite {
            return fail(format!(
                "DEST {name} is a block device: overwrite all it has with {}",
                OptionName("force")
            ));
        }
        let device = Device::open(&path)?;
        Ok(Dest::Device { path, device })
    }

    pub fn is_device(&self) -> bool {
        matches!(self, Dest::Device { .. })
    }

    pub fn directory(&self) -> Option<&Path> {
        match self {
            Dest::Stdout | Dest::Command(_) | Dest::Device { .. } => None,
            Dest::Directory { path, .. } => Some(path),
            Dest::File { path, .. } => Some(
                path.parent()
                    .filter(|parent| !parent.as_os_str().is_empty())
                    .unwrap_or(Path::new(".")),
            ),
        }
    }

    /// Returns the path of the file, given the sender's name for it. That name cannot lead out of
    /// the directory.
    ///
    /// # Errors
    /// A sentence, if the name is invalid or the file exists.
    pub fn path(&self, source: &str) -> Result<Option<(PathBuf, Over)>, String> {
        match self {
            Dest::Stdout | Dest::Command(_) => Ok(None),
            Dest::Device { path, .. } => Ok(Some((path.clone(), Over::InPlace))),
            Dest::File { path, over, .. } => Ok(Some((path.clone(), *over))),
            Dest::Directory { path, over, .. } => {
                let name = Path::new(source).file_name().ok_or_else(|| {
                    format!("the sender's name for the file, {source:?}, is not a file name: give DEST one")
                })?;
                check_name(name)?;
                let path = path.join(name);
                check_replaceable(&path, *over).map_err(|error| error.to_string())?;
                Ok(Some((path, *over)))
            }
        }
    }

    /// Whether DEST may have data of the content: an earlier run's, or that of the entry it
    /// `replaces`.
    pub fn may_have_some(&self, replaces: bool) -> bool {
        match self {
            Dest::Stdout | Dest::Command(_) => false,
            Dest::Device { .. } => true,
            Dest::File { path, .. } => path.exists() || self.has_left(),
            Dest::Directory { .. } => replaces || self.has_left(),
        }
    }

    /// Whether an earlier run left data that can be resumed at DEST.
    pub fn has_left(&self) -> bool {
        self.holders().any(|holder| has_left(&holder))
    }

    fn holders(&self) -> impl Iterator<Item = Beneath> + use<> {
        self.paths().filter_map(|path| Beneath::open(&path).ok())
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> + use<> {
        [self.directory().map(Path::to_owned), path_beside(self)]
            .into_iter()
            .flatten()
    }

    /// Returns the maximum bytes of a content at DEST: the free space, and the data that earlier
    /// runs left, of which each content can use its own.
    pub fn free_bytes(&self) -> u64 {
        let left: u64 = self.holders().map(|holder| left_bytes(&holder)).sum();
        let most = self.unused_bytes().saturating_add(left);
        self.space().map_or(most, |space| most.min(space.all))
    }

    /// Returns the bytes that are free at DEST for any content.
    pub fn unused_bytes(&self) -> u64 {
        if let Dest::Device { device, .. } = self {
            return device.bytes();
        }
        let Some(Space { available, all }) = self.space() else {
            return u64::MAX;
        };
        match self {
            // Overwriting needs no new space.
            Dest::File {
                path,
                over: Over::InPlace,
                ..
            } => available.saturating_add(path.metadata().map_or(0, |there| there.blocks() * 512)),
            Dest::Directory {
                over: Over::InPlace,
                ..
            } => all,
            _ => available,
        }
    }

    /// Returns the bytes available for this content: the free space, and the data that an earlier
    /// run left of it.
    fn room_for(&self, offered: &Offered) -> u64 {
        let names = match (&offered.content, self) {
            (ContentKind::Tree, _) => {
                HiddenNames::of_content(&Identity::of(offered, offered.size.unwrap_or(0)))
            }
            (_, Dest::File { path, .. }) => {
                HiddenNames::of(path.file_name().unwrap_or_default().as_encoded_bytes())
            }
            _ => HiddenNames::of(
                Path::new(&offered.source)
                    .file_name()
                    .unwrap_or_default()
                    .as_encoded_bytes(),
            ),
        };
        let left: u64 = self
            .holders()
            .map(|holder| allocated_bytes(&holder, &names))
            .sum();
        self.unused_bytes().saturating_add(left)
    }

    /// Whether less than a hundredth of its file system is free, and less than a GiB.
    fn is_nearly_full(&self) -> bool {
        self.space()
            .is_some_and(|Space { available, all }| available < (all / 100).min(1 << 30))
    }

    fn space(&self) -> Option<Space> {
        let stat = statvfs(self.directory()?).ok()?;
        let [available, all] =
            [stat.f_bavail, stat.f_blocks].map(|blocks| blocks.saturating_mul(stat.f_frsize));
        Some(Space { available, all })
    }
}

struct Space {
    available: u64,
    all: u64,
}

fn path_beside(dest: &Dest) -> Option<PathBuf> {
    let Dest::Directory { path, .. } = dest else {
        return None;
    };
    path.canonicalize().ok()?.parent().map(Path::to_owned)
}

fn check_name(name: &OsStr) -> Result<(), String> {
    let bytes = name.as_encoded_bytes();
    name::check_at_dest(bytes).map_err(|error| {
        format!(
            "{} cannot be a name at DEST: it {error}; choose another",
            name::shown(bytes)
        )
    })
}

fn check_replaceable(path: &Path, over: Over) -> Result<(), DestError> {
    let text = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => format!(
            "DEST {} cannot be a file: {error}; choose another",
            path.display()
        ),
        Ok(there) if there.is_file() && mounts::is_mount_point(path) => format!(
            "DEST {} is a mount point, which no other file can take the place of; it is as it was: choose another, or \
             write into it from stdout, `recv - > {0}`",
            path.display()
        ),
        Ok(_) if over == Over::Nothing => {
            format!(
                "DEST {} exists: remove it, or replace it with {}",
                path.display(),
                OptionName("force")
            )
        }
        // Special files such as /dev/null must not be replaced.
        Ok(there) if !there.is_file() && !there.is_symlink() => {
            format!(
                "DEST {} is no ordinary file: choose another, or write to stdout with -",
                path.display()
            )
        }
        Ok(_) => return check_movable(path),
    };
    fail(text)
}

/// Checks that the entry can be renamed, by a trial at its place.
fn check_movable(path: &Path) -> Result<(), DestError> {
    let (Some(name), shown) = (path.file_name(), path.display()) else {
        return Ok(());
    };
    let holder = path
        .parent()
        .map_or_else(|| Beneath::open(Path::new("")), Beneath::open);
    holder
        .and_then(|holder| try_replacing(&holder, Path::new(name)))
        .map_err(|error| {
            DestError(format!(
                "DEST {shown} cannot be replaced: {error}; it is as it was: choose another DEST"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    #[test]
    fn an_existing_file_needs_force_and_a_senders_name_stays_in_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("there");
        std::fs::write(&file, b"old").expect("written");
        assert!(Dest::resolve(file.as_os_str(), false).is_err());
        assert!(Dest::resolve(file.as_os_str(), true).is_ok());
        let dest = Dest::resolve(directory.path().as_os_str(), false).expect("a directory");
        assert_eq!(
            dest.path("../../etc/passwd"),
            Ok(Some((directory.path().join("passwd"), Over::Nothing)))
        );
        assert!(dest.path("there").is_err() && dest.path("..").is_err());
        assert!(
            dest.path(".ethbcast-1.part")
                .is_err_and(|text| text.contains("hidden names"))
        );
        assert!(
            Dest::resolve(directory.path().join(".ethbcast-1.tree").as_os_str(), false).is_err()
        );
        assert!(Dest::resolve(directory.path().join("no/such").as_os_str(), false).is_err());
        assert_eq!(
            std::fs::read_dir(directory.path())
                .expect("readable")
                .count(),
            1,
            "the probe left something behind"
        );
    }

    #[test]
    fn a_directory_in_which_no_file_can_be_made_is_known_before_anything_comes() {
        for (path, over) in [("/proc/self/dest", false), ("/proc/self/", true)] {
            let refused = Dest::resolve(OsStr::new(path), over)
                .expect_err(path)
                .to_string();
            assert!(refused.contains("cannot write to /proc/self"), "{refused}");
        }
    }

    #[test]
    fn leftovers_count_as_room_for_their_own_content_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let dest = Dest::resolve(directory.path().as_os_str(), false).expect("a directory");
        let offered = |source: &str, content| Offered {
            source: source.to_owned(),
            content,
            ..Offered::default()
        };
        let (file, tree) = (
            offered("a/file", ContentKind::Stream),
            offered("tree", ContentKind::Tree),
        );
        let mut left = Vec::new();
        for names in [
            HiddenNames::of(b"file"),
            HiddenNames::of_content(&Identity::of(&tree, 0)),
        ] {
            std::fs::write(directory.path().join(&names.part), vec![7; 3 << 20]).expect("room");
            std::fs::write(directory.path().join(&names.journal), b"").expect("room");
            left.push(names.part);
        }
        // Other processes write to the disk meanwhile, so the comparison is repeated until none
        // did.
        let leads = |room: &dyn Fn() -> u64| {
            let quiet = || {
                let (before, room) = (dest.unused_bytes(), room());
                (before == dest.unused_bytes()).then(|| room - before)
            };
            (0..10_000)
                .find_map(|_| quiet())
                .expect("nobody writes for a moment")
        };
        let is_about = |bytes: u64, expected: u64| bytes.abs_diff(expected) < 1 << 20;
        for (own, other) in [(&file, "other"), (&tree, "file")] {
            assert!(is_about(leads(&|| dest.room_for(own)), 3 << 20), "{own:?}");
            let other = Offered {
                source: other.to_owned(),
                ..own.clone()
            };
            assert!(is_about(leads(&|| dest.room_for(&other)), 0), "{other:?}");
        }
        assert!(is_about(leads(&|| dest.free_bytes()), 6 << 20));
    }

    #[test]
    fn a_file_that_was_left_half_written_over_is_named_however_old_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |suffix: &str| directory.path().join(format!(".ethbcast-1-2{suffix}"));
        std::fs::write(path(".part"), b"half").expect("room");
        let journal = std::fs::File::create_new(path(".journal")).expect("room");
        Journal::begin_over(
            journal.try_clone().expect("one more"),
            &Identity::default(),
            true,
        )
        .expect("room");
        let warned = || {
            Dest::resolve(directory.path().join("dest").as_os_str(), false)
                .expect("free")
                .warnings(&Accept::default())
        };
        let is_named = || {
            let lines = warned();
            lines
                .iter()
                .any(|line| line.contains("1-2.part") && line.contains("neither old nor new"))
        };
        assert!(is_named());
        let week = std::time::Duration::from_secs(8 * 86_400);
        journal
            .set_modified(std::time::SystemTime::now() - week)
            .expect("mine");
        assert!(is_named());
        let living = std::fs::File::open(path(".part")).expect("it is there");
        assert!(
            crate::disk::DiskFile::try_lock(&living) && !is_named(),
            "a receiver completes it"
        );
        drop(living);
        assert!(path(".part").exists() && path(".journal").exists());
    }

    #[test]
    fn an_old_dest_that_a_dead_receiver_moved_is_back_before_it_is_looked_at() {
        let directory = tempfile::tempdir().expect("a directory");
        let aside = directory.path().join(".ethbcast-1-2.old/dest");
        std::fs::create_dir_all(aside.join("old")).expect("room");
        let dest = directory.path().join("dest");
        assert!(Dest::resolve(dest.join("").as_os_str(), true).is_ok());
        assert!(dest.join("old").is_dir() && !aside.exists());
        // If its successor is in place, the old entry is removed.
        std::fs::create_dir_all(&aside).expect("room");
        assert!(Dest::resolve(dest.join("").as_os_str(), true).is_ok());
        assert!(dest.join("old").is_dir() && !directory.path().join(".ethbcast-1-2.old").exists());
        // If its successor is still hidden, the old entry stays beside the one that was made
        // meanwhile.
        std::fs::create_dir_all(&aside).expect("room");
        std::fs::create_dir(directory.path().join(".ethbcast-1-2.tree")).expect("room");
        std::fs::write(directory.path().join(".ethbcast-1-2.journal"), b"").expect("room");
        assert!(Dest::resolve(dest.join("").as_os_str(), true).is_ok());
        assert!(dest.join("old").is_dir() && aside.is_dir());
    }
}
