//! Receiving by AF_XDP: a small program on the interface leads our frames past the network stack into memory of ours.
//!
//! In copy mode and behind the driver (generic XDP), which every interface has, a veth included. Frames longer than a
//! chunk come in pieces, and are put together. Sending stays with the packet socket: AF_XDP sends past the queueing
//! discipline, and so past traffic shaping.
//!
//! **No host is taken off the network by it.** Whatever is not of our EtherType and for our own address or our groups
//! goes the way it always goes. The program is attached by a link that only this process holds: the kernel detaches it
//! when the process ends, also by SIGKILL. It never takes the place of another program.

mod memory;
mod program;
mod syscall;

use super::error::OpenError;
use super::ring::SlotContent;
use super::{Interface, PortConfig};
use crate::MacAddr;
use crate::wire::ETHERNET_BYTES;
use memory::{Chunks, FillRing, ReceiveRing};
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A chunk has one page at most, and the kernel keeps the beginning of each for itself.
const LARGEST_CHUNK_BYTES: usize = 4096;
const SMALLEST_CHUNK_BYTES: usize = 2048;
const RESERVED_BYTES: usize = 256;
/// Fewest and most chunks of a socket: 256 MiB.
const LEAST_CHUNKS: usize = 256;
const MOST_CHUNKS: usize = 1 << 16;
/// Nothing is sent, but the kernel wants a ring for what is done.
const COMPLETION_ENTRIES: u32 = 8;

/// How long the kernel may take to clear up behind a process that has ended (10 ms were seen), and how often is looked.
const RELEASE_LIMIT: Duration = Duration::from_millis(500);
const RELEASE_LOOK: Duration = Duration::from_millis(5);

/// Where frames arrive.
pub(super) struct XdpRing {
    socket: Arc<OwnedFd>,
    receive: ReceiveRing,
    fill: FillRing,
    chunks: Chunks,
    /// The pieces of a frame that have come so far.
    pieces: Vec<u8>,
    /// A frame has been longer than it can be; the rest of it is thrown away.
    is_too_long: bool,
    most_frame_bytes: usize,
    /// Holds the program on the interface.
    _link: OwnedFd,
}

/// Bytes of a chunk, and how many of them.
fn geometry(mtu_bytes: usize, ring_bytes: usize) -> (usize, usize) {
    let frame_bytes = mtu_bytes + ETHERNET_BYTES;
    let fits = frame_bytes + RESERVED_BYTES <= SMALLEST_CHUNK_BYTES;
    let chunk_bytes = if fits { SMALLEST_CHUNK_BYTES } else { LARGEST_CHUNK_BYTES };
    let pieces = frame_bytes.div_ceil(chunk_bytes - RESERVED_BYTES);
    let frames = ring_bytes / frame_bytes;
    (chunk_bytes, (frames * pieces).clamp(LEAST_CHUNKS, MOST_CHUNKS).next_power_of_two())
}

impl XdpRing {
    /// Opens a socket for queue 0 of `interface`, and leads frames there.
    /// `packet` is a packet socket, by which the interface is asked: one of AF_XDP cannot.
    pub(super) fn open(packet: BorrowedFd, interface: &Interface, config: &PortConfig) -> Result<Self, OpenError> {
        let begun = Instant::now();
        loop {
            match Self::connect(packet, interface, config) {
                // Another process that has just ended holds the queue until the kernel has cleared up.
                Err(Refusal::System(_, Errno::EBUSY)) if begun.elapsed() < RELEASE_LIMIT => {
                    std::thread::sleep(RELEASE_LOOK);
                }
                result => return result.map_err(|refusal| refusal.on(&interface.name)),
            }
        }
    }

    fn connect(packet: BorrowedFd, interface: &Interface, config: &PortConfig) -> Result<Self, Refusal> {
        let failed = |step: &'static str| move |errno| Refusal::System(step, errno);
        let (chunk_bytes, chunks) = geometry(interface.mtu_bytes, config.receive_ring_bytes);
        let socket = syscall::socket().map_err(failed("open an AF_XDP socket"))?;
        let fd = socket.as_fd();
        let queues = syscall::receive_queues(packet, &interface.name).map_err(failed("count the receive queues"))?;
        if queues.0 + queues.1 > 1 {
            return Err(Refusal::Queues(queues));
        }
        let memory = Chunks::register(fd, chunks, chunk_bytes).map_err(failed("give memory to an AF_XDP socket"))?;
        let rings = failed("make the rings of an AF_XDP socket");
        syscall::make_ring(fd, libc::XDP_UMEM_COMPLETION_RING, COMPLETION_ENTRIES).map_err(rings)?;
        let offsets = syscall::offsets(fd).map_err(rings)?;
        let mut fill = FillRing::make(fd, chunks as u32, &offsets).map_err(rings)?;
        let receive = ReceiveRing::make(fd, chunks as u32, &offsets).map_err(rings)?;
        (0..chunks).for_each(|chunk| fill.give((chunk * chunk_bytes) as u64));
        syscall::bind(fd, interface.index).map_err(failed("bind an AF_XDP socket"))?;
        let link = lead_to(&socket, interface, config)?;
        log::debug!("{}: {chunks} chunks of {chunk_bytes} bytes by AF_XDP", interface.name);
        Ok(Self {
            socket: Arc::new(socket),
            receive,
            fill,
            chunks: memory,
            pieces: Vec::new(),
            is_too_long: false,
            most_frame_bytes: interface.mtu_bytes + ETHERNET_BYTES,
            _link: link,
        })
    }

    /// What a loop waits with for arrivals.
    pub(super) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Goes on under another descriptor, which has been made one of the same socket.
    pub(super) fn call_it(&mut self, socket: Arc<OwnedFd>) {
        self.socket = socket;
    }

    /// Whether there is an arrival.
    pub(super) fn has_arrival(&self) -> bool {
        self.receive.has_entry()
    }

    /// Frames that were ours and had no room, since the socket was opened.
    pub(super) fn dropped(&self) -> u64 {
        let known = syscall::statistics(self.socket.as_fd());
        known.map_or(0, |known| known.rx_dropped + known.rx_ring_full + known.rx_fill_ring_empty_descs)
    }

    /// Lends the oldest arrival to `take`, then gives its chunks back; `None` if nothing has arrived whole.
    pub(super) fn receive<R>(&mut self, take: impl FnOnce(SlotContent<'_>) -> R) -> Option<R> {
        loop {
            let piece = self.receive.take()?;
            let chunk = self.chunks.chunk_of(&piece);
            let bytes = self.chunks.piece(&piece).unwrap_or_default();
            let is_last = piece.options & libc::XDP_PKT_CONTD == 0;
            if is_last && self.pieces.is_empty() && !self.is_too_long {
                let result = take(content(bytes, self.most_frame_bytes));
                self.fill.give(chunk);
                return Some(result);
            }
            self.is_too_long |= self.pieces.len() + bytes.len() > self.most_frame_bytes;
            if !self.is_too_long {
                self.pieces.extend_from_slice(bytes);
            }
            self.fill.give(chunk);
            if is_last {
                let result = if std::mem::take(&mut self.is_too_long) {
                    take(SlotContent::Truncated)
                } else {
                    take(content(&self.pieces, self.most_frame_bytes))
                };
                self.pieces.clear();
                return Some(result);
            }
        }
    }
}

fn content(bytes: &[u8], most_bytes: usize) -> SlotContent<'_> {
    match bytes.len() {
        ETHERNET_BYTES.. if bytes.len() <= most_bytes => SlotContent::Frame(bytes),
        _ => SlotContent::Truncated,
    }
}

/// Puts the program on the interface.
fn lead_to(socket: &OwnedFd, interface: &Interface, config: &PortConfig) -> Result<OwnedFd, Refusal> {
    let failed = |step: &'static str| move |errno| Refusal::System(step, errno);
    let addresses: Vec<_> =
        [interface.mac, MacAddr::BROADCAST].into_iter().chain(config.group).chain(config.also).collect();
    let map = syscall::new_map().map_err(failed("make a map of AF_XDP sockets"))?;
    syscall::set_socket(map.as_fd(), socket.as_fd()).map_err(failed("put an AF_XDP socket into its map"))?;
    let code = program::program(config.ether_type, &addresses, map.as_raw_fd());
    let program = syscall::load(&code).map_err(failed("load an XDP program"))?;
    // The link holds the program, and that the map.
    syscall::attach(program.as_fd(), interface.index).map_err(failed("attach an XDP program"))
}

/// Why there is no AF_XDP here.
enum Refusal {
    /// Frames of ours would come by queues without a socket: those for receiving, and those for both.
    Queues((u32, u32)),
    /// The kernel says no to this step.
    System(&'static str, Errno),
}

impl Refusal {
    /// What is missing, and what to do about it.
    fn on(self, name: &str) -> OpenError {
        let why = match self {
            Refusal::Queues((receiving, both)) => {
                let (queues, fix) = (receiving + both, if both == 0 { "rx 1" } else { "combined 1" });
                format!("it has {queues} receive queues, and one is served: `ethtool -L {name} {fix}`")
            }
            Refusal::System(step, errno @ (Errno::EPERM | Errno::EACCES)) => format!(
                "no permission to {step} ({errno}): run as root, or grant CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF"
            ),
            Refusal::System(step, Errno::EBUSY) => format!(
                "cannot {step}: another process receives there by XDP already, `ip link show {name}` has its program"
            ),
            Refusal::System(_, Errno::EAFNOSUPPORT) => {
                "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)".to_owned()
            }
            Refusal::System(_, Errno::ENOSYS) => "this kernel has no bpf(2) (CONFIG_BPF_SYSCALL)".to_owned(),
            Refusal::System(step, Errno::ENOBUFS) => format!("cannot {step}: no memory may be locked, see `ulimit -l`"),
            Refusal::System(step, errno @ (Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ERANGE)) => {
                format!("cannot {step} ({errno}): it takes Linux 6.6 or later")
            }
            Refusal::System(step, errno) => return OpenError::new(name, step, errno),
        };
        OpenError::Xdp { interface: name.to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::geometry;

    #[test]
    fn every_frame_has_room_for_all_its_pieces() {
        assert_eq!(geometry(1500, 8 << 20), (2048, 8192));
        for mtu_bytes in [68, 1500, 1779, 1780, 3826, 3827, 9000, 65_535] {
            for ring_bytes in [0, 1 << 20, 8 << 20, usize::MAX] {
                let (chunk_bytes, chunks) = geometry(mtu_bytes, ring_bytes);
                assert!(chunks.is_power_of_two() && (256..=1 << 16).contains(&chunks), "{mtu_bytes}");
                let pieces = (mtu_bytes + 14).div_ceil(chunk_bytes - 256);
                assert!(pieces * 12 <= chunks, "{mtu_bytes}: a dozen frames at least");
                assert!(mtu_bytes > 1778 || pieces == 1, "{mtu_bytes}: one copy less");
            }
        }
    }
}
