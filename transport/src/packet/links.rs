//! All network interfaces of the calling thread's network namespace, as rtnetlink(7) lists them,
//! with their alternative names and their masters.
//!
//! `/sys/class/net` shows the namespace it was mounted in, not the calling thread's.

use crate::MacAddr;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::os::fd::AsRawFd;

const ALIGNMENT: usize = 4;
const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ANSWER_BYTES: usize = 1 << 18;
const INFO_KIND: u16 = 1;
const INFO_SLAVE_KIND: u16 = 4;
const PROPERTIES: u16 = 52;
const OTHER_NAME: u16 = 53;
const TYPE_MASK: u16 = 0x3fff;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkInfo {
    pub index: u32,
    pub name: String,
    pub other_names: Vec<String>,
    pub hardware: u16,
    pub flags: u32,
    pub mac: MacAddr,
    pub mtu_bytes: usize,
    pub kind: String,
    pub master: Option<u32>,
    pub port_kind: String,
}

impl LinkInfo {
    pub(super) fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u32 != 0
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.hardware == libc::ARPHRD_ETHER && !self.has(libc::IFF_LOOPBACK)
    }

    /// Whether another interface receives its frames; a VRF concerns only IP.
    pub(super) fn is_port(&self) -> bool {
        self.master.is_some() && self.port_kind != "vrf"
    }
}

/// Lists all interfaces.
///
/// # Errors
/// The kernel's; EAFNOSUPPORT or EPERM where a seccomp filter denies AF_NETLINK.
pub(super) fn all() -> nix::Result<Vec<LinkInfo>> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    send(socket.as_raw_fd(), &request(), MsgFlags::empty())?;
    let (mut links, mut answer) = (Vec::new(), vec![0; ANSWER_BYTES]);
    loop {
        let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        if read(&answer[..bytes], &mut links)? {
            return Ok(links);
        }
    }
}

/// Whether the interface is on and has a link at this moment. `IFF_RUNNING`, as ioctl(2) reports
/// it, may lag by a second.
pub(super) fn has_link(index: u32) -> bool {
    let is_it = |link: &LinkInfo| link.index == index && link.has(libc::IFF_UP) && link.has(libc::IFF_LOWER_UP);
    all().is_ok_and(|links| links.iter().any(is_it))
}

fn request() -> [u8; HEADER_BYTES + LINK_BYTES] {
    let mut request = [0; HEADER_BYTES + LINK_BYTES];
    request[..4].copy_from_slice(&((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request
}

fn read(mut answer: &[u8], links: &mut Vec<LinkInfo>) -> nix::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(answer, 0), u16_at(answer, 4)) {
        let Some(body) = answer.get(HEADER_BYTES..length as usize) else { break };
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                return Err(Errno::from_raw(u32_at(body, 0).map_or(0, |error| -(error as i32))));
            }
            _ if kind == libc::RTM_NEWLINK => links.extend(link(body)),
            _ => {}
        }
        answer = answer.get((length as usize).next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(false)
}

fn link(body: &[u8]) -> Option<LinkInfo> {
    let mut link = LinkInfo {
        hardware: u16_at(body, 2)?,
        index: u32_at(body, 4)?,
        flags: u32_at(body, 8)?,
        ..LinkInfo::default()
    };
    for (kind, value) in attributes(body.get(LINK_BYTES..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = u32_at(value, 0)? as usize,
            libc::IFLA_MASTER => link.master = u32_at(value, 0),
            libc::IFLA_ADDRESS => {
                if let &[a, b, c, d, e, f] = value {
                    link.mac = MacAddr::new(a, b, c, d, e, f);
                }
            }
            libc::IFLA_LINKINFO => {
                for (kind, value) in attributes(value) {
                    match kind {
                        INFO_KIND => link.kind = text(value),
                        INFO_SLAVE_KIND => link.port_kind = text(value),
                        _ => {}
                    }
                }
            }
            PROPERTIES => {
                let names = attributes(value).filter(|(kind, _)| *kind == OTHER_NAME);
                link.other_names.extend(names.map(|(_, value)| text(value)));
            }
            _ => {}
        }
    }
    Some(link)
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(ALIGNMENT..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = ((value.len() + 4) as u16).to_ne_bytes();
        let mut bytes = [&length[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes();
        [&length[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
    }

    #[test]
    fn a_link_is_read_with_its_other_names_and_what_it_is_a_port_of() {
        let mut head = [0; LINK_BYTES];
        head[2..4].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        head[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        head[8..12].copy_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
        let names = [attribute(OTHER_NAME, b"enp1s0\0"), attribute(OTHER_NAME, b"lan\0")].concat();
        let info = [attribute(INFO_KIND, b"veth\0"), attribute(INFO_SLAVE_KIND, b"bridge\0")].concat();
        let body = [
            head.to_vec(),
            attribute(libc::IFLA_IFNAME, b"eth0\0"),
            attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes()),
            attribute(libc::IFLA_MASTER, &3_u32.to_ne_bytes()),
            attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            attribute(libc::IFLA_LINKINFO | 0x8000, &info),
            attribute(PROPERTIES | 0x8000, &names),
        ]
        .concat();
        let answer = [message(libc::RTM_NEWLINK, &body), message(libc::NLMSG_DONE as u16, &[0; 4])].concat();
        let mut links = Vec::new();
        assert_eq!(read(&answer, &mut links), Ok(true));
        let eth0 = LinkInfo {
            index: 7,
            name: "eth0".to_owned(),
            other_names: vec!["enp1s0".to_owned(), "lan".to_owned()],
            hardware: libc::ARPHRD_ETHER,
            flags: libc::IFF_UP as u32,
            mac: MacAddr::new(2, 0, 0, 0, 0, 1),
            mtu_bytes: 1500,
            kind: "veth".to_owned(),
            master: Some(3),
            port_kind: "bridge".to_owned(),
        };
        assert_eq!(links, [eth0]);
        assert!(links[0].is_ethernet() && links[0].is_port() && links[0].has(libc::IFF_UP));
        for cut in 0..answer.len() {
            // A truncated answer is read as far as it goes.
            assert!(read(&answer[..cut], &mut Vec::new()).is_ok());
        }
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&refused, &mut links), Err(Errno::EPERM));
    }
}
