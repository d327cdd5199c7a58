//! Throughput of full frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use ethbcast_transport::messages::{MailboxStats, Settings};
use ethbcast_transport::packet::Counters;
use nix::time::ClockId;

use super::content;
use super::hop::Hop;
use super::post::Post;
use crate::ends::{End, OurEnd, frame_to};

const GRACE: Duration = Duration::from_millis(50);
const VARIETY: u64 = 8;
const AHEAD: usize = 4;

/// Frames of one direction, and their costs.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub frames_per_second: f64,
    /// CPU time of the sending thread for each frame, in microseconds, including the kernel's
    /// delivery to the other host's ring.
    pub sender_micros: f64,
    /// CPU time of the receiving thread for each frame, in microseconds.
    pub receiver_micros: f64,
}

impl Rate {
    fn new(frames: u64, time: Duration, sender: Duration, receiver: Duration) -> Rate {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / frames.max(1) as f64;
        Rate {
            frames_per_second: frames as f64 / time.as_secs_f64(),
            sender_micros: micros(sender),
            receiver_micros: micros(receiver),
        }
    }
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let clock = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from);
    let before = clock()?;
    let result = work()?;
    Ok((result, clock()? - before))
}

/// Sends frames from one thread into a ring on the other host by `sendmmsg`, without any protocol.
///
/// # Errors
/// Fails if a socket does, or if frames are lost.
pub fn raw(hop: &Hop, payload_bytes: usize, time: Duration) -> anyhow::Result<Rate> {
    let [sending, receiving] = hop.on_both(|_| OurEnd::open())?;
    let frame = frame_to(hop.mac(1), payload_bytes);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| timed(|| receiving.receive(&over)));
        let begin = Instant::now();
        let sent = scope.spawn(|| timed(|| sending.send(&frame, time))).join().expect("the sender does not panic");
        let time = begin.elapsed();
        thread::sleep(GRACE);
        over.store(true, Ordering::Release);
        let (received, receiver) = receiver.join().expect("the receiver does not panic")?;
        let (sent, sender) = sent?;
        ensure!(received * 1000 >= sent * 999, "frames were lost: the receiver did not keep up");
        Ok(Rate::new(received, time, sender, receiver))
    })
}

/// Result of a stream of messages.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Frames with bytes of messages, without repetitions.
    pub rate: Rate,
    /// Bytes of messages per second.
    pub bytes_per_second: f64,
    /// Statistics of the sender's mailbox and port.
    pub sender: (MailboxStats, Counters),
    /// Statistics of the receiver's mailbox and port.
    pub receiver: (MailboxStats, Counters),
}

/// Sends messages for a time, to posted receives, and checks every byte.
///
/// # Errors
/// Fails if an interface does or a message arrives changed.
pub fn messages(hop: &Hop, bytes: usize, time: Duration, spin: Duration) -> anyhow::Result<Passed> {
    let [here, there] = Post::open_both(hop, &Settings::default(), spin)?;
    let variety: Vec<Arc<[u8]>> = (0..VARIETY).map(|number| content(number, bytes).into()).collect();
    let receive = || {
        let mut number = 0;
        there.receive_many(bytes, AHEAD, |message| {
            if message.is_empty() {
                return Ok(false);
            }
            ensure!(message[..] == variety[number % variety.len()][..], "message {number} arrived changed");
            number += 1;
            Ok(true)
        })
    };
    let send = || {
        let (begin, mut sent) = (Instant::now(), 0_usize);
        while begin.elapsed() < time {
            here.send(&variety[sent % variety.len()])?;
            sent += 1;
        }
        here.send(&Arc::from([]))?;
        here.settle()?;
        Ok((sent, begin.elapsed()))
    };
    let ((sent, time), sender_cpu, receiver_cpu) = thread::scope(|scope| {
        let receiver = scope.spawn(|| timed(receive));
        let (sent, sender_cpu) = scope.spawn(|| timed(send)).join().expect("the sender does not panic")?;
        let ((), receiver_cpu) = receiver.join().expect("the receiver does not panic")?;
        anyhow::Ok((sent, sender_cpu, receiver_cpu))
    })?;
    let (sender, receiver) = (here.counted()?, there.counted()?);
    let frames = sender.0.pushes_sent + sender.0.pulls_sent;
    let rate = Rate::new(frames, time, sender_cpu, receiver_cpu);
    Ok(Passed { rate, bytes_per_second: (sent * bytes) as f64 / time.as_secs_f64(), sender, receiver })
}
