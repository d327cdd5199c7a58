//! The bodies of PROBE, ECHO and REPORT frames.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The longest name that travels in an invitation or its answer, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// What a PROBE asks for; an ECHO repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Task {
    /// Who is there? The rest of the body is the group's name.
    Invite = 0,
    /// Send as many bytes back, once the last frame is there.
    Ping = 1,
    /// Count, and report when a frame asks for it.
    Train = 2,
    /// Report what has been counted.
    Ask = 3,
}

impl Task {
    fn from_wire(value: u8) -> Option<Task> {
        [Task::Invite, Task::Ping, Task::Train, Task::Ask].into_iter().find(|&task| task as u8 == value)
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawProbe {
    task: u8,
    reserved: u8,
    payload_bytes: U16,
    number: U32,
}

/// The fixed part of a PROBE's body; padding, or a name, follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeBody {
    /// What is asked for.
    pub(super) task: Task,
    /// Ping: the longest payload of a frame of the message. Else 0.
    pub(super) payload_bytes: u16,
    /// Ping: the bytes of the whole message. Train: the frame from which on the second count goes. Else 0.
    pub(super) number: u32,
}

impl ProbeBody {
    /// Bytes of the fixed part.
    pub(super) const BYTES: usize = size_of::<RawProbe>();

    /// A body of which nothing but the task matters.
    pub(super) const fn plain(task: Task) -> Self {
        ProbeBody { task, payload_bytes: 0, number: 0 }
    }

    /// Writes it to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let raw = RawProbe {
            task: self.task as u8,
            reserved: 0,
            payload_bytes: U16::new(self.payload_bytes),
            number: U32::new(self.number),
        };
        payload[..Self::BYTES].copy_from_slice(raw.as_bytes());
    }

    /// Reads it, and returns what follows; `None` if it is malformed.
    pub(super) fn read(payload: &[u8]) -> Option<(ProbeBody, &[u8])> {
        let (raw, rest) = RawProbe::ref_from_prefix(payload).ok()?;
        let body = ProbeBody { task: Task::from_wire(raw.task)?, payload_bytes: raw.payload_bytes.get(), number: raw.number.get() };
        Some((body, rest))
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawReport {
    arrived: U64,
    arrived_late: U64,
    first_nanos: U64,
    late_nanos: U64,
    last_nanos: U64,
}

/// What a responder has counted of a train. Moments are those of its own clock: only their differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportBody {
    /// Frames that arrived.
    pub(super) arrived: u64,
    /// Those from the second count's first frame on.
    pub(super) arrived_late: u64,
    /// When the first frame came.
    pub(super) first_nanos: u64,
    /// When the first one of the second count came.
    pub(super) late_nanos: u64,
    /// When the one with the highest number came.
    pub(super) last_nanos: u64,
}

impl ReportBody {
    /// Bytes on the wire.
    pub(super) const BYTES: usize = size_of::<RawReport>();

    /// Writes it to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let raw = RawReport {
            arrived: U64::new(self.arrived),
            arrived_late: U64::new(self.arrived_late),
            first_nanos: U64::new(self.first_nanos),
            late_nanos: U64::new(self.late_nanos),
            last_nanos: U64::new(self.last_nanos),
        };
        payload[..Self::BYTES].copy_from_slice(raw.as_bytes());
    }

    /// Reads it; `None` if it is malformed.
    pub(super) fn read(payload: &[u8]) -> Option<ReportBody> {
        let (raw, _) = RawReport::ref_from_prefix(payload).ok()?;
        let body = ReportBody {
            arrived: raw.arrived.get(),
            arrived_late: raw.arrived_late.get(),
            first_nanos: raw.first_nanos.get(),
            late_nanos: raw.late_nanos.get(),
            last_nanos: raw.last_nanos.get(),
        };
        (body.arrived_late <= body.arrived && body.first_nanos <= body.last_nanos).then_some(body)
    }
}

/// Writes a name, cut at a character boundary, behind its length; returns the bytes taken.
pub(super) fn write_name(payload: &mut [u8], name: &str) -> usize {
    let longest = MAX_NAME_BYTES.min(name.len());
    let end = (0..=longest).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    payload[0] = end as u8;
    payload[1..=end].copy_from_slice(&name.as_bytes()[..end]);
    end + 1
}

/// Reads a name that [`write_name`] wrote; `None` if the payload ends too early.
pub(super) fn read_name(payload: &[u8]) -> Option<String> {
    let (&length, rest) = payload.split_first()?;
    Some(String::from_utf8_lossy(rest.get(..usize::from(length))?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_probe_is_read_as_it_was_written(task in 0..4_u8, payload_bytes: u16, number: u32, rest in prop::collection::vec(any::<u8>(), 0..9)) {
            let body = ProbeBody { task: Task::from_wire(task).expect("a task"), payload_bytes, number };
            let mut payload = vec![0; ProbeBody::BYTES];
            body.write(&mut payload);
            payload.extend(&rest);
            prop_assert_eq!(ProbeBody::read(&payload), Some((body, &rest[..])));
        }

        #[test]
        fn a_report_is_read_as_it_was_written(arrived in 0..9_u64, late in 0..9_u64, first in 0..9_u64, last in 0..9_u64) {
            let body = ReportBody { arrived, arrived_late: late, first_nanos: first, late_nanos: 5, last_nanos: last };
            let mut payload = [0; ReportBody::BYTES];
            body.write(&mut payload);
            let sane = late <= arrived && first <= last;
            prop_assert_eq!(ReportBody::read(&payload), sane.then_some(body));
        }

        #[test]
        fn arbitrary_bytes_never_panic(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            let _read = (ProbeBody::read(&payload), ReportBody::read(&payload), read_name(&payload));
        }

        #[test]
        fn a_name_is_cut_between_characters(name in "[a-zß€]{0,90}") {
            let mut payload = [0; MAX_NAME_BYTES + 1];
            let taken = write_name(&mut payload, &name);
            let read = read_name(&payload[..taken]).expect("whole");
            prop_assert!(name.starts_with(&read) && (read == name || read.len() > MAX_NAME_BYTES - 3));
        }
    }
}
