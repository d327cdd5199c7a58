//! Shared-memory file through which processes on one host find each other. It exists while one of
//! them lives.
//!
//! Its name contains the network namespace, the interface and the group; it belongs to one user and
//! only that user may open it. Live processes hold locks, which the kernel releases when they end.
//! Leftovers of a crashed run are recognisable: the local port ids are free, and a file without any
//! process is emptied by the next one that joins, or removed.
//!
//! Locks on the node's file; the kernel releases them when their process ends, however it does.
//!
//! They are open file description locks (`F_OFD_SETLK`), and are only tried, never waited for.

use super::NodeError;
use super::board::{Board, MAX_PROCESSES, TEXT_BYTES};
use super::memory::SharedMemory;
use crate::MacAddr;
use crate::link::{Interest, Waiter};
use crate::packet::Interface;
use crate::packet::error::Errno;
use crate::packet::sleep::{Sleeper, SocketEvents, WakeUpSocket};
use crate::wire::{ETHERNET_BYTES, EtherType};
use nix::fcntl::{FcntlArg, OFlag, fcntl, open, posix_fallocate};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, lstat};
use nix::unistd::{ftruncate, geteuid, unlink};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const DIRECTORY: &str = "/dev/shm";
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(2);
const LEAVES_WITHIN: Duration = Duration::from_millis(200);

/// Settings common to the processes of a node, and a random number of this process, the `nonce`.
/// The names of the group and the host have 255 bytes at most.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub group_mac: MacAddr,
    pub group: String,
    pub host: String,
    pub ether_type: EtherType,
    pub nonce: u64,
    /// Port id that this process has to get; none: the first free one.
    pub port_id: Option<u8>,
}

#[derive(Debug)]
pub(super) struct Place {
    pub board: Board,
    pub port_id: u8,
    pub bell: WakeUpSocket,
    pub path: PathBuf,
    pub file: OwnedFd,
}

impl NodeConfig {
    fn described(&self) -> [(&'static str, String); 3] {
        [
            ("group", self.group.clone()),
            ("host name", self.host.clone()),
            ("EtherType", self.ether_type.to_string()),
        ]
    }

    fn text(&self) -> Vec<u8> {
        let told = self.described().map(|(_, value)| value);
        let mut text = told.join("\0").into_bytes();
        text.truncate(TEXT_BYTES);
        text
    }
}

fn prefix(interface: &Interface) -> String {
    let namespace =
        std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |namespace| namespace.ino());
    format!("ethbcast-{namespace:x}-{:x}-", interface.index)
}

fn file_name(interface: &Interface, group_mac: MacAddr) -> String {
    let group: String = group_mac
        .octets()
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    prefix(interface) + &group
}

impl Place {
    pub(super) fn take(
        directory: &Path,
        interface: &Interface,
        config: &NodeConfig,
    ) -> Result<Place, NodeError> {
        let path = directory.join(file_name(interface, config.group_mac));
        let failed = |step| {
            let path = path.clone();
            move |errno| NodeError::System {
                path,
                step,
                errno: Errno::new(errno),
            }
        };
        let file = enter(&path, config)?;
        let stride = Board::stride(ETHERNET_BYTES + interface.mtu_bytes);
        let bytes = Board::file_bytes(stride);
        let (found, others) = (stat(&file, &path)?, is_anybody_in(&file));
        let found_bytes = usize::try_from(found.st_size).unwrap_or(usize::MAX);
        if found_bytes != 0 && !others {
            log::info!(
                "{} is what a run that has ended left: it is made anew",
                path.display()
            );
            ftruncate(&file, 0).map_err(failed("empty"))?;
        }
        if !others {
            // The kernel's offsets have 32 bits on some machines.
            ftruncate(&file, bytes.get() as _).map_err(failed("make"))?;
            reserve(&file, Board::header()).map_err(failed("find memory for"))?;
        } else if found_bytes != bytes.get() {
            return Err(NodeError::OtherLayout { path });
        }
        let board = Board::new(
            SharedMemory::map(&file, bytes).map_err(failed("map"))?,
            stride,
        );
        if others {
            agree(&board, &path, config)?;
        } else {
            board.make(&config.text());
        }
        let mut wanted = config
            .port_id
            .map_or(0..MAX_PROCESSES as u8, |port_id| port_id..port_id + 1);
        let port_id = wanted.find(|&port_id| Lock::Process(port_id).take(&file) == Ok(true));
        let port_id = port_id.ok_or_else(|| NodeError::Full {
            group: config.group.clone(),
            most: MAX_PROCESSES,
        })?;
        reserve(&file, Board::area(stride, port_id)).map_err(failed("find memory for"))?;
        for from in 0..board.given() {
            while board.take(from, port_id, |_| {}) {}
        }
        let bell = WakeUpSocket::new(config.nonce);
        let bell = bell.map_err(|error| {
            let errno = nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0));
            failed("make a socket beside")(errno)
        })?;
        board.occupy(port_id, config.nonce);
        Lock::Membership.release(&file);
        Ok(Place {
            board,
            port_id,
            bell,
            path,
            file,
        })
    }

    pub(super) fn waiting_groups(
        directory: &Path,
        interface: &Interface,
        own: MacAddr,
    ) -> Vec<String> {
        let (prefix, own) = (prefix(interface), file_name(interface, own));
        let waits = |name: &String| name.starts_with(&prefix) && *name != own;
        let mut groups: Vec<String> = names(directory)
            .filter(waits)
            .filter_map(|name| waiting_group(&directory.join(name)))
            .collect();
        groups.sort();
        groups
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.board.vacate(self.port_id);
        Lock::Process(self.port_id).release(&self.file);
        // Another process that leaves at the same time may have seen this id taken; one of the
        // two has to look after both have left.
        let end = Instant::now() + LEAVES_WITHIN;
        while matches!(Lock::Membership.take(&self.file), Ok(false)) {
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(LOCK_RETRY_INTERVAL);
        }
        if is_there(&self.file, &self.path) && !is_anybody_in(&self.file) {
            let _ = unlink(&self.path);
        }
    }
}

pub(super) fn sweep(directory: &Path) {
    for path in names(directory)
        .filter(|name| name.starts_with("ethbcast-"))
        .map(|name| directory.join(name))
    {
        let Ok(file) = open_file(&path, OFlag::empty()) else {
            continue;
        };
        if is_own(&file)
            && matches!(Lock::Membership.take(&file), Ok(true))
            && is_there(&file, &path)
            && !is_anybody_in(&file)
        {
            log::info!(
                "{} is what a run that has ended left: it is removed",
                path.display()
            );
            let _ = unlink(&path);
        }
    }
}

fn is_own(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|found| found.st_uid == geteuid().as_raw())
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

fn open_file(path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let always = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    open(path, flags | always, Mode::S_IRUSR | Mode::S_IWUSR)
}

/// Opens or creates the file and takes the membership lock; the path still names the locked file.
fn enter(path: &Path, config: &NodeConfig) -> Result<OwnedFd, NodeError> {
    let end = Instant::now() + LOCK_LIMIT;
    let failed = |step, errno| NodeError::System {
        path: path.to_owned(),
        step,
        errno: Errno::new(errno),
    };
    loop {
        let found = open_file(path, OFlag::O_CREAT);
        let owner = match &found {
            Ok(file) => fstat(file),
            Err(_) => lstat(path),
        };
        let own = geteuid().as_raw();
        // Another name is somebody else's; a file without any has just been removed, and is made
        // anew.
        let is_private = |found: &FileStat| {
            let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
            found.st_uid == own
                && found.st_mode & 0o077 == 0
                && kind == SFlag::S_IFREG
                && found.st_nlink <= 1
        };
        if let Ok(owner) = &owner
            && !is_private(owner)
        {
            let (group, path, uid) = (config.group.clone(), path.to_owned(), owner.st_uid);
            return Err(NodeError::OtherUser {
                group,
                path,
                uid,
                own,
            });
        }
        let file = found.map_err(|errno| failed("open", errno))?;
        if Lock::Membership
            .take(&file)
            .map_err(|errno| failed("lock", errno))?
            && is_there(&file, path)
        {
            return Ok(file);
        }
        if Instant::now() >= end {
            return Err(failed("lock", nix::errno::Errno::ETIMEDOUT));
        }
        std::thread::sleep(LOCK_RETRY_INTERVAL);
    }
}

fn is_there(file: &OwnedFd, path: &Path) -> bool {
    let same =
        |one: &FileStat, other: &FileStat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
    fstat(file).is_ok_and(|open| lstat(path).is_ok_and(|named| same(&open, &named)))
}

fn is_anybody_in(file: &OwnedFd) -> bool {
    (0..MAX_PROCESSES as u8)
        .map(Lock::Process)
        .any(|lock| match lock.take(file) {
            Ok(true) => {
                lock.release(file);
                false
            }
            Ok(false) => true,
            Err(_) => false,
        })
}

fn stat(file: &OwnedFd, path: &Path) -> Result<FileStat, NodeError> {
    fstat(file).map_err(|errno| NodeError::System {
        path: path.to_owned(),
        step: "look at",
        errno: Errno::new(errno),
    })
}

/// Allocates memory for a part of the file: without it a write would end the process (SIGBUS).
fn reserve(file: &OwnedFd, range: Range<usize>) -> nix::Result<()> {
    posix_fallocate(file, range.start as _, range.len() as _)
}

fn agree(board: &Board, path: &Path, config: &NodeConfig) -> Result<(), NodeError> {
    if !board.is_made() {
        return Err(NodeError::OtherLayout {
            path: path.to_owned(),
        });
    }
    let text = board.text();
    for ((what, ours), theirs) in config.described().into_iter().zip(lines(&text)) {
        if ours != theirs {
            return Err(NodeError::Differs {
                group: config.group.clone(),
                what,
                theirs,
                ours,
            });
        }
    }
    Ok(())
}

fn lines(text: &[u8]) -> impl Iterator<Item = String> {
    text.split(|&byte| byte == 0)
        .map(|line| String::from_utf8_lossy(line).into_owned())
}

fn waiting_group(path: &Path) -> Option<String> {
    use std::io::Read;
    let file = open_file(path, OFlag::empty())
        .ok()
        .filter(|file| is_own(file) && is_anybody_in(file))?;
    let mut header = Vec::new();
    std::fs::File::from(file)
        .take(Board::header().len() as u64)
        .read_to_end(&mut header)
        .ok()?;
    let (text, is_complete) = Board::text_in(&header)?;
    lines(text)
        .next()
        .filter(|group| !is_complete && !group.is_empty())
}

/// Locks on parts of a node's file. A process holds `Membership` while it joins, the last one also
/// while it leaves, for which it waits `LEAVES_WITHIN` at most: the next process that joins cleans
/// up the rest. The process that receives from the wire for all holds `Receive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    Membership,
    Receive,
    Process(u8),
}

impl Lock {
    fn range(self, kind: libc::c_int) -> libc::flock {
        let at = match self {
            Lock::Membership => 0,
            Lock::Receive => 1,
            Lock::Process(port_id) => 16 + i64::from(port_id),
        };
        libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: at as _,
            l_len: 1,
            l_pid: 0,
        }
    }

    pub(super) fn take(self, file: impl AsFd) -> nix::Result<bool> {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&self.range(libc::F_WRLCK))) {
            Ok(_) => Ok(true),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn release(self, file: impl AsFd) {
        let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&self.range(libc::F_UNLCK)));
    }
}

#[derive(Debug)]
pub struct NodeWaiter {
    sleeper: Sleeper,
    place: Option<Arc<Place>>,
    thread: u32,
}

impl NodeWaiter {
    pub(super) fn new(sleeper: Sleeper, place: Option<Arc<Place>>, thread: u32) -> NodeWaiter {
        NodeWaiter {
            sleeper,
            place,
            thread,
        }
    }
}

impl Waiter for NodeWaiter {
    type Seen = SocketEvents;

    fn wait(&self, now: crate::Instant, wanted: Interest) -> SocketEvents {
        let Some(place) = self.place.as_ref().filter(|_| wanted.arrivals) else {
            return self.sleeper.wait(now, wanted);
        };
        if !place.board.fall_asleep(place.port_id, self.thread) {
            // A frame is waiting: only poll, without sleeping.
            return self.sleeper.wait(
                now,
                Interest {
                    arrivals: false,
                    until: Some(crate::Instant::START),
                    ..wanted
                },
            );
        }
        let seen = self.sleeper.wait_or_ring(now, wanted, &place.bell);
        place.board.awake(place.port_id, self.thread);
        seen
    }

    fn take_wake(&self) -> bool {
        self.sleeper.take_wake()
    }

    fn yield_now(&self) {
        self.sleeper.yield_now();
    }

    fn wake(&self) {
        self.sleeper.wake();
    }
}
