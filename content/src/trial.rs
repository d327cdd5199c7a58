//! Trial, before a transfer, of the file operations needed at its end.

use crate::disk::{COMMON_FILE, Directory, DiskFile, Lack, PRIVATE_FILE};
use crate::hidden_names::HiddenNames;
use crate::manifest::Manifest;
use crate::name;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const MAX_NAMES: usize = 4096;
/// Length above which a name is tried: file systems that encrypt names refuse long ones.
const LONG_NAME_BYTES: usize = 140;
/// Bytes in names that vfat, exFAT, NTFS and SMB refuse.
const ODD_BYTES: &[u8] = b"\"*:<>?\\|";

/// Attempts to create an entry, which a receiver that starts in the same directory may remove as a
/// leftover.
const MAX_TRIES: usize = 16;

#[derive(Debug)]
pub(crate) struct Refused {
    pub doing: String,
    pub error: io::Error,
}

fn at<T>(doing: &str, done: io::Result<T>) -> Result<T, Refused> {
    done.map_err(|error| Refused {
        doing: doing.to_owned(),
        error,
    })
}

struct Scratch<'a, D: Directory> {
    holder: &'a D,
    names: [HiddenNames; 2],
}

impl<'a, D: Directory> Scratch<'a, D> {
    fn new(holder: &'a D) -> Scratch<'a, D> {
        Scratch {
            holder,
            names: [HiddenNames::fleeting(), HiddenNames::fleeting()],
        }
    }

    /// Creates and locks a directory, so that no other receiver removes it as a leftover. None if
    /// locks are not supported here, or another receiver was faster.
    fn directory(&self, path: fn(&HiddenNames) -> PathBuf) -> io::Result<Option<(PathBuf, D)>> {
        let path = path(&self.names[0]);
        self.holder.make_directory(&path)?;
        let made = match self.holder.directory(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            made => made?,
        };
        Ok((made.try_lock() && self.holder.is_own(&made, &path)).then_some((path, made)))
    }
}

fn within<D: Directory, T>(
    holder: &D,
    path: fn(&HiddenNames) -> PathBuf,
    mut work: impl FnMut(&Path, &D) -> io::Result<T>,
) -> io::Result<Option<T>> {
    for _ in 0..MAX_TRIES {
        let scratch = Scratch::new(holder);
        if let Some((path, directory)) = scratch.directory(path)? {
            return work(&path, &directory).map(Some);
        }
    }
    Ok(None)
}

impl<D: Directory> Drop for Scratch<'_, D> {
    fn drop(&mut self) {
        for names in &self.names {
            drop(self.holder.remove(&names.part));
            // The directory is not emptied: if a rename succeeded after all, it holds the user's
            // entry.
            drop(self.holder.remove_directory(&names.old()));
            drop(self.holder.remove_all(&names.tree));
        }
    }
}

/// Creates and syncs a file and a directory, and renames the file over another one, as the end of
/// the transfer will. Returns the first operation that fails.
pub(crate) fn try_place<D: Directory>(holder: &D) -> Result<(), Refused> {
    let is_gone = |refused: &Refused| refused.error.kind() == ErrorKind::NotFound;
    let tries = (1..MAX_TRIES).map(|_| try_place_once(holder));
    let done = tries
        .into_iter()
        .find(|done| !done.as_ref().is_err_and(is_gone));
    done.unwrap_or_else(|| try_place_once(holder))
}

fn try_place_once<D: Directory>(holder: &D) -> Result<(), Refused> {
    let scratch = Scratch::new(holder);
    let [one, other] = &scratch.names;
    let file = at("make a file", holder.create(&one.part, COMMON_FILE))?;
    // Locked, so that a receiver starting at the same time does not remove it.
    file.try_lock();
    at("sync a file", file.sync())?;
    let second = at(
        "make a second file",
        holder.create(&other.part, COMMON_FILE),
    )?;
    second.try_lock();
    at(
        "give a file the name of another",
        holder.rename(&one.part, holder, &other.part),
    )?;
    at("make a directory", holder.make_directory(&one.old()))?;
    let made = at("open a directory", holder.directory(&one.old()))?;
    at("sync a directory", made.sync_names())?;
    at("sync the directory", holder.sync_names())
}

/// Checks that the entry `name` can be renamed, by moving it over a directory that is not empty.
/// The call always fails: its error shows whether a rename would be permitted. Returns the system's
/// error if `name` cannot be renamed.
pub(crate) fn try_replacing<D: Directory>(holder: &D, name: &Path) -> io::Result<()> {
    let tried = within(holder, HiddenNames::old, |full, directory| {
        // A hidden name: if this receiver is killed here, the next one removes the leftover.
        let inside = &HiddenNames::fleeting().part;
        directory.create(inside, COMMON_FILE)?;
        let moved = holder.rename(name, holder, full);
        if moved.is_ok() {
            // No file system allows this rename; it is undone.
            return holder.rename(full, holder, name);
        }
        directory.remove(inside)?;
        match moved.map_err(|error| (error.raw_os_error(), error)) {
            Err((Some(libc::EPERM), _)) if is_never_permitted(holder, full)? => Ok(()),
            Err((Some(libc::EPERM), error)) => {
                let text =
                    "it is immutable (`lsattr`), or another user's in a directory that is sticky";
                Err(io::Error::new(error.kind(), format!("{error}: {text}")))
            }
            Err((Some(libc::EXDEV | libc::EBUSY | libc::EACCES | libc::EROFS), error)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    });
    tried.map(|_| ())
}

/// Whether this run's own file cannot be moved over `directory` either: if a file system answers
/// EPERM to every such rename, the error shows nothing about another entry.
fn is_never_permitted<D: Directory>(holder: &D, directory: &Path) -> io::Result<bool> {
    let own = HiddenNames::fleeting().part;
    let file = holder.create(&own, COMMON_FILE)?;
    file.try_lock();
    let moved = holder.rename(&own, holder, directory);
    drop(holder.remove(&own));
    Ok(moved.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)))
}

/// Tries the incoming names that a file system may refuse or confuse, and returns the first one
/// with the error. Fails if no trial is possible.
pub(crate) fn refused_name<D: Directory>(
    holder: &D,
    manifest: &Manifest,
) -> io::Result<Option<(PathBuf, io::Error)>> {
    let (entries, mut tried) = (manifest.entries(), BTreeSet::new());
    let odd = entries
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, entry)| is_odd(&entry.name));
    let odd: Vec<_> = odd
        .filter(|(_, entry)| tried.insert(&entry.name))
        .take(MAX_NAMES)
        .collect();
    if odd.is_empty() && entries.len() < 3 {
        return Ok(None);
    }
    let found = within(
        holder,
        |names| names.tree.clone(),
        |_, directory| {
            for &(at, entry) in &odd {
                let own = name::path(&entry.name);
                match directory.create(&own, COMMON_FILE) {
                    // A full or failing disk gives no information about the name.
                    Err(error) if is_of_name(&error) => {
                        return Ok(Some((manifest.path(at), error)));
                    }
                    Err(error) => return Err(error),
                    Ok(_) => directory.remove(&own)?,
                }
            }
            same_name(directory, manifest)
        },
    );
    Ok(found?.flatten())
}

/// Returns the first incoming name for which the file system finds another name of its directory,
/// with that other name.
fn same_name<D: Directory>(
    directory: &D,
    manifest: &Manifest,
) -> io::Result<Option<(PathBuf, io::Error)>> {
    if !are_one(directory, b"a", b"A")? {
        return Ok(None);
    }
    let (mut first, entries) = (HashMap::new(), manifest.entries());
    for (at, entry) in entries.iter().enumerate().skip(1) {
        let name = String::from_utf8_lossy(&entry.name).to_lowercase();
        let other = *first.entry((entry.parent, name)).or_insert(at);
        // The two are equal in Unicode without case; here they may still be two names.
        if other != at && are_one(directory, &entries[other].name, &entry.name)? {
            let text = format!(
                "{} comes, too, and both are one name there",
                manifest.shown(other)
            );
            return Ok(Some((
                manifest.path(at),
                io::Error::new(ErrorKind::AlreadyExists, text),
            )));
        }
    }
    Ok(None)
}

fn are_one<D: Directory>(directory: &D, one: &[u8], other: &[u8]) -> io::Result<bool> {
    let one = name::path(one);
    directory.create(&one, COMMON_FILE)?;
    let found = directory.kind(&name::path(other));
    directory.remove(&one)?;
    Ok(found?.is_some())
}

fn is_odd(name: &[u8]) -> bool {
    name.len() > LONG_NAME_BYTES
        || name
            .iter()
            .any(|byte| *byte < b' ' || ODD_BYTES.contains(byte))
        || matches!(name.last(), Some(b' ' | b'.'))
        || std::str::from_utf8(name).is_err()
}

fn is_of_name(error: &io::Error) -> bool {
    let errors = [
        libc::EINVAL,
        libc::EILSEQ,
        libc::ENAMETOOLONG,
        libc::ENOENT,
        libc::EPERM,
        libc::EEXIST,
        libc::EIO,
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| errors.contains(&errno))
}

/// Determines the attributes that a directory cannot keep: gives a hidden file a mode, an owner, an
/// attribute, another name and a symbolic link, and removes all of it. A trial that fails for
/// another reason is ignored.
pub(crate) fn lacks<D: Directory>(holder: &D) -> BTreeSet<Lack> {
    let tried = within(
        holder,
        |names| names.tree.clone(),
        |_, directory| {
            let (own, other, link) = (Path::new("file"), Path::new("other"), Path::new("link"));
            let file = directory.create(own, PRIVATE_FILE)?;
            let keeps = |lack: &Lack| match lack {
                Lack::Modes | Lack::Owners | Lack::Xattrs => file.keeps(*lack),
                Lack::HardLinks => can(directory.make_link(other, directory, own)),
                Lack::SymbolicLinks => can(directory.make_symlink(link, b"file")),
            };
            let all = [
                Lack::Owners,
                Lack::Modes,
                Lack::Xattrs,
                Lack::SymbolicLinks,
                Lack::HardLinks,
            ];
            Ok(all
                .into_iter()
                .filter(|lack| !keeps(lack).unwrap_or(true))
                .collect())
        },
    );
    tried.ok().flatten().unwrap_or_default()
}

/// Whether the entry was made; false only for an error that depends on the file system.
fn can(made: io::Result<()>) -> io::Result<bool> {
    match made {
        Err(error) if has_none(&error) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Whether an error means that a file system does not support this kind of entry, or has no more of
/// it.
pub(crate) fn has_none(error: &io::Error) -> bool {
    let errors = [libc::EPERM, libc::EOPNOTSUPP, libc::ENOSYS, libc::EMLINK];
    error
        .raw_os_error()
        .is_some_and(|errno| errors.contains(&errno))
}

/// Returns the sentence for a user whose DEST is on that kind of file system; `None` if it keeps
/// all.
pub(crate) fn sentence(kind: Option<&str>, lacks: &BTreeSet<Lack>) -> Option<String> {
    let kind = kind.map_or_else(|| "a file system".to_owned(), |kind| format!("on {kind}"));
    let mut words: Vec<&str> = lacks.iter().map(|lack| lack.name()).collect();
    let last = words.pop()?;
    let words = if words.is_empty() {
        last.to_owned()
    } else {
        format!("{} and {last}", words.join(", "))
    };
    let copies = if lacks.contains(&Lack::HardLinks) {
        ", and hard links become copies"
    } else {
        ""
    };
    Some(format!(
        "DEST is {kind}: it keeps no {words}; of a directory that comes they will be left out{copies}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Beneath;
    use crate::disk::model::{Abilities, Model, World};
    use crate::hidden_names::remove_stale;
    use crate::manifest::{Attributes, Builder, Entry, FileData, Node};

    fn world() -> World {
        let disk = Model::default();
        let root = disk.root();
        root.create(Path::new("file"), COMMON_FILE).expect("room");
        root.make_directory(Path::new("dest")).expect("room");
        let dest = root.directory(Path::new("dest")).expect("there");
        dest.create(Path::new("old"), COMMON_FILE)
            .and_then(|_| root.sync_file_system())
            .expect("room");
        disk.current()
    }

    #[test]
    fn whichever_step_fails_is_named_and_nothing_of_it_is_left() {
        let undisturbed = Model::of(world());
        try_place(&undisturbed.root()).expect("it does not fail");
        assert_eq!(undisturbed.current(), world());
        let mut named = BTreeSet::new();
        for errno in [
            libc::EIO,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EROFS,
            libc::EACCES,
        ] {
            for call in 1..=8 {
                let disk = Model::of(world()).failing_at(call, errno);
                let refused = try_place(&disk.root()).expect_err("a step failed");
                assert_eq!(refused.error.raw_os_error(), Some(errno), "call {call}");
                named.insert(refused.doing);
                assert_eq!(disk.current(), world(), "call {call}");
            }
        }
        assert_eq!(named.len(), 8, "{named:?}");
    }

    /// Regression: one of two receivers starting in a directory removed the other's trial as a
    /// leftover.
    #[test]
    fn many_that_start_at_once_in_one_directory_try_it_without_harm() {
        let scratch = tempfile::tempdir().expect("room");
        std::fs::create_dir(scratch.path().join("dest")).expect("room");
        std::fs::write(scratch.path().join("dest/old"), b"old").expect("room");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let holder = Beneath::open(scratch.path()).expect("there");
                    for _ in 0..50 {
                        remove_stale(&holder);
                        try_place(&holder).unwrap_or_else(|refused| panic!("{refused:?}"));
                        try_replacing(&holder, Path::new("dest")).expect("it can be replaced");
                    }
                });
            }
        });
        remove_stale(&Beneath::open(scratch.path()).expect("there"));
        let left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("there")
            .map(|one| one.expect("one").file_name())
            .collect();
        assert_eq!(left, ["dest"], "nothing else");
        assert_eq!(
            std::fs::read(scratch.path().join("dest/old")).expect("it is there"),
            b"old"
        );
    }

    #[test]
    fn a_name_that_cannot_be_given_away_is_known_before_anything_is_and_stays_what_it_is() {
        let dest = world().find(0, Path::new("dest")).expect("there");
        let with = |abilities: Abilities| Model::of(world()).with(&abilities);
        let file = world().find(0, Path::new("file")).expect("there");
        let can = Abilities::profiles()
            .into_iter()
            .map(|(_, abilities)| with(abilities))
            .collect::<Vec<_>>();
        let all = || [dest, file].into();
        let cannot = [
            (
                with(Abilities {
                    mounts: all(),
                    ..Abilities::default()
                }),
                &["dest", "file"][..],
                ErrorKind::ResourceBusy,
            ),
            (
                with(Abilities {
                    lower: all(),
                    ..Abilities::default()
                }),
                &["dest"],
                ErrorKind::CrossesDevices,
            ),
            (
                with(Abilities {
                    foreign: all(),
                    ..Abilities::default()
                }),
                &["dest", "file"],
                ErrorKind::PermissionDenied,
            ),
        ];
        for name in ["dest", "file"] {
            can.iter()
                .for_each(|disk| try_replacing(&disk.root(), Path::new(name)).expect("it can"));
        }
        for (disk, names, kind) in cannot {
            for name in names {
                let refused = try_replacing(&disk.root(), Path::new(name)).expect_err("it cannot");
                assert_eq!(refused.kind(), kind, "{name}: {refused}");
                assert_eq!(disk.current(), world(), "{name}");
            }
        }
        assert!(can.iter().all(|disk| disk.current() == world()));
    }

    fn manifest(of: &[&str]) -> Manifest {
        let mut builder = Builder::default();
        let mut add = |parent: Option<u32>, name: &str, node| {
            let attributes = Attributes {
                mode: 0o755,
                ..Attributes::default()
            };
            builder
                .add(Entry {
                    parent,
                    name: name.as_bytes().into(),
                    attributes,
                    node,
                })
                .expect("it can be");
        };
        add(None, "", Node::Directory);
        add(Some(0), "d", Node::Directory);
        of.iter()
            .for_each(|name| add(Some(1), name, Node::File(FileData::dense(1))));
        builder.finish().expect("a directory")
    }

    #[test]
    fn a_name_that_a_file_system_refuses_is_found_before_anything_is_written() {
        let manifest = manifest(&["a:b"]);
        let disk = Model::of(world());
        assert!(refused_name(&disk.root(), &manifest).is_ok_and(|refused| refused.is_none()));
        let disk = disk.with(&Abilities {
            no_colons: true,
            ..Abilities::default()
        });
        let (path, error) = refused_name(&disk.root(), &manifest)
            .expect("room")
            .expect("it is refused");
        assert_eq!(
            (path.as_path(), error.raw_os_error()),
            (Path::new("d/a:b"), Some(libc::EINVAL))
        );
        assert_eq!(disk.current(), world());
    }

    /// Regression: the second of the two was found only when it was made, after all that came
    /// before it.
    #[test]
    fn two_names_that_are_one_there_are_found_before_anything_is_written() {
        for (kind, abilities) in Abilities::profiles() {
            let disk = Model::of(world()).with(&abilities);
            // `d` is in another directory; small letters of other scripts differ on the model.
            let refused = |names| refused_name(&disk.root(), &manifest(names)).expect("room");
            assert!(
                refused(&["D", "README", "Readme.md", "\u{c9}", "\u{e9}"]).is_none(),
                "{kind}"
            );
            match refused(&["README", "Readme"]) {
                Some((path, error)) if abilities.folds_case => {
                    assert_eq!(path, Path::new("d/Readme"), "{kind}");
                    assert!(error.to_string().contains("d/README comes, too"), "{error}");
                }
                found => assert!(
                    found.is_none() && !abilities.folds_case,
                    "{kind}: {found:?}"
                ),
            }
            assert_eq!(disk.current(), world(), "{kind}");
        }
    }

    #[test]
    fn each_file_system_says_exactly_what_it_lacks_and_nothing_of_the_trial_is_left() {
        use Lack::{HardLinks, Modes, Owners, SymbolicLinks, Xattrs};
        let all = [Owners, Modes, Xattrs, SymbolicLinks, HardLinks];
        let mut told = Vec::new();
        for (kind, abilities) in Abilities::profiles() {
            let expected: &[Lack] = match kind {
                "vfat" | "exFAT" => &all,
                "NFS" => &[Xattrs],
                "SFTP" => &[Xattrs, HardLinks],
                _ => &[],
            };
            let disk = Model::default().with(&abilities);
            let before = disk.current();
            let lacks = lacks(&disk.root());
            assert_eq!(lacks, expected.iter().copied().collect(), "{kind}");
            assert_eq!(disk.current(), before, "{kind}");
            told.extend(sentence(Some(kind), &lacks));
        }
        let all = "owners, modes, extended attributes, symbolic links and hard links";
        let copies = ", and hard links become copies";
        let xattrs = "extended attributes";
        let links = "extended attributes and hard links";
        let expected = [
            ("NFS", xattrs, ""),
            ("SFTP", links, copies),
            ("vfat", all, copies),
            ("exFAT", all, copies),
        ];
        let sentence = |(kind, words, end)| {
            format!(
                "DEST is on {kind}: it keeps no {words}; of a directory that comes they will be left out{end}"
            )
        };
        assert_eq!(told, expected.map(sentence));
    }

    #[test]
    fn a_trial_that_fails_for_another_reason_says_nothing_and_leaves_nothing() {
        let undisturbed = Model::default();
        assert!(lacks(&undisturbed.root()).is_empty());
        for errno in [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS] {
            // The later calls remove the trial entries.
            for call in 1..=8 {
                let disk = Model::default().failing_at(call, errno);
                assert!(
                    lacks(&disk.root()).is_empty(),
                    "call {call} fails with {errno}"
                );
                assert_eq!(
                    disk.current(),
                    Model::default().current(),
                    "call {call} fails with {errno}"
                );
            }
        }
    }

    #[test]
    fn a_directory_of_this_machine_keeps_modes_and_links_and_nothing_of_the_trial() {
        let scratch = tempfile::tempdir().expect("room");
        let lacks = lacks(&Beneath::open(scratch.path()).expect("there"));
        let common = [
            Lack::Modes,
            Lack::SymbolicLinks,
            Lack::HardLinks,
            Lack::Owners,
        ];
        assert!(common.iter().all(|lack| !lacks.contains(lack)), "{lacks:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("there").count(), 0);
    }
}
