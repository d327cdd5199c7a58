//! A packet socket by system calls alone: `recvmmsg` into memory of our own, `sendto` for each
//! frame.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendto, setsockopt, sockopt};

use super::rings::{Hears, packet_socket, wait};
use super::{Receiver, Sender};

const BATCH: usize = 64;
const FRAME_BYTES: usize = 65_535 + 14;

pub(super) struct Calls {
    socket: OwnedFd,
}

impl Calls {
    pub(super) fn open(buffer_bytes: Option<usize>) -> anyhow::Result<Self> {
        let (socket, interface) = packet_socket()?;
        if let Some(bytes) = buffer_bytes {
            setsockopt(&socket, sockopt::RcvBufForce, &bytes).context("setting the receive buffer")?;
        }
        Hears::Ours.bind(&socket, interface)?;
        Ok(Self { socket })
    }
}

impl Receiver for Calls {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        let count = |frames| _ = count.fetch_add(frames, Ordering::Relaxed);
        let mut memory = vec![0; BATCH * FRAME_BYTES];
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
        while !over.load(Ordering::Acquire) {
            let mut places: Vec<_> =
                memory.chunks_exact_mut(FRAME_BYTES).map(|place| [IoSliceMut::new(place)]).collect();
            let number = self.socket.as_raw_fd();
            let received = recvmmsg(number, &mut headers, places.iter_mut(), MsgFlags::MSG_DONTWAIT, None);
            match received.map(Iterator::count) {
                Ok(frames) => count(frames as u64),
                Err(Errno::EAGAIN) => wait(&self.socket)?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("receiving"),
            }
        }
        Ok(())
    }
}

impl Sender for Calls {
    fn send(self: Box<Self>, frame: &[u8], over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        let count = |frames| _ = count.fetch_add(frames, Ordering::Relaxed);
        while !over.load(Ordering::Acquire) {
            // The socket is bound to the interface; the frame has the addresses.
            match sendto(self.socket.as_raw_fd(), frame, &(), MsgFlags::empty()) {
                Ok(_) => count(1),
                Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("sending"),
            }
        }
        Ok(())
    }
}
