//! What the hosts' processors take for frames and bytes, beside what the cables do.

use super::{CalibrationProblem, Field};
use serde::Deserialize;

/// No frame takes a processor longer, in nanoseconds; nor does a kilobyte, in picoseconds a byte.
const MOST: u64 = 1_000_000_000;

/// What a host's processor takes: so much for each frame, and for each byte of it. A host does one thing after the
/// other; a relay receives and sends.
///
/// These are frames whose receiver is woken for them; in a long stream one wake-up serves many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    /// For a frame that is sent, in nanoseconds.
    pub send_frame_ns: u64,
    /// For each byte of it, in picoseconds.
    pub send_byte_ps: u64,
    /// For a frame that is received, in nanoseconds.
    pub receive_frame_ns: u64,
    /// For each byte of it, in picoseconds.
    pub receive_byte_ps: u64,
    /// For a frame of a long stream that is received and sent to one other, in nanoseconds; 0 if that was not measured:
    /// what the numbers above make of it.
    #[serde(default)]
    pub pass_on_frame_ns: u64,
    /// For a frame of a long stream that is sent to all at once, in nanoseconds: where switches are programs that share
    /// the sender's processors, they copy it there. 0 if that was not measured.
    #[serde(default)]
    pub cast_frame_ns: u64,
    /// The bytes of the message in each frame of these streams.
    #[serde(default)]
    pub stream_frame_bytes: u32,
    /// From a frame's arrival to an idle host's taking notice, in nanoseconds. Simulations need it; in the model it is
    /// part of L(m).
    #[serde(default)]
    pub wake_up_ns: u64,
    /// All hosts run on one machine, in namespaces or virtual machines, and share so many processors; 0 if each host
    /// has its own.
    #[serde(default)]
    pub shared_cores: u32,
}

impl Processing {
    /// What a host takes to send `bytes` in so many frames, in nanoseconds.
    pub fn sending_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.send_frame_ns as f64 + bytes as f64 * self.send_byte_ps as f64 / 1e3
    }

    /// How many times what the numbers for frames and bytes make of it the frames of a long stream take; 1 if that was
    /// not measured.
    pub fn streaming(&self) -> f64 {
        let bytes = self.stream_frame_bytes.into();
        let both = self.sending_ns(1.0, bytes) + self.receiving_ns(1.0, bytes);
        if self.pass_on_frame_ns > 0 && both > 0.0 { self.pass_on_frame_ns as f64 / both } else { 1.0 }
    }

    /// How many times what [sending](Self::sending_ns) a frame to one takes, sending it to all in a long stream does;
    /// `None` if that was not measured.
    pub fn casting(&self) -> Option<f64> {
        let sending = self.sending_ns(1.0, self.stream_frame_bytes.into());
        (self.cast_frame_ns > 0 && sending > 0.0).then(|| self.cast_frame_ns as f64 / sending)
    }

    /// What a host takes to receive them, in nanoseconds.
    pub fn receiving_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.receive_frame_ns as f64 + bytes as f64 * self.receive_byte_ps as f64 / 1e3
    }

    /// The same with nothing beyond what is possible.
    #[must_use]
    pub fn clamped(self) -> Self {
        let clamp = |value: u64| value.min(MOST);
        Self {
            send_frame_ns: clamp(self.send_frame_ns),
            send_byte_ps: clamp(self.send_byte_ps),
            receive_frame_ns: clamp(self.receive_frame_ns),
            receive_byte_ps: clamp(self.receive_byte_ps),
            pass_on_frame_ns: clamp(self.pass_on_frame_ns),
            cast_frame_ns: clamp(self.cast_frame_ns),
            wake_up_ns: clamp(self.wake_up_ns),
            ..self
        }
    }

    pub(super) fn check(&self) -> Result<(), (Field, CalibrationProblem)> {
        let numbers = [
            ("send_frame_ns", self.send_frame_ns),
            ("send_byte_ps", self.send_byte_ps),
            ("receive_frame_ns", self.receive_frame_ns),
            ("receive_byte_ps", self.receive_byte_ps),
            ("pass_on_frame_ns", self.pass_on_frame_ns),
            ("cast_frame_ns", self.cast_frame_ns),
            ("wake_up_ns", self.wake_up_ns),
        ];
        let in_streams = self.pass_on_frame_ns > 0 || self.cast_frame_ns > 0;
        match numbers.into_iter().find(|&(_, value)| value > MOST) {
            Some((name, value)) => Err((Field::Processing, CalibrationProblem::Processing { name, value })),
            None if in_streams && self.stream_frame_bytes == 0 => {
                Err((Field::Processing, CalibrationProblem::StreamFrame))
            }
            None => Ok(()),
        }
    }

    pub(super) fn to_toml(self) -> String {
        let Self { send_frame_ns, send_byte_ps, receive_frame_ns, receive_byte_ps, wake_up_ns, .. } = self;
        let if_any = |name: &str, value: u64| if value > 0 { format!("{name} = {value}\n") } else { String::new() };
        let pass_on = if_any("pass_on_frame_ns", self.pass_on_frame_ns);
        let of_bytes = if_any("stream_frame_bytes", self.stream_frame_bytes.into());
        let cast = if_any("cast_frame_ns", self.cast_frame_ns);
        let shared = if_any("shared_cores", self.shared_cores.into());
        format!(
            "\n[processing]\nsend_frame_ns = {send_frame_ns}\nsend_byte_ps = {send_byte_ps}\nreceive_frame_ns = \
             {receive_frame_ns}\nreceive_byte_ps = {receive_byte_ps}\n{pass_on}{cast}{of_bytes}wake_up_ns = \
             {wake_up_ns}\n{shared}"
        )
    }
}
