//! A chain of TCP connections for comparison, as in dolly: each host writes received data to its
//! file and forwards it to the next. Completion is confirmed from the last host backwards.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes read before they are forwarded, the most that a socket returns at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Longest wait for the next host to listen.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Byte that confirms completion of a host and of all behind it to its predecessor.
const DONE: u8 = 1;

/// A host of the chain.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Port to listen on for the previous host; none for the first, which reads the file.
    pub listen: Option<u16>,
    /// Address of the next host; none for the last.
    pub next: Option<SocketAddr>,
    /// The file to send, or to write.
    pub file: &'a Path,
}

impl Link<'_> {
    /// Performs this host's part until completion.
    ///
    /// # Errors
    /// If a neighbour or the file fails.
    pub fn run(&self) -> io::Result<()> {
        let mut before = match self.listen {
            Some(port) => Some(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?.accept()?.0),
            None => None,
        };
        let mut next = self.next.map(connect).transpose()?;
        match &mut before {
            Some(before) => {
                let mut file = File::create(self.file)?;
                pass(before, &mut next, Some(&mut file))?;
            }
            None => pass(&mut File::open(self.file)?, &mut next, None)?,
        }
        if let Some(next) = &mut next {
            next.shutdown(std::net::Shutdown::Write)?;
            let mut word = [0];
            next.read_exact(&mut word)?;
            if word != [DONE] {
                return Err(io::Error::new(ErrorKind::InvalidData, "the next host of the chain said something else"));
            }
        }
        before.map_or(Ok(()), |mut before| before.write_all(&[DONE]))
    }
}

/// Forwards everything, and writes it if there is a file.
fn pass(from: &mut impl Read, next: &mut Option<TcpStream>, mut keep: Option<&mut File>) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let bytes = match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The next host first, because its data has the longest way to go.
        if let Some(next) = next {
            next.write_all(&block[..bytes])?;
        }
        if let Some(file) = &mut keep {
            file.write_all(&block[..bytes])?;
        }
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_WITHIN;
    loop {
        match TcpStream::connect(to) {
            Err(_) if Instant::now() < deadline => thread::sleep(CONNECT_AGAIN_AFTER),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_of_a_chain_have_the_bytes_when_the_first_has_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 17).map(|at| (at * 7 % 251) as u8).collect();
        let source = directory.path().join("source");
        std::fs::write(&source, &bytes).expect("writable");
        // Two free ports, chosen by the kernel.
        let ports = [(); 2].map(|()| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            listener.local_addr().expect("bound").port()
        });
        let to = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let files = ["middle", "last"].map(|name| directory.path().join(name));
        thread::scope(|scope| {
            let last = Link { listen: Some(ports[1]), next: None, file: &files[1] };
            let middle = Link { listen: Some(ports[0]), next: Some(to(ports[1])), file: &files[0] };
            let others = [last, middle].map(|link| scope.spawn(move || link.run()));
            Link { listen: None, next: Some(to(ports[0])), file: &source }.run().expect("the chain holds");
            for file in &files {
                assert_eq!(std::fs::read(file).expect("received"), bytes, "{}", file.display());
            }
            others.into_iter().for_each(|other| other.join().expect("no panic").expect("the chain holds"));
        });
    }

    #[test]
    fn a_chain_whose_last_host_dies_is_not_said_to_be_done() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let next = Some(listener.local_addr().expect("bound"));
        let file = tempfile::NamedTempFile::new().expect("a file");
        thread::scope(|scope| {
            scope.spawn(|| drop(listener.accept()));
            assert!(Link { listen: None, next, file: file.path() }.run().is_err());
        });
    }
}
