//! A packet socket on the interface of the thread's namespace, made of nix's safe calls only.
//!
//! Its EtherType is IPv4's, the one nix knows beside "all": a socket for all would receive frames
//! before the loss. Payloads are no IPv4, so the kernels of the lab's hosts discard them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

pub const BROADCAST: [u8; 6] = [0xff; 6];

const ETHERTYPE: [u8; 2] = [0x08, 0x00];
const HEADER_BYTES: usize = 14;

pub struct FrameSocket {
    socket: OwnedFd,
    interface: LinkAddr,
}

impl FrameSocket {
    /// Opens one in the thread's namespace, with a large receive buffer so that it loses nothing
    /// itself.
    pub fn open() -> Self {
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthIp)
            .expect("a packet socket");
        let mut addresses = getifaddrs().expect("the interfaces");
        let interface = addresses
            .find_map(|entry| (entry.interface_name == "eth0").then_some(entry.address?.as_link_addr().copied()?))
            .expect("eth0 has a link address");
        bind(socket.as_raw_fd(), &interface).expect("binding to eth0");
        setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).expect("a large buffer");
        Self { socket, interface }
    }

    pub fn mac(&self) -> [u8; 6] {
        self.interface.addr().expect("Ethernet has addresses")
    }

    pub fn send(&self, to: [u8; 6], number: u32, payload_bytes: usize, flags: MsgFlags) -> Result<(), Errno> {
        let mut frame = vec![0; HEADER_BYTES + payload_bytes];
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&self.mac());
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        let sent = sendto(self.socket.as_raw_fd(), &frame, &self.interface, flags)?;
        assert_eq!(sent, frame.len(), "frames go whole");
        Ok(())
    }

    pub fn receive(&self, patience: Duration) -> Option<(u32, usize, Instant)> {
        let timeout = TimeVal::new(patience.as_secs() as _, patience.subsec_micros() as _);
        setsockopt(&self.socket, sockopt::ReceiveTimeout, &timeout).expect("a time limit");
        let mut frame = vec![0; 1 << 17];
        loop {
            return match recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                Ok(length) => {
                    let number = u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
                    Some((number, length - HEADER_BYTES, Instant::now()))
                }
                // The process was stopped meanwhile, and went on.
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => None,
                Err(error) => panic!("receiving: {error}"),
            };
        }
    }

    pub fn receive_all(&self, patience: Duration) -> Vec<(u32, usize, Instant)> {
        std::iter::from_fn(|| self.receive(patience)).collect()
    }
}
