//! System calls without a safe wrapper elsewhere, one thin function each.
#![allow(unsafe_code)]

use crate::MacAddr;
use crate::wire::EtherType;
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    recvmsg, sendmsg, socket,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

pub(super) const SEND_MANY_FRAMES: usize = 64;

/// Makes the C library return freed memory to the system at once, for a long-running process. By
/// default it keeps megabytes for each thread.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, bytes) in [
        (libc::M_MMAP_THRESHOLD, 256 << 10),
        (libc::M_TRIM_THRESHOLD, 128 << 10),
    ] {
        // SAFETY: mallopt(3) changes how memory is allocated from now on, and touches no existing
        // allocation.
        unsafe { libc::mallopt(parameter, bytes) };
    }
}

/// Fills `bytes` with random ones, by the system call itself; returns their number.
pub(super) fn getrandom(bytes: &mut [u8], flags: u32) -> io::Result<usize> {
    // SAFETY: the kernel writes at most as many bytes as `bytes` has, which outlive the call.
    let drawn =
        unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), flags) };
    Ok(Errno::result(drawn)? as usize)
}

/// Opens a packet socket of protocol 0, which receives nothing until it is bound.
pub(super) fn packet_socket() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )
}

/// Duplicates an inherited packet socket, whose descriptor is `number`.
///
/// # Errors
/// EBADF if there is no such descriptor; ENOTSOCK or EPROTOTYPE if it is something else.
pub(super) fn inherited_packet_socket(number: RawFd) -> nix::Result<OwnedFd> {
    // SAFETY: fcntl uses only the descriptor's number, and a new one belongs to this function.
    let again = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `again` was made just now, and nothing else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(again) };
    let is = |option, value| socket_option(socket.as_fd(), option).map(|has| has == value);
    if !is(libc::SO_DOMAIN, libc::AF_PACKET)? || !is(libc::SO_TYPE, libc::SOCK_RAW)? {
        return Err(Errno::EPROTOTYPE);
    }
    fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(socket)
}

fn socket_option(fd: BorrowedFd, option: c_int) -> nix::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: `value` is as long as `length` says, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    Errno::result(result).map(|_| value)
}

/// Binds to the interface and begins receiving frames of `ether_type`; without one, the socket
/// still receives nothing.
pub(super) fn bind(
    fd: BorrowedFd,
    interface_index: u32,
    ether_type: Option<EtherType>,
) -> nix::Result<()> {
    bind_protocol(fd, interface_index, ether_type.map_or(0, EtherType::number))
}

pub(super) fn bind_to_all(fd: BorrowedFd, interface_index: u32) -> nix::Result<()> {
    bind_protocol(fd, interface_index, libc::ETH_P_ALL as u16)
}

fn bind_protocol(fd: BorrowedFd, interface_index: u32, protocol: u16) -> nix::Result<()> {
    // SAFETY: all bytes zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface_index as c_int;
    let length = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: `address` is a whole `sockaddr_ll` of `length` bytes and outlives the call.
    Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
        .map(drop)
}

/// Returns the number of the interface that the socket is bound to; of one that was removed,
/// `u32::MAX`.
pub(super) fn bound_interface(fd: BorrowedFd) -> nix::Result<u32> {
    // SAFETY: all bytes zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: `address` has `length` bytes, and both outlive the call.
    Errno::result(unsafe {
        libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
    })?;
    Ok(address.sll_ifindex as u32)
}

pub(super) fn set_receive_ring(
    fd: BorrowedFd,
    version: libc::tpacket_versions,
    ring: &libc::tpacket_req,
) -> nix::Result<()> {
    set_packet_option(fd, libc::PACKET_VERSION, &(version as c_int))?;
    set_packet_option(fd, libc::PACKET_RX_RING, ring)
}

pub(super) fn ignore_outgoing(fd: BorrowedFd) -> nix::Result<()> {
    set_packet_option(fd, libc::PACKET_IGNORE_OUTGOING, &1)
}

pub(super) fn bypass_qdisc(fd: BorrowedFd) -> nix::Result<()> {
    set_packet_option(fd, libc::PACKET_QDISC_BYPASS, &1)
}

pub(super) fn join_multicast(
    fd: BorrowedFd,
    interface_index: u32,
    group: MacAddr,
) -> nix::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group.octets());
    let request = libc::packet_mreq {
        mr_ifindex: interface_index as c_int,
        mr_type: libc::PACKET_MR_MULTICAST as u16,
        mr_alen: 6,
        mr_address: address,
    };
    set_packet_option(fd, libc::PACKET_ADD_MEMBERSHIP, &request)
}

pub(super) fn join_ip_multicast(
    fd: BorrowedFd,
    interface_index: u32,
    group: IpAddr,
) -> nix::Result<()> {
    match group {
        IpAddr::V4(group) => set_ip_option(
            fd,
            libc::IP_ADD_MEMBERSHIP,
            &ip_membership(interface_index, group, Ipv4Addr::UNSPECIFIED),
        ),
        IpAddr::V6(group) => {
            let membership = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr {
                    s6_addr: group.octets(),
                },
                ipv6mr_interface: interface_index as _,
            };
            set_ipv6_option(fd, libc::IPV6_ADD_MEMBERSHIP, &membership)
        }
    }
}

pub(super) fn multicast_by(fd: BorrowedFd, interface_index: u32, own: IpAddr) -> nix::Result<()> {
    match own {
        IpAddr::V4(own) => set_ip_option(
            fd,
            libc::IP_MULTICAST_IF,
            &ip_membership(interface_index, Ipv4Addr::UNSPECIFIED, own),
        ),
        IpAddr::V6(_) => set_ipv6_option(fd, libc::IPV6_MULTICAST_IF, &(interface_index as c_int)),
    }
}

fn ip_membership(interface_index: u32, group: Ipv4Addr, own: Ipv4Addr) -> libc::ip_mreqn {
    let [imr_multiaddr, imr_address] = [group, own].map(|address| libc::in_addr {
        s_addr: u32::from_ne_bytes(address.octets()),
    });
    libc::ip_mreqn {
        imr_multiaddr,
        imr_address,
        imr_ifindex: interface_index as c_int,
    }
}

/// Options of a socket of IPv4 or IPv6 that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpNumber {
    MulticastHops,
    Hops,
    /// Whether other processes of this host get what is for a group.
    Loopback,
    /// Whether it gets what is for groups that other sockets have joined.
    ForeignGroups,
    /// Whether errors of datagrams are reported, without which the kernel reports no frame that a
    /// full queue has dropped.
    Errors,
    /// Whether the destination of each datagram is given.
    Destination,
}

pub(super) fn set_ip_number(
    fd: BorrowedFd,
    is_ipv6: bool,
    option: IpNumber,
    value: u8,
) -> nix::Result<()> {
    /// From `linux/in6.h`.
    const IPV6_MULTICAST_ALL: c_int = 29;
    let (name, name6) = match option {
        IpNumber::MulticastHops => (libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS),
        IpNumber::Hops => (libc::IP_TTL, libc::IPV6_UNICAST_HOPS),
        IpNumber::Loopback => (libc::IP_MULTICAST_LOOP, libc::IPV6_MULTICAST_LOOP),
        IpNumber::ForeignGroups => (libc::IP_MULTICAST_ALL, IPV6_MULTICAST_ALL),
        IpNumber::Errors => (libc::IP_RECVERR, libc::IPV6_RECVERR),
        IpNumber::Destination => (libc::IP_PKTINFO, libc::IPV6_RECVPKTINFO),
    };
    let value = c_int::from(value);
    if is_ipv6 {
        set_ipv6_option(fd, name6, &value)
    } else {
        set_ip_option(fd, name, &value)
    }
}

pub(super) fn take_ipv6_only(fd: BorrowedFd) -> nix::Result<()> {
    set_ipv6_option::<c_int>(fd, libc::IPV6_V6ONLY, &1)
}

/// Makes datagrams leave whole or not at all, whatever is known of the path.
pub(super) fn take_probing_mtu(fd: BorrowedFd, is_ipv6: bool) -> nix::Result<()> {
    if is_ipv6 {
        set_ipv6_option(fd, libc::IPV6_MTU_DISCOVER, &libc::IPV6_PMTUDISC_PROBE)?;
        return set_ipv6_option::<c_int>(fd, libc::IPV6_DONTFRAG, &1);
    }
    set_ip_option(fd, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE)
}

pub(super) fn receive_drops(fd: BorrowedFd) -> nix::Result<u32> {
    const DROPS: usize = 8;
    let mut memory = [0_u32; DROPS + 1];
    let mut length = size_of_val(&memory) as socklen_t;
    let value = memory.as_mut_ptr().cast::<c_void>();
    // SAFETY: `value` points to `length` writable bytes, and any bytes make valid integers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            value,
            &raw mut length,
        )
    };
    Errno::result(result).map(|_| memory[DROPS])
}

pub(super) fn packet_statistics(fd: BorrowedFd) -> nix::Result<libc::tpacket_stats> {
    let mut stats = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of::<libc::tpacket_stats>() as socklen_t;
    let value = (&raw mut stats).cast::<c_void>();
    // SAFETY: `value` points to `length` writable bytes, and any bytes make a valid
    // `tpacket_stats`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            value,
            &mut length,
        )
    };
    Errno::result(result).map(|_| stats)
}

pub(super) fn attach_filter(fd: BorrowedFd, program: &[libc::sock_filter]) -> nix::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    let descriptor = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `descriptor` points to `len` instructions that live through the call, and the kernel
    // only reads them.
    unsafe { set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &descriptor) }
}

pub(super) fn lock_filter(fd: BorrowedFd) -> nix::Result<()> {
    let yes: c_int = 1;
    // SAFETY: the option takes a plain `c_int`.
    unsafe { set_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &yes) }
}

pub(super) fn send_descriptor(stream: BorrowedFd, descriptor: BorrowedFd) -> nix::Result<()> {
    let rights = [descriptor.as_raw_fd()];
    let word = [IoSlice::new(&[1])];
    let message = [ControlMessage::ScmRights(&rights)];
    sendmsg::<UnixAddr>(
        stream.as_raw_fd(),
        &word,
        &message,
        MsgFlags::MSG_NOSIGNAL,
        None,
    )
    .map(drop)
}

pub(super) fn receive_descriptor(
    stream: BorrowedFd,
    buffer: &mut [u8],
) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let mut word = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut word, Some(&mut space), flags)?;
    let mut descriptors = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(rights) = message {
            // SAFETY: the kernel has just made each of them for this process, and nothing else
            // knows of it.
            descriptors.extend(
                rights
                    .into_iter()
                    .map(|own| unsafe { OwnedFd::from_raw_fd(own) }),
            );
        }
    }
    Ok((received.bytes, descriptors.pop()))
}

/// Submits frames, Ethernet headers included and each in one piece or two (the second may be
/// empty), to the interface that the socket is bound to; returns how many the kernel took.
///
/// Takes at most the first [`SEND_MANY_FRAMES`]. An error concerns the first frame; one about a
/// later frame shows only as a smaller number, and at the next call as that call's error.
pub(super) fn send_many(fd: BorrowedFd, frames: &[[IoSlice; 2]]) -> nix::Result<usize> {
    // SAFETY: all bytes zero is a valid `mmsghdr` (no address, no control data, no buffers).
    let mut messages: [libc::mmsghdr; SEND_MANY_FRAMES] = unsafe { zeroed() };
    let count = frames.len().min(SEND_MANY_FRAMES);
    for (message, frame) in messages.iter_mut().zip(frames) {
        message.msg_hdr.msg_iov = frame.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_iovlen = if frame[1].is_empty() { 1 } else { 2 };
    }
    // SAFETY: the first `count` headers point to one or two `IoSlice`s each, which have the layout
    // of an `iovec` (as their documentation promises) and borrow the frame; the kernel only reads
    // them and writes `msg_len` of the headers. The call itself, because musl makes one call of it
    // for each frame; what pads its headers is zero, as it must be.
    let sent = unsafe {
        let messages = messages.as_mut_ptr();
        libc::syscall(
            libc::SYS_sendmmsg,
            fd.as_raw_fd(),
            messages,
            count as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    Errno::result(sent).map(|sent| sent as usize)
}

pub(super) const RECEIVE_MANY: usize = 16;

/// A received datagram, or several joined ones of `each_bytes`; the last of these may be shorter.
/// Its destination is known on sockets with [`IpNumber::Destination`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub bytes: usize,
    pub each_bytes: usize,
    pub source: SocketAddr,
    pub destination: IpAddr,
    pub is_truncated: bool,
}

/// Room for control data: the address it was sent to, and the length of joined datagrams.
type Control = [u64; 12];

/// Receives up to [`RECEIVE_MANY`] datagrams into `buffers`, without waiting, and describes
/// them.
pub(super) fn receive_many<'a>(
    fd: BorrowedFd,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    arrivals: &mut Vec<Arrival>,
) -> nix::Result<()> {
    const MANY: usize = RECEIVE_MANY;
    // SAFETY: all bytes zero are valid for each of these structs of integers and pointers.
    let (mut messages, mut names, mut pieces): (
        [libc::mmsghdr; MANY],
        [libc::sockaddr_in6; MANY],
        [libc::iovec; MANY],
    ) = unsafe { (zeroed(), zeroed(), zeroed()) };
    let mut controls: [Control; MANY] = [[0; 12]; MANY];
    let mut count = 0;
    for (at, buffer) in buffers.take(MANY).enumerate() {
        pieces[at] = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let header = &mut messages[at].msg_hdr;
        header.msg_name = (&raw mut names[at]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in6>() as socklen_t;
        (header.msg_iov, header.msg_iovlen) = (&raw mut pieces[at], 1);
        header.msg_control = (&raw mut controls[at]).cast();
        header.msg_controllen = size_of::<Control>() as _;
        count = at + 1;
    }
    let (messages_at, none) = (messages.as_mut_ptr(), std::ptr::null_mut());
    // SAFETY: the first `count` headers point to a name, a buffer and control data each, which are
    // as long as they say and outlive the call; the buffers are borrowed for writing.
    let received = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            messages_at,
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            none,
        )
    };
    let received = Errno::result(received)? as usize;
    arrivals.extend(
        messages
            .iter()
            .zip(&names)
            .take(received)
            .map(|(message, name)| {
                let bytes = message.msg_len as usize;
                let source = source_in(name);
                let is_truncated =
                    message.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
                // SAFETY: the kernel has filled this header and the control data it points to,
                // which still live.
                let (destination, joined) = unsafe { control_of(&message.msg_hdr) };
                let each_bytes = joined
                    .filter(|joined| (1..bytes).contains(joined))
                    .unwrap_or(bytes);
                Arrival {
                    bytes,
                    each_bytes,
                    source,
                    destination,
                    is_truncated,
                }
            }),
    );
    Ok(())
}

/// Returns the address of IPv4 or IPv6 in a struct that has room for both.
fn source_in(name: &libc::sockaddr_in6) -> SocketAddr {
    let port = u16::from_be(name.sin6_port);
    if c_int::from(name.sin6_family) == libc::AF_INET6 {
        let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
        return SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into();
    }
    // Family and port are at the same place, and the address behind them.
    let ip = Ipv4Addr::from(name.sin6_flowinfo.to_ne_bytes());
    SocketAddr::new(ip.into(), port)
}

/// Returns the destination of a datagram and the length of joined ones.
///
/// # Safety
/// The header is one that the kernel has filled, and its control data live.
unsafe fn control_of(header: &libc::msghdr) -> (IpAddr, Option<usize>) {
    let (mut destination, mut joined) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), None);
    // SAFETY: the caller's promise; each entry is followed from one that the kernel has written,
    // and is read without regard to alignment only as far as its kind says.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(header);
        while !entry.is_null() {
            let data = libc::CMSG_DATA(entry);
            match ((*entry).cmsg_level, (*entry).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = data.cast::<libc::in_pktinfo>().read_unaligned();
                    destination = Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    // The address comes first.
                    let octets: [u8; 16] = data.cast::<[u8; 16]>().read_unaligned();
                    destination = Ipv6Addr::from(octets).into();
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    joined = usize::try_from(data.cast::<c_int>().read_unaligned()).ok()
                }
                _ => {}
            }
            entry = libc::CMSG_NXTHDR(header, entry);
        }
    }
    (destination, joined)
}

fn mac_of(address: &libc::sockaddr) -> MacAddr {
    let octet = |i: usize| address.sa_data[i] as u8;
    MacAddr::new(octet(0), octet(1), octet(2), octet(3), octet(4), octet(5))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceState {
    pub index: u32,
    pub is_up: bool,
    pub has_link: bool,
    pub mac: MacAddr,
    pub mtu_bytes: usize,
}

pub(super) fn interface_state(fd: BorrowedFd, name: &str) -> nix::Result<InterfaceState> {
    let ask = |code| query_interface(fd, name, code).map(|request| request.ifr_ifru);
    // SAFETY: each request has filled the member that is read, and any bytes make a valid integer
    // or `sockaddr`.
    let (index, flags, address, mtu) = unsafe {
        let (index, flags) = (
            ask(libc::SIOCGIFINDEX)?.ifru_ifindex,
            ask(libc::SIOCGIFFLAGS)?.ifru_flags,
        );
        (
            index,
            flags,
            ask(libc::SIOCGIFHWADDR)?.ifru_hwaddr,
            ask(libc::SIOCGIFMTU)?.ifru_mtu,
        )
    };
    Ok(InterfaceState {
        index: u32::try_from(index).map_err(|_| Errno::EINVAL)?,
        is_up: c_int::from(flags) & libc::IFF_UP != 0,
        has_link: c_int::from(flags) & libc::IFF_RUNNING != 0,
        mac: mac_of(&address),
        mtu_bytes: usize::try_from(mtu).map_err(|_| Errno::EINVAL)?,
    })
}

pub(super) fn interface_name(fd: BorrowedFd, index: u32) -> nix::Result<String> {
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = index as c_int;
    let code = libc::SIOCGIFNAME as libc::Ioctl;
    // SAFETY: SIOCGIFNAME reads and writes one `ifreq`, which outlives the call.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), code, &raw mut request) })?;
    let name = request
        .ifr_name
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0);
    Ok(String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned())
}

pub(super) fn replace(fd: BorrowedFd, other: BorrowedFd) -> nix::Result<()> {
    // SAFETY: both are open; `fd` stays open, as another file, and keeps its owner.
    Errno::result(unsafe { libc::dup3(other.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) })
        .map(drop)
}

/// Whether the kernel does not know the Ethernet address of a host on the interface's network, and
/// so keeps what is sent there; for hosts elsewhere it is not. Of IPv6 it is not asked.
pub(super) fn is_unresolved(fd: BorrowedFd, interface: &str, ip: IpAddr) -> bool {
    /// From `linux/sockios.h`.
    const SIOCGARP: libc::Ioctl = 0x8954;
    // SAFETY: all bytes zero is a valid `arpreq`.
    let mut request: libc::arpreq = unsafe { zeroed() };
    let IpAddr::V4(ip) = ip else { return false };
    if interface.len() >= request.arp_dev.len() {
        return false;
    }
    for (to, from) in request.arp_dev.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.arp_pa.sa_family = libc::AF_INET as libc::sa_family_t;
    // Behind the port.
    for (to, from) in request.arp_pa.sa_data[2..].iter_mut().zip(ip.octets()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGARP reads and writes one `arpreq`, which outlives the call.
    let found = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCGARP, &raw mut request) };
    // A known address has a flag.
    found == 0 && request.arp_flags == 0
}

fn query_interface(fd: BorrowedFd, name: &str, code: libc::c_ulong) -> nix::Result<libc::ifreq> {
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(Errno::ENODEV);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // C libraries disagree on the type of the code, but not on its bits.
    let code = code as libc::Ioctl;
    // SAFETY: the codes used in this file read and write one `ifreq`, which outlives the call.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), code, &raw mut request) }).map(|_| request)
}

fn set_ip_option<T: Copy>(fd: BorrowedFd, name: c_int, value: &T) -> nix::Result<()> {
    // SAFETY: the callers in this file pass integers and C structs without pointers.
    unsafe { set_option(fd, libc::IPPROTO_IP, name, value) }
}

fn set_ipv6_option<T: Copy>(fd: BorrowedFd, name: c_int, value: &T) -> nix::Result<()> {
    // SAFETY: the callers in this file pass integers and C structs without pointers.
    unsafe { set_option(fd, libc::IPPROTO_IPV6, name, value) }
}

fn set_packet_option<T: Copy>(fd: BorrowedFd, name: c_int, value: &T) -> nix::Result<()> {
    // SAFETY: the callers in this file pass integers and C structs without pointers.
    unsafe { set_option(fd, libc::SOL_PACKET, name, value) }
}

/// # Safety
///
/// Pointers inside `value` must be valid for the kernel's use of the option.
unsafe fn set_option<T>(fd: BorrowedFd, level: c_int, name: c_int, value: &T) -> nix::Result<()> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: `value` is `length` readable bytes; the caller answers for pointers inside.
    Errno::result(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length,
        )
    })
    .map(drop)
}
