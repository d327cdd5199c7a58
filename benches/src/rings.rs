//! Kernel packet rings that only the socket benchmark uses: receive blocks (TPACKET_V3), and
//! PACKET_TX_RING for sending. Source: kernel documentation, `networking/packet_mmap`.
#![allow(unsafe_code)]

use std::mem::size_of;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use ethbcast_bench::cluster::INTERFACE;
use ethbcast_transport::packet::Interface;
use ethbcast_transport::wire::EtherType;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socket};

/// A local experimental EtherType (IEEE 802), other than the tool's.
pub const ETHER_TYPE: EtherType = EtherType::new(0x88b6);
pub const LOOK_EVERY: Duration = Duration::from_millis(20);

pub trait Receiver: Send {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()>;
}

pub trait Sender: Send {
    fn send(
        self: Box<Self>,
        frame: &[u8],
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()>;
}

const RING_BYTES: usize = 8 << 20;
/// Size of a block: several of the longest frames.
const BLOCK_BYTES: usize = 1 << 19;
/// Delay of a block that is not full, in milliseconds: the smallest possible.
const BLOCK_TIMEOUT_MS: u32 = 1;

pub fn packet_socket() -> anyhow::Result<(OwnedFd, u32)> {
    let interface = Interface::find(Some(INTERFACE))?;
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    Ok((socket, interface.index))
}

pub fn wait(socket: &OwnedFd) -> anyhow::Result<()> {
    let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    match poll(
        &mut wanted,
        PollTimeout::from(LOOK_EVERY.as_millis() as u16),
    ) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno).context("waiting"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundProtocol {
    Ours,
    Nothing,
}

impl BoundProtocol {
    pub fn bind(self, socket: &OwnedFd, interface: u32) -> anyhow::Result<()> {
        // SAFETY: all bytes zero is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = interface as libc::c_int;
        if self == BoundProtocol::Ours {
            address.sll_protocol = ETHER_TYPE.number().to_be();
        }
        let (at, bytes) = (
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        );
        // SAFETY: `address` is whole and outlives the call.
        Errno::result(unsafe { libc::bind(socket.as_raw_fd(), at, bytes) })
            .context("binding a packet socket")?;
        Ok(())
    }
}

fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> anyhow::Result<()> {
    let (at, bytes) = (
        std::ptr::from_ref(value).cast(),
        size_of::<T>() as libc::socklen_t,
    );
    // SAFETY: `value` is a whole option of `size_of::<T>()` bytes, which the kernel only reads.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, at, bytes) };
    Errno::result(result).with_context(|| format!("setting option {option} of a packet socket"))?;
    Ok(())
}

struct Memory {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, and its owner is the only one to know it.
unsafe impl Send for Memory {}

impl Memory {
    fn of(socket: &OwnedFd, bytes: usize) -> anyhow::Result<Self> {
        let length = NonZeroUsize::new(bytes).context("a ring has bytes")?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let at = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, socket, 0)? };
        Ok(Self {
            at: at.cast(),
            bytes,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset + 4 <= self.bytes && offset.is_multiple_of(4),
            "within the ring"
        );
        // SAFETY: the word is within the mapping (just seen), aligned, and lives as long as `self`;
        // both sides access it only atomically.
        unsafe { AtomicU32::from_ptr(self.at.add(offset).cast().as_ptr()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `of`, of that length, and every borrow of it has ended.
        let unmapped = unsafe { munmap(self.at.cast(), self.bytes) };
        debug_assert_eq!(unmapped, Ok(()), "it was mapped");
    }
}

pub struct Blocks {
    memory: Memory,
    socket: OwnedFd,
}

impl Blocks {
    pub fn open() -> anyhow::Result<Self> {
        let (socket, interface) = packet_socket()?;
        set_option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (RING_BYTES / BLOCK_BYTES) as u32,
            tp_frame_size: BLOCK_BYTES as u32,
            tp_frame_nr: (RING_BYTES / BLOCK_BYTES) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::PACKET_RX_RING, &request)?;
        let memory = Memory::of(&socket, RING_BYTES)?;
        BoundProtocol::Ours.bind(&socket, interface)?;
        Ok(Self { memory, socket })
    }
}

impl Receiver for Blocks {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        // A block begins with version and offset, then the fields of `tpacket_hdr_v1`: status,
        // number of frames.
        let mut block = 0;
        while !over.load(Ordering::Acquire) {
            let status = self.memory.word(block * BLOCK_BYTES + 8);
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                wait(&self.socket)?;
                continue;
            }
            let frames = self
                .memory
                .word(block * BLOCK_BYTES + 12)
                .load(Ordering::Relaxed);
            count.fetch_add(frames.into(), Ordering::Relaxed);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            block = (block + 1) % (RING_BYTES / BLOCK_BYTES);
        }
        Ok(())
    }
}

pub struct TransmitRing {
    memory: Memory,
    socket: OwnedFd,
    slot_bytes: usize,
}

const KICK_FRAMES: usize = 64;
const FRAME_AT: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();

impl TransmitRing {
    pub fn open() -> anyhow::Result<Self> {
        let mtu_bytes = Interface::find(Some(INTERFACE))?.mtu_bytes;
        let (socket, interface) = packet_socket()?;
        set_option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        let slot_bytes = (FRAME_AT + 14 + mtu_bytes).next_power_of_two();
        let block_bytes = slot_bytes.max(1 << 16);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (RING_BYTES / block_bytes) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: (RING_BYTES / slot_bytes) as u32,
        };
        set_option(&socket, libc::PACKET_TX_RING, &request)?;
        let memory = Memory::of(&socket, RING_BYTES)?;
        BoundProtocol::Nothing.bind(&socket, interface)?;
        Ok(Self {
            memory,
            socket,
            slot_bytes,
        })
    }

    /// Makes the kernel send the written frames; with `MSG_DONTWAIT` it does not wait until they
    /// have left.
    fn kick(&self, flags: MsgFlags) -> anyhow::Result<()> {
        // SAFETY: no memory but the ring is involved.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, flags.bits()) };
        match Errno::result(sent) {
            Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno).context("sending from a ring"),
        }
    }
}

impl Sender for TransmitRing {
    fn send(
        self: Box<Self>,
        frame: &[u8],
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()> {
        let slots = RING_BYTES / self.slot_bytes;
        let (mut slot, mut written) = (0, 0);
        while !over.load(Ordering::Acquire) {
            let at = slot * self.slot_bytes;
            if self.memory.word(at).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
                // Sends the frames that the kernel has not taken yet.
                self.kick(MsgFlags::empty())?;
                continue;
            }
            assert!(
                FRAME_AT + frame.len() <= self.slot_bytes,
                "a slot holds the longest frame"
            );
            // SAFETY: the slot is ours (its word has just been seen to say so), and has room for
            // the frame.
            unsafe {
                let into = self.memory.at.add(at + FRAME_AT);
                into.copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len());
            }
            // The length follows the status (struct tpacket2_hdr).
            self.memory
                .word(at + 4)
                .store(frame.len() as u32, Ordering::Relaxed);
            self.memory
                .word(at)
                .store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            count.fetch_add(1, Ordering::Relaxed);
            (slot, written) = ((slot + 1) % slots, written + 1);
            if written % KICK_FRAMES == 0 {
                self.kick(MsgFlags::MSG_DONTWAIT)?;
            }
        }
        self.kick(MsgFlags::empty())
    }
}
