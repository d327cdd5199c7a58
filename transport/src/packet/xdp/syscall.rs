//! One thin function per system call of AF_XDP and of BPF.
#![allow(unsafe_code)]

use super::program::Instruction;
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
/// Kinds of maps, programs and attachments.
const MAP_OF_XDP_SOCKETS: u32 = 17;
const PROGRAM_OF_XDP: u32 = 6;
const ATTACHED_AS_XDP: u32 = 37;
/// The program may see frames in several pieces (BPF_F_XDP_HAS_FRAGS).
const KNOWS_PIECES: u32 = 1 << 5;
/// The program runs behind the driver, in the network stack (XDP_FLAGS_SKB_MODE): every interface has that.
const GENERIC_MODE: u32 = 1 << 1;

/// The beginnings of `union bpf_attr` for these commands; the kernel takes the rest as zero.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    most_entries: u32,
}

#[repr(C)]
struct NewEntry {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached_as: u32,
}

#[repr(C)]
struct NewLink {
    program: u32,
    interface: u32,
    attached_as: u32,
    flags: u32,
}

/// Calls bpf(2) with the beginning of a `bpf_attr`.
///
/// # Safety
/// Every address in `attributes` is that of memory of the length the command expects, alive through the call.
unsafe fn bpf<T>(command: c_int, attributes: &mut T) -> nix::Result<c_int> {
    // SAFETY: the kernel is told how long `attributes` is; what it points to is the caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    Errno::result(result).map(|number| number as c_int)
}

/// The same for commands that make a descriptor; the kernel makes it such that no other program inherits it.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_descriptor<T>(command: c_int, attributes: &mut T) -> nix::Result<OwnedFd> {
    // SAFETY: as the caller promises; the descriptor was made just now, and nobody else knows it.
    unsafe { bpf(command, attributes).map(|number| OwnedFd::from_raw_fd(number)) }
}

/// A map of one XDP socket, that of queue 0.
pub(super) fn new_map() -> nix::Result<OwnedFd> {
    let mut map = NewMap { kind: MAP_OF_XDP_SOCKETS, key_bytes: 4, value_bytes: 4, most_entries: 1 };
    // SAFETY: there is no address in it.
    unsafe { bpf_descriptor(MAP_CREATE, &mut map) }
}

/// Puts the socket of queue 0 into the map.
pub(super) fn set_socket(map: BorrowedFd, socket: BorrowedFd) -> nix::Result<()> {
    let (key, value) = (0_u32, socket.as_raw_fd());
    let mut entry = NewEntry {
        map: map.as_raw_fd() as u32,
        _padding: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    // SAFETY: key and value have the four bytes that the map was made with, and outlive the call.
    unsafe { bpf(MAP_UPDATE, &mut entry) }.map(drop)
}

/// Has the kernel check a program and take it.
pub(super) fn load(code: &[Instruction]) -> nix::Result<OwnedFd> {
    let mut program = NewProgram {
        kind: PROGRAM_OF_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: KNOWS_PIECES,
        name: *b"ethbcast\0\0\0\0\0\0\0\0",
        interface: 0,
        attached_as: ATTACHED_AS_XDP,
    };
    // SAFETY: `code` has so many instructions of eight bytes, the license ends with a zero, and both outlive the call.
    unsafe { bpf_descriptor(PROGRAM_LOAD, &mut program) }
}

/// Attaches a program to an interface for as long as the link is open: it goes with the process, however that ends.
pub(super) fn attach(program: BorrowedFd, interface_index: u32) -> nix::Result<OwnedFd> {
    let mut link = NewLink {
        program: program.as_raw_fd() as u32,
        interface: interface_index,
        attached_as: ATTACHED_AS_XDP,
        flags: GENERIC_MODE,
    };
    // SAFETY: there is no address in it.
    unsafe { bpf_descriptor(LINK_CREATE, &mut link) }
}

/// An AF_XDP socket that is bound to nothing.
pub(super) fn socket() -> nix::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let number = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: the descriptor was made just now, and nobody else knows it.
    Errno::result(number).map(|number| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Gives the socket the memory in which frames arrive.
///
/// # Safety
/// The memory is mapped for as long as the socket is open, and whoever holds it knows that the kernel writes there.
pub(super) unsafe fn register(fd: BorrowedFd, memory: *mut c_void, bytes: usize, chunk_bytes: u32) -> nix::Result<()> {
    let (addr, len) = (memory as u64, bytes as u64);
    let memory = libc::xdp_umem_reg { addr, len, chunk_size: chunk_bytes, headroom: 0, flags: 0, tx_metadata_len: 0 };
    set_option(fd, libc::XDP_UMEM_REG, &memory)
}

/// Makes one of the socket's rings, of a power of two of entries.
pub(super) fn make_ring(fd: BorrowedFd, option: c_int, entries: u32) -> nix::Result<()> {
    set_option(fd, option, &entries)
}

fn set_option<T>(fd: BorrowedFd, option: c_int, value: &T) -> nix::Result<()> {
    let (bytes, value) = (size_of_val(value) as socklen_t, std::ptr::from_ref(value).cast());
    // SAFETY: `value` is a whole option of so many bytes, which the kernel only reads.
    Errno::result(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, bytes) }).map(drop)
}

/// Where the parts of the rings are in what is mapped.
pub(super) fn offsets(fd: BorrowedFd) -> nix::Result<libc::xdp_mmap_offsets> {
    // SAFETY: it is made of integers, of which any bits are valid.
    unsafe { option(fd, libc::XDP_MMAP_OFFSETS) }
}

/// What the kernel has counted since the socket was opened.
pub(super) fn statistics(fd: BorrowedFd) -> nix::Result<libc::xdp_statistics> {
    // SAFETY: it is made of integers, of which any bits are valid.
    unsafe { option(fd, libc::XDP_STATISTICS) }
}

/// Reads an option.
///
/// # Safety
/// Any bits make a valid `T`.
unsafe fn option<T>(fd: BorrowedFd, option: c_int) -> nix::Result<T> {
    // SAFETY: as the caller promises.
    let mut value: T = unsafe { zeroed() };
    let mut bytes = size_of::<T>() as socklen_t;
    let into = (&raw mut value).cast();
    // SAFETY: `into` has `bytes` writable bytes.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, into, &raw mut bytes) };
    Errno::result(result)?;
    // An older kernel says less, at other offsets.
    if bytes as usize == size_of::<T>() { Ok(value) } else { Err(Errno::EOPNOTSUPP) }
}

/// Binds to queue 0 of an interface; frames are copied, and long ones come in pieces.
pub(super) fn bind(fd: BorrowedFd, interface_index: u32) -> nix::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_SG,
        sxdp_ifindex: interface_index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = size_of_val(&address) as socklen_t;
    // SAFETY: `address` is whole and outlives the call.
    Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) }).map(drop)
}

/// The beginning of `struct ethtool_channels`: how many queues an interface has.
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    /// Of receiving, sending, other, and both.
    present: [u32; 4],
}

/// How many queues an interface receives by, those that send as well counted apart; one where that cannot be asked.
pub(super) fn receive_queues(fd: BorrowedFd, name: &str) -> nix::Result<(u32, u32)> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, most: [0; 4], present: [0; 4] };
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(Errno::EINVAL);
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte as libc::c_char);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the name ends with a zero, and `channels` has the nine words that this command writes.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    match Errno::result(result) {
        Ok(_) => Ok((channels.present[0], channels.present[3])),
        Err(Errno::EOPNOTSUPP) => Ok((1, 0)),
        Err(errno) => Err(errno),
    }
}
