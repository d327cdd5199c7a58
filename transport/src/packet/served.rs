//! Packet sockets for unprivileged processes: a privileged server opens and filters them, and
//! passes them over a Unix socket (SCM_RIGHTS). The receiving process needs no capability: rings,
//! groups and binding need none (packet(7)), and the filter admits only the server's EtherType for
//! this host and the requested group. The filter does not apply to sent frames: any process that
//! may connect may send any frame, on any interface.

use super::error::{Errno, OpenError};
use super::{Interface, filter, syscall};
use crate::MacAddr;
use crate::wire::EtherType;
use nix::errno::Errno as SystemErrno;
use nix::sys::socket::{MsgFlags, recv};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

const SERVER: &str = "ETHBCAST_PORT";
const MAGIC: [u8; 8] = *b"ethport\x01";
/// Magic, EtherType, whether there is a group, the group, the interface's name padded with zeros.
const REQUEST_BYTES: usize = 8 + 2 + 1 + 6 + 16;
const PATIENCE: Duration = Duration::from_secs(2);
const REASON_BYTES: usize = 200;

/// Opens an unbound packet socket with a locked filter: the inherited one if there is one, else a
/// new one, else, without the privilege, one from the server.
pub(super) fn filtered_socket(
    interface: &Interface,
    ether_type: EtherType,
    groups: &[MacAddr],
    inherited: Option<i32>,
) -> Result<OwnedFd, OpenError> {
    let name = interface.name.as_str();
    let failed = |step| move |errno| OpenError::new(name, step, errno);
    if let Some(number) = inherited {
        let interface_name = name.to_owned();
        let socket =
            syscall::inherited_packet_socket(number).map_err(|errno| OpenError::Inherited {
                number,
                interface: interface_name,
                errno: Errno::new(errno),
            })?;
        return lock(socket, interface, ether_type, groups)
            .map_err(|(step, errno)| failed(step)(errno));
    }
    match syscall::packet_socket() {
        Ok(socket) => {
            lock(socket, interface, ether_type, groups).map_err(|(step, errno)| failed(step)(errno))
        }
        Err(errno) => match std::env::var_os(SERVER).filter(|_| errno == SystemErrno::EPERM) {
            Some(path) => {
                let group = groups.first().copied();
                request_socket(Path::new(&path), interface, ether_type, group).map_err(|error| {
                    OpenError::Served {
                        interface: name.to_owned(),
                        path: path.to_string_lossy().into_owned(),
                        text: error.to_string(),
                    }
                })
            }
            None => Err(failed("open a packet socket")(errno)),
        },
    }
}

fn lock(
    socket: OwnedFd,
    interface: &Interface,
    ether_type: EtherType,
    groups: &[MacAddr],
) -> Result<OwnedFd, (&'static str, SystemErrno)> {
    let program = filter::program(ether_type, interface, groups);
    syscall::attach_filter(socket.as_fd(), &program)
        .map_err(|errno| ("attach the frame filter", errno))?;
    syscall::lock_filter(socket.as_fd()).map_err(|errno| ("lock the frame filter", errno))?;
    Ok(socket)
}

fn request_socket(
    path: &Path,
    interface: &Interface,
    ether_type: EtherType,
    group: Option<MacAddr>,
) -> io::Result<OwnedFd> {
    let mut server = UnixStream::connect(path)?;
    server.set_read_timeout(Some(PATIENCE))?;
    server.set_write_timeout(Some(PATIENCE))?;
    server.write_all(&request(&interface.name, ether_type, group)?)?;
    let mut reason = [0; REASON_BYTES];
    let (bytes, socket) = syscall::receive_descriptor(server.as_fd(), &mut reason)?;
    let text = || String::from_utf8_lossy(&reason[..bytes]).into_owned();
    let socket = socket.ok_or_else(|| io::Error::other(text()))?;
    // The socket belongs to the server's network namespace, which must be this process's.
    match syscall::interface_state(socket.as_fd(), &interface.name) {
        Ok(state) if state.index == interface.index && state.mac == interface.mac => Ok(socket),
        _ => Err(io::Error::other(
            "the server runs in another network namespace: start one in this",
        )),
    }
}

fn request(
    name: &str,
    ether_type: EtherType,
    group: Option<MacAddr>,
) -> io::Result<[u8; REQUEST_BYTES]> {
    let mut request = [0; REQUEST_BYTES];
    request[..8].copy_from_slice(&MAGIC);
    request[8..10].copy_from_slice(&ether_type.number().to_be_bytes());
    if let Some(group) = group {
        request[10] = 1;
        request[11..17].copy_from_slice(&group.octets());
    }
    let room = request[17..]
        .get_mut(..name.len())
        .filter(|room| room.len() < 16);
    room.ok_or(ErrorKind::InvalidInput)?
        .copy_from_slice(name.as_bytes());
    Ok(request)
}

/// A server that passes sockets to unprivileged processes. The socket file's permissions decide who
/// may connect.
#[derive(Debug)]
pub struct PortServer {
    listener: UnixListener,
    ether_type: EtherType,
}

impl PortServer {
    /// Listens at `path`, which must not exist, for requests of this EtherType alone.
    ///
    /// # Errors
    /// The kernel's, in binding.
    pub fn bind(path: &Path, ether_type: EtherType) -> io::Result<PortServer> {
        Ok(PortServer {
            listener: UnixListener::bind(path)?,
            ether_type,
        })
    }

    /// Waits for a process that asks for a port.
    ///
    /// # Errors
    /// If no further one can be accepted.
    pub fn accept(&self) -> io::Result<PortClient> {
        let (stream, _) = self.listener.accept()?;
        Ok(PortClient {
            stream,
            ether_type: self.ether_type,
        })
    }
}

#[derive(Debug)]
pub struct PortClient {
    stream: UnixStream,
    ether_type: EtherType,
}

impl PortClient {
    /// Reads its request, for 2 s at most, and answers it; returns the result as a log message.
    pub fn serve(self) -> String {
        match self.reply() {
            Ok(interface) => format!("a socket on {interface} was handed over"),
            Err(error) => {
                // The process may be gone already.
                let text = error.to_string();
                let cut = (0..=text.len().min(REASON_BYTES))
                    .rev()
                    .find(|&end| text.is_char_boundary(end));
                drop((&self.stream).write_all(&text.as_bytes()[..cut.unwrap_or(0)]));
                format!("refused: {text}")
            }
        }
    }

    fn reply(&self) -> io::Result<String> {
        let stream = &self.stream;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = [0; REQUEST_BYTES];
        // The kernel counts the limit down over the whole call, however slowly the bytes come.
        let bytes = recv(stream.as_raw_fd(), &mut request, MsgFlags::MSG_WAITALL)?;
        let (name, ether_type, group) = read(&request)
            .filter(|_| bytes == REQUEST_BYTES)
            .ok_or_else(|| io::Error::other("that is no request for a port"))?;
        if ether_type != self.ether_type.number() {
            let own = self.ether_type;
            return Err(io::Error::other(format!(
                "only EtherType {own} is served: start a server for the other"
            )));
        }
        let interface = Interface::find(Some(name)).map_err(io::Error::other)?;
        let socket = syscall::packet_socket().map_err(io::Error::from)?;
        let socket = lock(socket, &interface, self.ether_type, group.as_slice()).map_err(
            |(step, errno)| io::Error::other(format!("cannot {step}: {}", Errno::new(errno))),
        )?;
        syscall::send_descriptor(stream.as_fd(), socket.as_fd())?;
        Ok(interface.name)
    }
}

fn read(request: &[u8; REQUEST_BYTES]) -> Option<(&str, u16, Option<MacAddr>)> {
    let (magic, rest) = request.split_at(8);
    let (head, name) = rest.split_at(9);
    let length = name.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(&name[..length])
        .ok()
        .filter(|name| !name.is_empty())?;
    let octet = |at: usize| head[3 + at];
    let mac = MacAddr::new(octet(0), octet(1), octet(2), octet(3), octet(4), octet(5));
    let group = match head[2] {
        0 => None,
        // The filter would admit frames from another address.
        1 if mac.is_multicast() => Some(mac),
        _ => return None,
    };
    (magic == MAGIC).then_some((name, u16::from_be_bytes([head[0], head[1]]), group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_any_bytes_only_a_request_is_read_as_one(
            start in prop::sample::select(vec![0, 8, 17, REQUEST_BYTES]),
            rest in prop::array::uniform32(any::<u8>()),
        ) {
            let group = Some(MacAddr::new(3, 1, 2, 3, 4, 5));
            let mut bytes = request("eth0", EtherType::DEFAULT, group).expect("the name fits");
            bytes.iter_mut().skip(start).zip(rest).for_each(|(byte, other)| *byte = other);
            if let Some((name, _, group)) = read(&bytes) {
                prop_assert!(name.len() < 16 && group.is_none_or(|group| group.is_multicast()));
                let again = request(name, EtherType::DEFAULT, group).expect("the name fits");
                // Behind its end the name may be followed by anything, as may a group that is not
                // asked for.
                prop_assert_eq!(&again[..8], &bytes[..8]);
                prop_assert_eq!(&again[17..17 + name.len()], &bytes[17..17 + name.len()]);
                prop_assert!(group.is_none() || again[10..17] == bytes[10..17]);
            }
        }
    }

    #[test]
    fn a_request_is_read_as_it_was_written_and_nothing_else_is_one() {
        let group = MacAddr::new(3, 1, 2, 3, 4, 5);
        let asked = request("eth0", EtherType::DEFAULT, Some(group)).expect("the name fits");
        assert_eq!(
            read(&asked),
            Some(("eth0", EtherType::DEFAULT.number(), Some(group)))
        );
        let alone = request("a-name-of-15-by", EtherType::DEFAULT, None).expect("the name fits");
        assert_eq!(
            read(&alone),
            Some(("a-name-of-15-by", EtherType::DEFAULT.number(), None))
        );
        assert!(request("a-name-of-16-byt", EtherType::DEFAULT, None).is_err());
        for (at, byte) in [(0, 0), (7, 9), (10, 7), (11, 2), (17, 0), (18, 255)] {
            let mut wrong = asked;
            wrong[at] = byte;
            assert_eq!(read(&wrong), None, "byte {at} is {byte}");
        }
        assert_eq!(read(&[255; REQUEST_BYTES]), None);
    }
}
