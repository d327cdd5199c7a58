//! Processor time of hosts for frames and bytes, beside the time of cables.

use super::{CalibrationProblem, Field};
use serde::Deserialize;

/// Largest time of a frame, in nanoseconds, or of a byte, in picoseconds.
const MAX_FRAME_NS: u64 = 1_000_000_000;

/// Processor time of a host, per frame and per byte. A host does one thing at a time; a relay
/// receives and sends.
///
/// The times per frame are of frames whose receiver is woken for each; in a long stream one wake-up
/// serves many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    /// Time to send a frame, in nanoseconds.
    pub send_frame_ns: u64,
    /// Time to send a byte of it, in picoseconds.
    pub send_byte_ps: u64,
    /// Time to receive a frame, in nanoseconds.
    pub receive_frame_ns: u64,
    /// Time to receive a byte of it, in picoseconds.
    pub receive_byte_ps: u64,
    /// Time to receive a frame of a long stream and send it to one other, in nanoseconds. 0 if not
    /// measured: it is then derived from the numbers above.
    #[serde(default)]
    pub pass_on_frame_ns: u64,
    /// Time to send a frame of a long stream to all at once, in nanoseconds; 0 if not measured.
    /// Switches that are programs on the sender's processors copy the frame there.
    #[serde(default)]
    pub cast_frame_ns: u64,
    /// Bytes of the message in each frame of these streams.
    #[serde(default)]
    pub stream_frame_bytes: u32,
    /// Time from a frame's arrival until an idle host notices it, in nanoseconds. Simulations need
    /// it; in the model it is part of L(m).
    #[serde(default)]
    pub wake_up_ns: u64,
    /// Processors shared by all hosts of one machine (namespaces or virtual machines); 0 if each
    /// host has its own.
    #[serde(default)]
    pub shared_cores: u32,
}

impl Processing {
    /// Returns the time to send `bytes` in `frames` frames, in nanoseconds.
    pub fn sending_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.send_frame_ns as f64 + bytes as f64 * self.send_byte_ps as f64 / 1e3
    }

    /// Returns the factor of a frame's cost in a long stream over the cost from the numbers per
    /// frame and byte; 1 if not measured.
    pub fn streaming(&self) -> f64 {
        let bytes = self.stream_frame_bytes.into();
        let both = self.sending_ns(1.0, bytes) + self.receiving_ns(1.0, bytes);
        if self.pass_on_frame_ns > 0 && both > 0.0 { self.pass_on_frame_ns as f64 / both } else { 1.0 }
    }

    /// Returns the factor of sending a frame to all in a long stream over
    /// [sending](Self::sending_ns) it to one; `None` if not measured.
    pub fn casting(&self) -> Option<f64> {
        let sending = self.sending_ns(1.0, self.stream_frame_bytes.into());
        (self.cast_frame_ns > 0 && sending > 0.0).then(|| self.cast_frame_ns as f64 / sending)
    }

    /// Returns the time to receive `bytes` in `frames` frames, in nanoseconds.
    pub fn receiving_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.receive_frame_ns as f64 + bytes as f64 * self.receive_byte_ps as f64 / 1e3
    }

    /// Returns the costs, each clamped to its plausible limit.
    #[must_use]
    pub fn clamped(self) -> Self {
        let clamp = |value: u64| value.min(MAX_FRAME_NS);
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
        match numbers.into_iter().find(|&(_, value)| value > MAX_FRAME_NS) {
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
