//! Files and directories of the simulated disk for crash tests.

use super::world::{Ability, Change, Inode, World};
use super::{Model, State};
use crate::disk::attributes::Accepted;
use crate::disk::{Directory, DiskFile, Given, Kind, Lack};
use crate::manifest::Special;
use crate::name::shown;
use ethbcast_collectives::session::FileAttributes;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::Path;

#[derive(Debug)]
pub struct ModelFile {
    disk: Model,
    inode: u64,
}

#[derive(Debug)]
pub struct ModelDirectory {
    disk: Model,
    inode: u64,
}

impl ModelDirectory {
    pub(super) fn new(disk: Model, inode: u64) -> ModelDirectory {
        ModelDirectory { disk, inode }
    }

    fn open(&self, inode: u64) -> ModelFile {
        ModelFile {
            disk: self.disk.clone(),
            inode,
        }
    }

    fn add(&self, what: &str, name: &Path, inode: Inode) -> Result<u64> {
        self.disk
            .grow(format_args!("{what} {}", name.display()), |state| {
                let number = state.add(inode);
                self.give(state, name, number)?;
                Ok(number)
            })
    }

    fn give(&self, state: &mut State, name: &Path, inode: u64) -> Result<()> {
        state.allow(name)?;
        if state.find(self.inode, name).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        state.make(Change::Name {
            directory: self.inode,
            name: name.into(),
            inode,
        });
        Ok(())
    }
}

fn is_directory(world: &World, inode: u64) -> bool {
    matches!(world.inode(inode), Inode::Directory { .. })
}

fn text(
    Accepted {
        owner,
        mode,
        modified,
        xattrs,
    }: &Accepted<'_>,
) -> String {
    let xattrs: Vec<String> = xattrs.iter().map(|xattr| shown(&xattr.name)).collect();
    format!("{mode:o} {modified:?} {owner:?} {xattrs:?}")
}

impl Directory for ModelDirectory {
    type File = ModelFile;

    fn directory(&self, path: &Path) -> Result<ModelDirectory> {
        let inode = self.disk.look(|state| state.enter(self.inode, path))?;
        Ok(ModelDirectory {
            disk: self.disk.clone(),
            inode,
        })
    }

    fn create(&self, name: &Path, _mode: u32) -> Result<ModelFile> {
        let file = Inode::File {
            bytes: Vec::new(),
            attributes: String::new(),
        };
        self.add("create", name, file).map(|inode| self.open(inode))
    }

    fn create_nameless(&self, _mode: u32) -> Result<ModelFile> {
        let file = Inode::File {
            bytes: Vec::new(),
            attributes: String::new(),
        };
        let add = |state: &mut State| {
            state
                .abilities
                .need(Ability::Nameless, state.abilities.no_nameless)?;
            Ok(state.add(file))
        };
        self.disk.grow("create", add).map(|inode| self.open(inode))
    }

    fn name(&self, file: &ModelFile, name: &Path) -> Result<()> {
        self.disk
            .grow(format_args!("name {}", name.display()), |state| {
                state
                    .abilities
                    .need(Ability::LinksAndAttributes, state.abilities.no_links)?;
                self.give(state, name, file.inode)
            })
    }

    fn file(&self, path: &Path) -> Result<ModelFile> {
        self.disk
            .look(|state| state.find(self.inode, path))
            .map(|inode| self.open(inode))
    }

    fn take_up(&self, name: &Path) -> Result<ModelFile> {
        let inode = self.disk.look(|state| state.find(self.inode, name))?;
        let is_file = matches!(self.disk.0.lock().current.inode(inode), Inode::File { .. });
        if is_file {
            Ok(self.open(inode))
        } else {
            Err(Error::other("it is no regular file"))
        }
    }

    fn is_named(&self, file: &ModelFile, name: &Path) -> bool {
        self.disk
            .0
            .lock()
            .find(self.inode, name)
            .is_ok_and(|inode| inode == file.inode)
    }

    fn is_own(&self, directory: &ModelDirectory, name: &Path) -> bool {
        self.disk
            .0
            .lock()
            .find(self.inode, name)
            .is_ok_and(|inode| inode == directory.inode)
    }

    fn is_private(&self) -> Result<bool> {
        self.disk.look(|state| Ok(state.is_private(self.inode)))
    }

    fn make_directory(&self, name: &Path) -> Result<()> {
        self.add("make directory", name, World::directory())
            .map(drop)
    }

    fn open_up(&self, name: &Path) -> Result<()> {
        self.disk
            .look(|state| state.find(self.inode, name).map(drop))
    }

    fn make_symlink(&self, name: &Path, target: &[u8]) -> Result<()> {
        self.disk.look(|state| {
            state
                .abilities
                .need(Ability::LinksAndAttributes, state.abilities.no_symlinks)
        })?;
        self.add("make link", name, Inode::Symlink(target.to_vec()))
            .map(drop)
    }

    fn make_link(&self, name: &Path, other: &ModelDirectory, of: &Path) -> Result<()> {
        self.disk
            .grow(format_args!("link {}", name.display()), |state| {
                let inode = state.find(other.inode, of)?;
                state
                    .abilities
                    .need(Ability::LinksAndAttributes, state.abilities.no_links)?;
                self.give(state, name, inode)
            })
    }

    fn make_special(&self, name: &Path, _special: Special) -> Result<()> {
        self.disk.look(|state| {
            state
                .abilities
                .need(Ability::LinksAndAttributes, state.abilities.no_special)
        })?;
        self.add("make node", name, Inode::Special).map(drop)
    }

    fn kind(&self, name: &Path) -> Result<Option<Kind>> {
        self.disk.look(|state| match state.find(self.inode, name) {
            Ok(inode) => Ok(Some(match state.current.inode(inode) {
                Inode::File { .. } => Kind::File,
                Inode::Directory { .. } => Kind::Directory,
                Inode::Symlink(_) | Inode::Special => Kind::Other,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn age_seconds(&self, name: &Path) -> Result<u64> {
        self.disk
            .look(|state| state.find(self.inode, name).map(|_| state.age_seconds))
    }

    fn allocated_bytes(&self, name: &Path) -> Result<u64> {
        self.file(name)?.bytes()
    }

    fn rename(&self, name: &Path, other: &ModelDirectory, to: &Path) -> Result<()> {
        self.disk.change(
            format_args!("rename {} to {}", name.display(), to.display()),
            |state| {
                let moved = state.find(self.inode, name)?;
                state.allow(to)?;
                state
                    .can_move(self.inode, name)
                    .and(state.is_no_mount(other.inode, to))?;
                if let Ok(there) = state.find(other.inode, to) {
                    let is_over = is_directory(&state.current, there);
                    match (is_directory(&state.current, moved), is_over) {
                        _ if there == moved => return Ok(()),
                        (_, true)
                            if state
                                .abilities
                                .lacks(Ability::RenameOver, state.abilities.no_rename_over) =>
                        {
                            return Err(Error::from_raw_os_error(libc::EPERM));
                        }
                        (false, true) => return Err(ErrorKind::IsADirectory.into()),
                        (true, false) => return Err(ErrorKind::NotADirectory.into()),
                        (true, true) if !state.current.names(there)?.is_empty() => {
                            return Err(ErrorKind::DirectoryNotEmpty.into());
                        }
                        _ if state.is_held(there) => state.unname(other.inode, to)?,
                        _ => {}
                    }
                }
                let (from, to) = (
                    state.spelt(self.inode, name.as_os_str()),
                    state.spelt(other.inode, to.as_os_str()),
                );
                state.make(Change::Move {
                    from: (self.inode, from),
                    to: (other.inode, to),
                });
                Ok(())
            },
        )
    }

    fn exchange(&self, name: &Path, other: &ModelDirectory, to: &Path) -> Result<()> {
        self.disk.change(
            format_args!("exchange {} and {}", name.display(), to.display()),
            |state| {
                if state
                    .abilities
                    .lacks(Ability::Exchange, state.abilities.no_exchange)
                {
                    return Err(Error::from_raw_os_error(libc::EINVAL));
                }
                state
                    .can_move(self.inode, name)
                    .and(state.can_move(other.inode, to))?;
                state
                    .find(self.inode, name)
                    .and(state.find(other.inode, to))?;
                state.make(Change::Exchange {
                    one: (self.inode, name.into()),
                    other: (other.inode, to.into()),
                });
                Ok(())
            },
        )
    }

    fn rename_to_free(&self, one: &Path, other: &Path) -> Result<()> {
        if self.has_directory(other)? {
            return self.rename(one, self, other);
        }
        self.disk.change(
            format_args!("rename {} to {}", one.display(), other.display()),
            |state| {
                let moved = state.find(self.inode, one)?;
                state.can_move(self.inode, one)?;
                self.give(state, other, moved)?;
                state.pending.pop();
                let back = Change::Unname {
                    directory: self.inode,
                    name: other.into(),
                };
                state.current.apply(&back);
                state.make(Change::Move {
                    from: (self.inode, one.into()),
                    to: (self.inode, other.into()),
                });
                Ok(())
            },
        )
    }

    fn remove(&self, name: &Path) -> Result<()> {
        self.disk
            .change(format_args!("remove {}", name.display()), |state| {
                if is_directory(&state.current, state.find(self.inode, name)?) {
                    return Err(ErrorKind::IsADirectory.into());
                }
                state.unname(self.inode, name)
            })
    }

    fn remove_directory(&self, name: &Path) -> Result<()> {
        self.disk.change(
            format_args!("remove directory {}", name.display()),
            |state| {
                let inode = state.find(self.inode, name)?;
                state.is_no_mount(self.inode, name)?;
                if !state.current.names(inode)?.is_empty() {
                    return Err(ErrorKind::DirectoryNotEmpty.into());
                }
                state.make(Change::Unname {
                    directory: self.inode,
                    name: name.into(),
                });
                Ok(())
            },
        )
    }

    fn names(&self) -> Result<Vec<OsString>> {
        self.disk
            .look(|state| Ok(state.current.names(self.inode)?.keys().cloned().collect()))
    }

    fn is_at(&self, _path: &Path) -> bool {
        !self.disk.0.lock().moved
    }

    fn sync_file_system(&self) -> Result<()> {
        self.disk.sync("sync all", |_| true)
    }

    fn sync_names(&self) -> Result<()> {
        self.disk.sync("sync names", |change| {
            change.is_name_in(self.inode) || change.of_content() == Some(self.inode)
        })
    }

    fn try_clone(&self) -> Result<ModelDirectory> {
        Ok(ModelDirectory {
            disk: self.disk.clone(),
            inode: self.inode,
        })
    }

    fn try_lock(&self) -> bool {
        true
    }

    fn set_attributes(&self, given: Given<'_>) -> Result<()> {
        give(&self.disk, self.inode, given)
    }

    fn set_attributes_at(&self, name: &Path, given: Given<'_>, _is_link: bool) -> Result<()> {
        let inode = self.disk.look(|state| state.find(self.inode, name))?;
        give(&self.disk, inode, given)
    }
}

fn give(disk: &Model, inode: u64, given: Given<'_>) -> Result<()> {
    let abilities = disk.0.lock().abilities.clone();
    let accepted = given.accepted();
    abilities
        .kept_nowhere()
        .for_each(|lack| given.lacks(lack, &accepted));
    set(disk, inode, text(&accepted))
}

fn set(disk: &Model, inode: u64, attributes: String) -> Result<()> {
    disk.change("set attributes", |state| {
        state.make(Change::Attributes { inode, attributes });
        Ok(())
    })
}

impl DiskFile for ModelFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.disk.look(|state| {
            let Inode::File { bytes, .. } = state.current.inode(self.inode) else {
                return Err(ErrorKind::IsADirectory.into());
            };
            let from =
                usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
            let count = buffer.len().min(bytes.len() - from);
            buffer[..count].copy_from_slice(&bytes[from..from + count]);
            Ok(count)
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.grow(
            format_args!("write {} bytes at {offset}", bytes.len()),
            |state| {
                state.has_room(self.inode, offset + bytes.len() as u64)?;
                state.make(Change::Write {
                    inode: self.inode,
                    at: offset,
                    bytes: bytes.to_vec(),
                });
                state.write_back(bytes.len());
                Ok(())
            },
        )
    }

    fn bytes(&self) -> Result<u64> {
        self.disk
            .look(|state| match state.current.inode(self.inode) {
                Inode::File { bytes, .. } => Ok(bytes.len() as u64),
                _ => Err(ErrorKind::IsADirectory.into()),
            })
    }

    fn set_bytes(&self, bytes: u64) -> Result<()> {
        self.disk
            .change(format_args!("set length {bytes}"), |state| {
                state.make(Change::SetBytes {
                    inode: self.inode,
                    bytes,
                });
                Ok(())
            })
    }

    fn punch(&self, part: Range<u64>) -> Result<()> {
        self.disk.change(format_args!("punch {part:?}"), |state| {
            state
                .abilities
                .need(Ability::LinksAndAttributes, state.abilities.no_holes)?;
            let Inode::File { bytes, .. } = state.current.inode(self.inode) else {
                panic!("it is a file")
            };
            let end = part.end.min(bytes.len() as u64);
            let bytes = vec![0; end.saturating_sub(part.start) as usize];
            state.make(Change::Write {
                inode: self.inode,
                at: part.start,
                bytes,
            });
            Ok(())
        })
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.reserved = state.reserved.max(bytes);
        Ok(())
    }

    fn links(&self) -> Result<u64> {
        self.disk
            .look(|state| Ok(state.current.links_of(self.inode)))
    }

    fn is_private(&self) -> Result<bool> {
        self.disk.look(|state| {
            Ok(state.is_private(self.inode) && state.current.links_of(self.inode) <= 1)
        })
    }

    fn sync_data(&self) -> Result<()> {
        self.disk.sync("sync data", |change| {
            change.of_content() == Some(self.inode)
        })
    }

    fn sync(&self) -> Result<()> {
        self.disk
            .sync("sync", |change| change.of_content() == Some(self.inode))
    }

    fn forget(&self) -> Result<()> {
        self.disk.change("forget", |state| {
            // The cached content becomes the disk's.
            let Inode::File { bytes, attributes } = state.durable.inode(self.inode).clone() else {
                return Ok(());
            };
            let pending = state
                .pending
                .iter()
                .filter(|change| change.of_content() == Some(self.inode))
                .cloned();
            let pending: Vec<Change> = pending.collect();
            state
                .current
                .add(self.inode, Inode::File { bytes, attributes });
            pending
                .iter()
                .for_each(|change| state.current.apply(change));
            Ok(())
        })
    }

    fn try_clone(&self) -> Result<ModelFile> {
        Ok(ModelFile {
            disk: self.disk.clone(),
            inode: self.inode,
        })
    }

    fn try_lock(&self) -> bool {
        true
    }

    fn set_attributes(&self, given: Given<'_>) -> Result<()> {
        give(&self.disk, self.inode, given)
    }

    fn keeps(&self, lack: Lack) -> Result<bool> {
        self.disk.change("try attributes", |state| {
            Ok(state.abilities.kept_nowhere().all(|one| one != lack))
        })
    }

    fn keep_attributes(&self, attributes: FileAttributes) -> Result<()> {
        set(&self.disk, self.inode, format!("{:o}", attributes.mode))
    }
}
