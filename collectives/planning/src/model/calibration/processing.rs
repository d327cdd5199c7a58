//! What the hosts' processors take for frames and bytes, beside what the cables do.

use super::{CalibrationProblem, Field};
use serde::Deserialize;

/// No frame takes a processor longer, in nanoseconds; nor does a kilobyte, in picoseconds a byte.
const MOST: u64 = 1_000_000_000;

/// What a host's processor takes: so much for each frame, and for each byte of it. A host does one thing after the
/// other; a relay receives and sends.
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

    /// What a host takes to receive them, in nanoseconds.
    pub fn receiving_ns(&self, frames: f64, bytes: u64) -> f64 {
        frames * self.receive_frame_ns as f64 + bytes as f64 * self.receive_byte_ps as f64 / 1e3
    }

    pub(super) fn check(&self) -> Result<(), (Field, CalibrationProblem)> {
        let numbers = [
            ("send_frame_ns", self.send_frame_ns),
            ("send_byte_ps", self.send_byte_ps),
            ("receive_frame_ns", self.receive_frame_ns),
            ("receive_byte_ps", self.receive_byte_ps),
            ("wake_up_ns", self.wake_up_ns),
        ];
        match numbers.into_iter().find(|&(_, value)| value > MOST) {
            Some((name, value)) => Err((Field::Processing, CalibrationProblem::Processing { name, value })),
            None => Ok(()),
        }
    }

    pub(super) fn to_toml(self) -> String {
        let Self { send_frame_ns, send_byte_ps, receive_frame_ns, receive_byte_ps, wake_up_ns, shared_cores } = self;
        let shared = if shared_cores > 0 { format!("shared_cores = {shared_cores}\n") } else { String::new() };
        format!(
            "\n[processing]\nsend_frame_ns = {send_frame_ns}\nsend_byte_ps = {send_byte_ps}\nreceive_frame_ns = \
             {receive_frame_ns}\nreceive_byte_ps = {receive_byte_ps}\nwake_up_ns = {wake_up_ns}\n{shared}"
        )
    }
}
