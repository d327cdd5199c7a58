//! Rights that a transfer does not need, which it gives up once its port, DEST and key are open.
//!
//! Commands of the user (`--exec`, `--pipe`) inherit the rights of this process. Where there are
//! some, they keep what they could do; with `--user` they run as that user, and have no capability.

use crate::exit::{Code, Failure, WithCode, fail};
use crate::{key, whole_file};
use ethbcast_content::command;
use landlock::{
    ABI, AccessFs, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, path_beneath_rules,
};
use nix::sys::prctl;
use nix::unistd::{Gid, Uid, User, initgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// Capabilities with which root keeps owners and modes, and reads and writes files of others.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Files that started programs open to write.
const OF_PROGRAMS: [&str; 2] = ["/dev/null", "/dev/tty"];

/// Highest priority of frames that anybody may give (socket(7), `SO_PRIORITY`).
const MOST_FREE_PRIORITY: u8 = 6;

/// Rights that a transfer still needs.
#[derive(Debug, PartialEq)]
pub struct Needs<'a> {
    pub has_key: bool,
    pub has_commands: bool,
    pub user: Option<&'a User>,
    /// Whether it opens ports as that user and starts programs that do.
    pub opens_later: bool,
    /// Capabilities that root keeps, besides those for files and ports.
    pub capabilities: CapabilitySet,
    pub dest: Option<&'a Path>,
    /// Whether DEST may be replaced by another entry of the directory that holds it.
    pub replaces_dest: bool,
    /// Files that are replaced whole, such as reports.
    pub files: Vec<&'a Path>,
}

impl Needs<'_> {
    /// Whether rights are given up: in a session with `--user`, or with a key and without commands.
    pub fn confines(&self) -> bool {
        self.user.is_some() || self.has_key && !self.has_commands
    }

    /// Returns the paths beneath which it writes: a file that is replaced, or a directory as DEST,
    /// is renamed in the directory that holds it.
    fn writable(&self) -> Vec<PathBuf> {
        let replaced = self
            .dest
            .filter(|_| self.replaces_dest)
            .into_iter()
            .chain(self.files.iter().copied());
        self.dest
            .map(Path::to_owned)
            .into_iter()
            .chain(replaced.flat_map(holders))
            .collect()
    }
}

/// Finds a user by name.
pub fn user(name: &str) -> Result<User, String> {
    let found = User::from_name(name)
        .map_err(|errno| format!("the list of users cannot be read: {errno}"))?;
    found.ok_or_else(|| "this host has no such user".to_owned())
}

/// Keeps what a priority of frames needs when the port is opened again.
pub fn keep_priority(capabilities: &mut CapabilitySet, priority: Option<u8>) {
    capabilities.set(
        CapabilitySet::NET_ADMIN,
        priority.is_some_and(|priority| priority > MOST_FREE_PRIORITY),
    );
}

/// Returns the directory that holds a file, with that of the file behind its symbolic links.
fn holders(path: &Path) -> impl Iterator<Item = PathBuf> {
    let holder = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    let behind = path.canonicalize().ok().and_then(|path| holder(&path));
    holder(path).into_iter().chain(behind)
}

/// Gives up what is not needed.
///
/// User and groups are those of the whole process. The rest holds for the calling thread, and for
/// the threads and programs that it starts from now on; threads that handle signals and show
/// progress keep their capabilities.
///
/// # Errors
/// If this process may not become the user.
pub fn confine(needs: &Needs<'_>) -> anyhow::Result<()> {
    if let Some(user) = needs.user {
        if !needs.has_commands {
            bound(CapabilitySet::NET_RAW);
        }
        become_user(user)?;
        command::clear_ambient_capabilities();
        if needs.has_key {
            // The kernel lets others read a process that has changed its user, as
            // `fs.suid_dumpable` says.
            key::hide();
        }
        keep(CapabilitySet::NET_RAW, needs.opens_later).code(Code::System)?;
        // What root could write, this user may not.
        for path in &needs.files {
            whole_file::try_place(path).map_err(|error| {
                Failure::new(
                    Code::System,
                    format!("cannot write {}: {error}", path.display()),
                )
            })?;
        }
    }
    if needs.has_commands || !needs.confines() {
        return Ok(());
    }
    if needs.user.is_none() {
        keep_only(
            FILES | CapabilitySet::NET_RAW | needs.capabilities,
            needs.opens_later,
        );
    }
    gain_none_and_write_to(&needs.writable());
    Ok(())
}

/// Gives up every capability, the right to gain others, and to write.
pub fn give_up_all() {
    keep_only(CapabilitySet::empty(), false);
    gain_none_and_write_to(&[]);
}

fn keep_only(kept: CapabilitySet, opens_later: bool) {
    bound(kept);
    if let Err(error) = keep(kept, opens_later) {
        log::warn!("this process keeps capabilities that it does not need: {error}");
    }
}

fn gain_none_and_write_to(paths: &[PathBuf]) {
    if let Err(error) = prctl::set_no_new_privs() {
        log::warn!("programs that this process starts can gain rights: {error}");
    }
    match confine_writing(paths) {
        Ok(status) => log::debug!("Landlock: {:?}", status.ruleset),
        Err(error) => {
            log::debug!("no Landlock, so this process can write wherever its user may: {error}")
        }
    }
}

fn become_user(user: &User) -> anyhow::Result<()> {
    let (uid, gid) = (user.uid, user.gid);
    if (Uid::current(), Uid::effective(), Gid::effective()) == (uid, uid, gid) {
        return Ok(());
    }
    let name = CString::new(user.name.as_str()).code(Code::System)?;
    let became = prctl::set_keepcaps(true)
        .and_then(|()| initgroups(&name, gid))
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        .and_then(|()| prctl::set_keepcaps(false));
    match became {
        Ok(()) => Ok(()),
        Err(errno) => fail(
            Code::System,
            format!(
                "--user {}: only root can become another user ({errno})",
                user.name
            ),
        ),
    }
}

/// Removes all other capabilities from those that started programs can get.
fn bound(kept: CapabilitySet) {
    let all = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    // The kernel refuses capabilities that it does not know.
    let bounded = all.take_while(|&one| capability_is_in_bounding_set(one).is_ok());
    for one in bounded.filter(|&one| !kept.contains(one)) {
        if let Err(error) = remove_capability_from_bounding_set(one) {
            log::debug!("the bounding set stays: {error}");
            return;
        }
    }
}

fn keep(kept: CapabilitySet, opens_later: bool) -> io::Result<()> {
    let kept = capabilities(None)?.permitted & kept;
    let inherited = if opens_later {
        kept & CapabilitySet::NET_RAW
    } else {
        CapabilitySet::empty()
    };
    clear_ambient_capability_set()?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: inherited,
        },
    )?;
    if !inherited.is_empty() {
        configure_capability_in_ambient_set(inherited, true)?;
    }
    Ok(())
}

/// Confines writing to these directories and files. Fails where the kernel cannot rename from one
/// of them to another then (before Linux 5.19).
fn confine_writing(paths: &[PathBuf]) -> Result<RestrictionStatus, RulesetError> {
    let paths = paths
        .iter()
        .map(PathBuf::as_path)
        .chain(OF_PROGRAMS.map(Path::new));
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V2))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Truncate)?
        .create()?
        .add_rules(path_beneath_rules(paths, AccessFs::from_write(ABI::V3)))?
        .restrict_self()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    #[test]
    fn a_confined_thread_writes_where_it_needs_to_and_nowhere_else() {
        let (own, other) = (
            tempfile::tempdir().expect("a directory"),
            tempfile::tempdir().expect("a directory"),
        );
        let (inner, outer) = (own.path().join("inner"), other.path().join("outer"));
        fs::create_dir(&inner).expect("room");
        fs::write(&outer, "as it was").expect("room");
        let confined = || {
            if let Err(error) = confine_writing(&[own.path().to_owned()]) {
                eprintln!("NOT TESTED WITHOUT LANDLOCK: that writing is confined ({error})");
                return "as it was".to_owned();
            }
            fs::write(own.path().join("a"), "x").expect("its own");
            fs::rename(own.path().join("a"), inner.join("b")).expect("its own");
            let refused = [
                fs::write(&outer, "taken").err(),
                fs::rename(inner.join("b"), other.path().join("b")).err(),
                fs::remove_file(&outer).err(),
                fs::create_dir(other.path().join("d")).err(),
            ];
            assert!(refused.iter().all(Option::is_some), "{refused:?}");
            fs::read_to_string(&outer).expect("reading is free")
        };
        let read = thread::scope(|scope| scope.spawn(confined).join().expect("no panic"));
        assert_eq!(read, "as it was");
        fs::write(&outer, "free").expect("the other thread is not confined");
    }

    #[test]
    fn beside_dest_a_process_writes_only_where_dest_may_be_replaced() {
        let writable = |replaces_dest| {
            let needs = Needs {
                has_key: true,
                has_commands: false,
                user: None,
                opens_later: false,
                capabilities: CapabilitySet::empty(),
                dest: Some(Path::new("/nowhere/dest")),
                replaces_dest,
                files: vec![Path::new("/nobody/metrics")],
            };
            needs.writable()
        };
        assert_eq!(
            writable(true),
            ["/nowhere/dest", "/nowhere", "/nobody"].map(PathBuf::from)
        );
        assert_eq!(
            writable(false),
            ["/nowhere/dest", "/nobody"].map(PathBuf::from)
        );
    }

    #[test]
    fn the_holders_of_a_file_are_its_directory_and_that_behind_its_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let (target, link) = (
            directory.path().join("target"),
            directory.path().join("link"),
        );
        fs::create_dir_all(target.join("dest")).expect("room");
        std::os::unix::fs::symlink(target.join("dest"), &link).expect("room");
        let behind = target.canonicalize().expect("it is there");
        assert_eq!(
            holders(&link).collect::<Vec<_>>(),
            [directory.path().to_owned(), behind]
        );
        assert_eq!(
            holders(Path::new("new")).collect::<Vec<_>>(),
            [PathBuf::from(".")]
        );
    }
}
