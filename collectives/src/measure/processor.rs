//! Processor time of sending and receiving a test message, at both ends.

use super::probe::FramedMessage;
use std::fmt;
use std::time::Duration;

/// Processors of this process and their time. The driver supplies them, since a state machine has
/// no clock of its own.
#[derive(Clone, Copy)]
pub struct Processors {
    time: fn() -> Duration,
    computer: u64,
    cores: u32,
}

impl Processors {
    /// Creates a source of processor time. `time` returns the time used by this process. `computer`
    /// identifies the computer across namespaces, like the kernel's boot id (0 if unknown). `cores`
    /// is its number of cores.
    pub fn new(time: fn() -> Duration, computer: u64, cores: u32) -> Self {
        Processors {
            time,
            computer,
            cores,
        }
    }

    pub(super) fn nanos(self) -> u64 {
        u64::try_from((self.time)().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn computer(self) -> Option<u64> {
        (self.computer != 0).then_some(self.computer)
    }

    pub(super) fn cores(self) -> u32 {
        self.cores
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Processors({})", self.cores)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessorTime {
    /// One past the highest frame that had arrived, and one past the last that had been sent.
    pub seen: u64,
    pub sent: u64,
    pub receiving_nanos: u64,
    pub sending_nanos: u64,
}

/// Returns both ends' processor time per message between two reports, in nanoseconds: to send, to
/// receive. `None` if it was not reported, or no frame arrived in between.
pub(super) fn between(
    first: &ProcessorTime,
    last: &ProcessorTime,
    framed: FramedMessage,
) -> Option<(u64, u64)> {
    let each = |nanos: u64, frames: u64| nanos.checked_mul(framed.frames())?.checked_div(frames);
    let sending = last.sending_nanos.checked_sub(first.sending_nanos)?;
    let receiving = last.receiving_nanos.checked_sub(first.receiving_nanos)?;
    let told = first.receiving_nanos > 0 && first.sending_nanos > 0;
    told.then_some((
        each(sending, last.sent.checked_sub(first.sent)?)?,
        each(receiving, last.seen.checked_sub(first.seen)?)?,
    ))
}

/// Processor time of messages of one size at both ends, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkPoint {
    pub bytes: usize,
    pub frames: u64,
    pub sending_nanos: u64,
    pub receiving_nanos: u64,
}

/// Fits the time per frame, in nanoseconds, and per byte, in picoseconds: the least relative
/// squares, neither below zero.
pub(super) fn per_frame_and_byte(points: &[WorkPoint], of: fn(&WorkPoint) -> u64) -> (u64, u64) {
    let terms = || {
        points.iter().filter(|point| of(point) > 0).map(|point| {
            let nanos = of(point) as f64;
            (point.frames as f64 / nanos, point.bytes as f64 / nanos)
        })
    };
    let sum = |term: fn((f64, f64)) -> f64| terms().map(term).sum::<f64>();
    let (ff, fb, bb) = (
        sum(|(f, _)| f * f),
        sum(|(f, b)| f * b),
        sum(|(_, b)| b * b),
    );
    let (f, b) = (sum(|(f, _)| f), sum(|(_, b)| b));
    let determinant = ff * bb - fb * fb;
    let both = (
        (f * bb - b * fb) / determinant,
        (b * ff - f * fb) / determinant,
    );
    let (frame, byte) = match both {
        (frame, byte) if frame >= 0.0 && byte >= 0.0 => (frame, byte),
        (_, byte) if byte < 0.0 && ff > 0.0 => (f / ff, 0.0),
        _ if bb > 0.0 => (0.0, b / bb),
        _ => (0.0, 0.0),
    };
    (frame.round() as u64, (byte * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cost: impl Fn(u64, usize) -> u64) -> Vec<WorkPoint> {
        let point = |bytes: usize| {
            let frames = bytes.div_ceil(1468) as u64;
            WorkPoint {
                bytes,
                frames,
                sending_nanos: cost(frames, bytes),
                receiving_nanos: 7,
            }
        };
        [64, 256, 1468, 8192, 65_536].map(point).to_vec()
    }

    #[test]
    fn the_times_of_a_frame_and_of_a_byte_are_separated() {
        let sending =
            |points: &[WorkPoint]| per_frame_and_byte(points, |point| point.sending_nanos);
        assert_eq!(
            sending(&points(|frames, bytes| 2_000 * frames + bytes as u64 / 2)),
            (2_000, 500)
        );
        let (frame, byte) = sending(&points(|frames, _| 3_000 * frames));
        assert!(
            (2_990..=3_010).contains(&frame) && byte < 5,
            "{frame} ns, {byte} ps"
        );
        assert_eq!(sending(&points(|_, bytes| bytes as u64 * 2)), (0, 2_000));
        // Even if larger messages take less time, no cost is negative.
        let (frame, byte) = sending(&points(|frames, bytes| 90_000 * frames - bytes as u64));
        assert!(frame > 80_000 && byte == 0, "{frame} ns, {byte} ps");
        assert_eq!(sending(&[]), (0, 0));
    }

    #[test]
    fn processor_time_counts_between_reports_that_have_it() {
        let work = |seen, receiving_nanos, sending_nanos| ProcessorTime {
            seen,
            sent: seen + 8,
            receiving_nanos,
            sending_nanos,
        };
        let framed = FramedMessage {
            bytes: 2000,
            payload_bytes: 1000,
        };
        assert_eq!(
            between(&work(10, 1_000, 5_000), &work(30, 41_000, 25_000), framed),
            Some((2_000, 4_000))
        );
        assert_eq!(
            between(&work(10, 0, 5_000), &work(30, 41_000, 25_000), framed),
            None,
            "the other does not tell"
        );
        assert_eq!(
            between(&work(10, 1_000, 5_000), &work(10, 1_000, 5_000), framed),
            None
        );
        assert_eq!(
            between(&work(10, 9_000, 5_000), &work(30, 1_000, 6_000), framed),
            None,
            "it lies"
        );
    }
}
