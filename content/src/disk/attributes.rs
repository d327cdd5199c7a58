//! Setting of a received file's mode, times, owner and extended attributes as at the sender.

use crate::manifest::{Attributes, Manifest, Node, Owner, Special, Time, Xattr};
use crate::name;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::FileAttributes;
use nix::unistd::{Group, User};
use rustix::fs::{self as linux, AtFlags, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::str::FromStr;

/// Mode bits that are kept if the owner cannot be set: a set-user-id program must not run as
/// another user.
const MODE_WITHOUT_OWNER: u16 = 0o1777;
const SETID: u16 = 0o6000;
/// A mode that no file system sets by itself, and that vfat cannot have.
const TRIED_MODE: u32 = 0o640;
/// A user and a group that are probably not those of this process.
const TRIED_OWNER: u32 = 1;

/// An attribute that a file system may be unable to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    Owners,
    Modes,
    Xattrs,
    SymbolicLinks,
    HardLinks,
}

impl Lack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lack::Owners => "owners",
            Lack::Modes => "modes",
            Lack::Xattrs => "extended attributes",
            Lack::SymbolicLinks => "symbolic links",
            Lack::HardLinks => "hard links",
        }
    }
}

/// Sets attributes that are accepted, and counts those that are not, or cannot be set here.
#[derive(Debug, Default)]
pub struct Setter {
    accept: Accept,
    left_out: Mutex<LeftOut>,
    owners: Mutex<HashMap<u16, (u32, u32)>>,
    lacks: Mutex<BTreeMap<Lack, (u64, String)>>,
}

/// Attributes to be set, with the manifest that lists their owner.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    setter: &'a Setter,
    attributes: &'a Attributes,
    manifest: &'a Manifest,
}

#[derive(Debug)]
pub(super) struct Accepted<'a> {
    pub owner: Option<(u32, u32)>,
    pub mode: u16,
    pub modified: Time,
    pub xattrs: Vec<&'a Xattr>,
}

impl<'a> Given<'a> {
    pub(super) fn accepted(&self) -> Accepted<'a> {
        let Given {
            setter,
            attributes,
            manifest,
        } = *self;
        let owner = if setter.accept.owners {
            setter.owner(attributes, manifest)
        } else {
            attributes
                .owner
                .iter()
                .for_each(|_| setter.leave_out(Privilege::Owner, ""));
            None
        };
        let mode = if setter.accept.setid {
            attributes.mode
        } else {
            attributes.mode & !SETID
        };
        // The owner's bits without the owner give no privilege.
        if mode != attributes.mode && attributes.owner.is_some() {
            setter.leave_out(Privilege::SetId, "");
        }
        let takes = |xattr: &&Xattr| {
            let takes = setter.accept.takes_xattr(xattr);
            if !takes {
                setter.leave_out(Privilege::Xattr, &name::shown(&xattr.name));
            }
            takes
        };
        Accepted {
            owner,
            mode,
            modified: attributes.modified,
            xattrs: attributes.xattrs.iter().filter(takes).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn lacks(&self, lack: Lack, accepted: &Accepted<'_>) {
        let is_given = match lack {
            Lack::Owners => accepted.owner.is_some(),
            Lack::Xattrs => !accepted.xattrs.is_empty(),
            _ => true,
        };
        if is_given {
            self.setter.count(lack, "");
        }
    }

    pub(super) fn set(&self, file: impl AsFd) -> io::Result<()> {
        let (
            setter,
            Accepted {
                owner,
                mode: bits,
                modified,
                xattrs,
            },
        ) = (self.setter, self.accepted());
        let owned = match owner {
            Some((user, group)) => {
                let owned =
                    linux::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
                setter.heed_owner(owned)?
            }
            None => false,
        };
        for xattr in xattrs {
            let set = linux::fsetxattr(&file, &*xattr.name, &xattr.value, XattrFlags::empty());
            setter.heed_xattr(set, &xattr.name)?;
        }
        setter.heed_mode(linux::fchmod(&file, mode(bits, owned)))?;
        Ok(linux::futimens(&file, &times(modified))?)
    }

    pub(super) fn set_at(
        &self,
        directory: impl AsFd,
        name: &Path,
        is_link: bool,
    ) -> io::Result<()> {
        let (setter, flags) = (self.setter, AtFlags::SYMLINK_NOFOLLOW);
        let Accepted {
            owner,
            mode: bits,
            modified,
            ..
        } = self.accepted();
        let owned = match owner {
            Some((user, group)) => {
                let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
                let owned = linux::chownat(&directory, name, user, group, flags);
                setter.heed_owner(owned)?
            }
            None => false,
        };
        if !is_link {
            setter.heed_mode(linux::chmodat(
                &directory,
                name,
                mode(bits, owned),
                AtFlags::empty(),
            ))?;
        }
        Ok(linux::utimensat(&directory, name, &times(modified), flags)?)
    }
}

impl Setter {
    /// Creates a setter of the accepted attributes.
    pub fn new(accept: Accept) -> Setter {
        Setter {
            accept,
            ..Setter::default()
        }
    }

    /// Whether an entry is made: a device node only if it is accepted.
    pub(crate) fn takes_node(&self, node: &Node) -> bool {
        self.accept.takes_node(node)
    }

    pub(crate) fn leave_out(&self, privilege: Privilege, name: &str) {
        self.left_out.lock().add(privilege, name);
    }

    /// Returns the counts of attributes that are not accepted.
    pub fn left_out(&self) -> LeftOut {
        self.left_out.lock().clone()
    }

    /// Returns attributes to be set, for a file of `manifest`.
    pub fn gives<'a>(&'a self, attributes: &'a Attributes, manifest: &'a Manifest) -> Given<'a> {
        Given {
            setter: self,
            attributes,
            manifest,
        }
    }

    fn owner(&self, attributes: &Attributes, manifest: &Manifest) -> Option<(u32, u32)> {
        let place = attributes.owner?;
        let owner = manifest.owner_at(place)?;
        Some(
            *self
                .owners
                .lock()
                .entry(place)
                .or_insert_with(|| known_here(owner)),
        )
    }

    /// Counts a file that cannot keep an attribute.
    pub fn count(&self, lack: Lack, why: &str) {
        let mut lacks = self.lacks.lock();
        lacks.entry(lack).or_insert_with(|| (0, why.to_owned())).0 += 1;
    }

    /// Returns a sentence for each kind of attribute that could not be kept.
    pub fn lacks(&self) -> Vec<(Lack, String)> {
        let sentence = |lack: &Lack, count: &u64, why: &str| match lack {
            Lack::Owners => format!(
                "the owners of {count} files and directories are not kept ({why}): only root may give files away, and \
                 not on every file system"
            ),
            Lack::Modes => {
                format!("the modes of {count} files and directories are not kept ({why})")
            }
            Lack::Xattrs => {
                format!("{count} extended attributes are not kept, the first of them {why}")
            }
            Lack::SymbolicLinks => format!("{count} symbolic links are left out ({why})"),
            Lack::HardLinks => format!(
                "{count} hard links are copies, as the file system has no more links ({why})"
            ),
        };
        self.lacks
            .lock()
            .iter()
            .map(|(lack, (count, why))| (*lack, sentence(lack, count, why)))
            .collect()
    }

    /// Returns whether the owner was set. A failure for lack of rights or support is counted; any
    /// other is an error.
    fn heed_owner(&self, result: rustix::io::Result<()>) -> io::Result<bool> {
        self.heed(Lack::Owners, result, |error| error.to_string())
    }

    fn heed_mode(&self, result: rustix::io::Result<()>) -> io::Result<()> {
        self.heed(Lack::Modes, result, |error| error.to_string())
            .map(drop)
    }

    fn heed_xattr(&self, result: rustix::io::Result<()>, name: &[u8]) -> io::Result<()> {
        self.heed(Lack::Xattrs, result, |error| {
            format!("{} ({error})", name::shown(name))
        })
        .map(drop)
    }

    fn heed(
        &self,
        lack: Lack,
        result: rustix::io::Result<()>,
        why: impl Fn(Errno) -> String,
    ) -> io::Result<bool> {
        match result {
            Err(error) if is_impossible(error) => {
                self.count(lack, &why(error));
                Ok(false)
            }
            result => Ok(result.map(|()| true)?),
        }
    }
}

fn is_impossible(error: Errno) -> bool {
    // EINVAL is returned for an owner outside the user namespace, E2BIG and ERANGE for long
    // attributes.
    let errors = [
        Errno::PERM,
        Errno::NOTSUP,
        Errno::NOSYS,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::TOOBIG,
        Errno::RANGE,
    ];
    errors.contains(&error)
}

/// Sets the mode, without set-user-id and set-group-id, and the time of a single file.
pub(super) fn keep_attributes(file: &File, attributes: FileAttributes) -> io::Result<()> {
    let FileAttributes {
        mode: bits,
        modified_seconds,
        modified_nanoseconds,
    } = attributes;
    let modified = Time {
        seconds: modified_seconds,
        nanoseconds: modified_nanoseconds,
    };
    match linux::fchmod(file, mode(bits, false)) {
        Err(error) if is_impossible(error) => log::warn!("the mode is not kept: {error}"),
        set => set?,
    }
    Ok(linux::futimens(file, &times(modified))?)
}

/// Whether an open file keeps a mode, an owner or an attribute: sets one and reads it back, because
/// some file systems ignore it without an error. A user who may not give files away, or whose user
/// namespace has no other users, cannot test this.
///
/// # Errors
/// Errors that do not depend on the file system.
pub(super) fn keeps(file: &File, lack: Lack) -> io::Result<bool> {
    let set = match lack {
        Lack::Modes => linux::fchmod(file, Mode::from_raw_mode(TRIED_MODE)),
        Lack::Owners if !may_give_away() => return Ok(true),
        Lack::Owners => linux::fchown(
            file,
            Some(Uid::from_raw(TRIED_OWNER)),
            Some(Gid::from_raw(TRIED_OWNER)),
        ),
        Lack::Xattrs => {
            let set = |name: &str| linux::fsetxattr(file, name, b"1", XattrFlags::empty());
            set("user.ethbcast").or_else(|error| set("trusted.ethbcast").map_err(|_| error))
        }
        Lack::SymbolicLinks | Lack::HardLinks => return Ok(true),
    };
    match set {
        Err(Errno::INVAL) => return Ok(true),
        Err(error) if is_impossible(error) => return Ok(false),
        set => set?,
    }
    let there = linux::fstat(file)?;
    Ok(match lack {
        Lack::Modes => Mode::from_raw_mode(there.st_mode) == Mode::from_raw_mode(TRIED_MODE),
        Lack::Owners => (there.st_uid, there.st_gid) == (TRIED_OWNER, TRIED_OWNER),
        _ => true,
    })
}

/// Whether this process has CAP_CHOWN (proc_pid_status(5)).
fn may_give_away() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 == 1)
}

fn mode(bits: u16, owned: bool) -> Mode {
    Mode::from_raw_mode(
        if owned {
            bits
        } else {
            bits & MODE_WITHOUT_OWNER
        }
        .into(),
    )
}

fn times(time: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: linux::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds.into(),
        },
    }
}

/// Returns the ids of the named user and group here, or the sender's ids for names that are not
/// sent or not known.
fn known_here(owner: &Owner) -> (u32, u32) {
    let text = |name: &[u8]| {
        std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    };
    let user = text(&owner.user_name).and_then(|name| User::from_name(&name).ok().flatten());
    let group = text(&owner.group_name).and_then(|name| Group::from_name(&name).ok().flatten());
    (
        user.map_or(owner.user, |user| user.uid.as_raw()),
        group.map_or(owner.group, |group| group.gid.as_raw()),
    )
}

/// Namespaces of extended attributes that give rights, or belong to the system: accepted by name
/// alone.
const PRIVILEGED: [&[u8]; 3] = [b"security.", b"trusted.", b"system."];

/// Privileges that a receiver accepts. The rest is left out and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Whether files and directories get the sender's owners.
    pub owners: bool,
    /// Whether set-user-id and set-group-id bits are kept, with the owner.
    pub setid: bool,
    /// Whether device nodes are made.
    pub devices: bool,
    /// Whether extended attributes are set, but for the namespaces security, trusted and system.
    pub xattrs: bool,
    /// Extended attributes of any namespace that are set.
    pub named_xattrs: Vec<String>,
    /// Whether a packed content is unpacked here.
    pub unpack: bool,
}

impl Accept {
    /// Acceptance of nothing.
    pub const NONE: Accept = Accept {
        owners: false,
        setid: false,
        devices: false,
        xattrs: false,
        named_xattrs: Vec::new(),
        unpack: false,
    };
    /// Privileges at a receiver that runs as a daemon, to which any host may send.
    pub const SERVED: Accept = Accept {
        owners: false,
        setid: false,
        devices: false,
        xattrs: false,
        named_xattrs: Vec::new(),
        unpack: true,
    };

    pub(crate) fn takes_xattr(&self, xattr: &Xattr) -> bool {
        let is_privileged = PRIVILEGED
            .iter()
            .any(|namespace| xattr.name.starts_with(namespace));
        self.xattrs && !is_privileged
            || self
                .named_xattrs
                .iter()
                .any(|name| name.as_bytes() == &*xattr.name)
    }

    pub(crate) fn takes_xattrs(&self) -> bool {
        self.xattrs || !self.named_xattrs.is_empty()
    }

    pub(crate) fn takes_node(&self, node: &Node) -> bool {
        self.devices
            || !matches!(
                node,
                Node::Special(Special::Character(..) | Special::Block(..))
            )
    }
}

impl Default for Accept {
    fn default() -> Accept {
        Accept {
            owners: true,
            setid: true,
            ..Accept::SERVED
        }
    }
}

impl FromStr for Accept {
    type Err = String;

    fn from_str(list: &str) -> Result<Accept, String> {
        let mut accept = Accept::NONE;
        for word in list.split(',') {
            match word {
                "owner" => accept.owners = true,
                "setid" => accept.setid = true,
                "devices" => accept.devices = true,
                "xattrs" => accept.xattrs = true,
                "unpack" => accept.unpack = true,
                "all" => {
                    let named_xattrs = std::mem::take(&mut accept.named_xattrs);
                    accept = Accept {
                        devices: true,
                        xattrs: true,
                        named_xattrs,
                        ..Accept::default()
                    };
                }
                "none" if list == "none" => {}
                _ => match word.strip_prefix("xattrs=").filter(|name| !name.is_empty()) {
                    Some(name) => accept.named_xattrs.push(name.to_owned()),
                    None => {
                        return Err(format!(
                            "`{word}` is no privilege: give owner, setid, devices, xattrs, xattrs=NAME and unpack with \
                             commas between them, or all, or none"
                        ));
                    }
                },
            }
        }
        Ok(accept)
    }
}

/// Kind of privilege that the sender's data could carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// The owner of a file or directory.
    Owner,
    /// Set-user-id or set-group-id bits of a file or directory.
    SetId,
    /// A device node.
    Device,
    /// An extended attribute.
    Xattr,
}

impl Privilege {
    pub const ALL: [Privilege; 4] = [
        Privilege::Owner,
        Privilege::SetId,
        Privilege::Device,
        Privilege::Xattr,
    ];

    /// Returns the name used in a list of privileges.
    pub fn word(self) -> &'static str {
        match self {
            Privilege::Owner => "owner",
            Privilege::SetId => "setid",
            Privilege::Device => "devices",
            Privilege::Xattr => "xattrs",
        }
    }
}

/// Counts of attributes left out because they are not accepted.
#[derive(Clone, Debug, Default)]
pub struct LeftOut(BTreeMap<Privilege, (u64, String)>);

impl LeftOut {
    pub(crate) fn add(&mut self, privilege: Privilege, name: &str) {
        self.0
            .entry(privilege)
            .or_insert_with(|| (0, name.to_owned()))
            .0 += 1;
    }

    /// Returns the number of omissions of a kind.
    pub fn count(&self, privilege: Privilege) -> u64 {
        self.0.get(&privilege).map_or(0, |(count, _)| *count)
    }

    /// Returns a sentence for each kind, with the option that accepts it.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(privilege, (count, name)): (&Privilege, &(u64, String))| {
            let (noun, nouns) = match privilege {
                Privilege::Owner => (
                    "owner of a file or directory",
                    "owners of files and directories",
                ),
                Privilege::SetId => (
                    "set-user-id or set-group-id mode",
                    "set-user-id or set-group-id modes",
                ),
                Privilege::Device => ("device node", "device nodes"),
                Privilege::Xattr => ("extended attribute", "extended attributes"),
            };
            let what = if *count == 1 {
                format!("1 {noun} was")
            } else {
                format!("{count} {nouns} were")
            };
            let is_privileged = PRIVILEGED
                .iter()
                .any(|namespace| name.as_bytes().starts_with(namespace));
            let by_name = if is_privileged {
                format!("={name}")
            } else {
                String::new()
            };
            let (accept, kind) = (OptionName("accept"), privilege.word());
            format!("{what} left out: {accept} {kind}{by_name}")
        };
        self.0.iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(list: &str) -> Vec<&'static str> {
        let accept: Accept = list.parse().expect("a list");
        let xattr = |name: &str| Xattr {
            name: name.as_bytes().into(),
            value: Box::default(),
        };
        let device = Node::Special(Special::Block(7, 0));
        let all = [
            (accept.owners, "owner"),
            (accept.setid, "setid"),
            (accept.takes_node(&device), "devices"),
            (accept.takes_xattr(&xattr("user.x")), "user"),
            (
                accept.takes_xattr(&xattr("security.capability")),
                "capability",
            ),
            (accept.takes_xattr(&xattr("security.selinux")), "selinux"),
            (accept.unpack, "unpack"),
        ];
        all.into_iter()
            .filter(|(is_taken, _)| *is_taken)
            .map(|(_, word)| word)
            .collect()
    }

    #[test]
    fn each_value_of_accept_allows_what_it_names_and_attributes_with_privileges_are_named_one_by_one()
     {
        assert_eq!(taken("none"), [""; 0]);
        assert_eq!(taken("owner,devices"), ["owner", "devices"]);
        assert_eq!(taken("xattrs"), ["user"]);
        assert_eq!(
            taken("xattrs=security.capability,all"),
            ["owner", "setid", "devices", "user", "capability", "unpack"]
        );
        assert_eq!(
            taken("setid,xattrs=security.selinux,unpack"),
            ["setid", "selinux", "unpack"]
        );
        for wrong in ["", "owners", "xattrs=", "none,owner", "owner, setid"] {
            assert!(
                wrong
                    .parse::<Accept>()
                    .is_err_and(|text| text.contains("is no privilege")),
                "{wrong}"
            );
        }
        assert!(
            Accept::default().takes_node(&Node::Special(Special::Fifo)),
            "a fifo gives no rights"
        );
    }

    #[test]
    fn left_out_attributes_are_reported_with_the_option_that_accepts_them() {
        let mut left_out = LeftOut::default();
        (0..3).for_each(|_| left_out.add(Privilege::Device, ""));
        left_out.add(Privilege::Xattr, "security.capability");
        let said = [
            "3 device nodes were left out: accept devices",
            "1 extended attribute was left out: accept xattrs=security.capability",
        ];
        assert_eq!(left_out.sentences(), said);
        assert_eq!(Privilege::ALL.map(|one| left_out.count(one)), [0, 0, 3, 1]);
    }
}
