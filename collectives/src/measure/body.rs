//! The bodies of PROBE, ECHO and REPORT frames.

use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::MacAddr;

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
    /// Report what has been counted: of the prober's own train, or of that of the address that follows.
    Ask = 3,
    /// Send a train to the address that follows, if the one behind it is one's own.
    Flow = 4,
    /// Take a stream, as a receiver of a session does, and report where it stands.
    Bulk = 5,
}

impl Task {
    fn from_wire(value: u8) -> Option<Task> {
        let tasks = [Task::Invite, Task::Ping, Task::Train, Task::Ask, Task::Flow, Task::Bulk];
        tasks.into_iter().find(|&task| task as u8 == value)
    }
}

/// The fixed part of a PROBE's body; padding, or a name, follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeBody {
    /// What is asked for.
    pub task: Task,
    /// Ping: the longest payload of a frame of the message. Flow, bulk: the payload of their frames. Else 0.
    pub payload_bytes: u16,
    /// Ping: the bytes of the whole message. Train: the frame from which on the second count goes. Flow: how many
    /// frames. Bulk: the receiver's rank. Else 0.
    pub number: u32,
}

impl ProbeBody {
    /// Bytes of the fixed part: task, a reserved byte, the longest payload, the number.
    pub(super) const BYTES: usize = 8;

    /// A body of which nothing but the task matters.
    pub(super) const fn plain(task: Task) -> Self {
        ProbeBody { task, payload_bytes: 0, number: 0 }
    }

    /// Writes it to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        payload[..Self::BYTES].copy_from_slice(&self.encode().into_bytes());
    }

    /// The fixed part, with nothing behind it yet.
    pub(super) fn encode(&self) -> BodyWriter {
        let mut out = BodyWriter::default();
        out.u8(self.task as u8).zeros(1).u16(self.payload_bytes).u32(self.number);
        out
    }

    /// The body of an invitation, or of the answer to one, with the name of the group or the host.
    pub(super) fn named(&self, name: &str) -> Vec<u8> {
        let mut out = self.encode();
        out.name(name);
        out.into_bytes()
    }

    /// A body about other hosts, whose addresses follow.
    pub(super) fn about(&self, hosts: &[MacAddr]) -> Vec<u8> {
        let mut out = self.encode();
        hosts.iter().for_each(|host| {
            out.bytes(&host.octets());
        });
        out.into_bytes()
    }

    /// Reads it, and returns what follows; `None` if it is malformed.
    pub(super) fn read(payload: &[u8]) -> Option<(ProbeBody, BodyReader<'_>)> {
        let mut from = BodyReader::new(payload);
        let (task, _) = (Task::from_wire(from.u8()?)?, from.u8()?);
        let body = ProbeBody { task, payload_bytes: from.u16()?, number: from.u32()? };
        Some((body, from))
    }
}

/// What a responder has counted of a train. Moments are those of its own clock: only their differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportBody {
    /// Frames that arrived.
    pub arrived: u64,
    /// Those from the second count's first frame on.
    pub arrived_late: u64,
    /// When the first frame came.
    pub first_nanos: u64,
    /// When the first one of the second count came.
    pub late_nanos: u64,
    /// When the one with the highest number came.
    pub last_nanos: u64,
    /// Processor time that the responder has had; 0 if it does not tell.
    pub worked_nanos: u64,
    /// What tells the responder's computer from others, if it does.
    pub computer: Option<u64>,
}

impl ReportBody {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.arrived).u64(self.arrived_late).u64(self.first_nanos).u64(self.late_nanos).u64(self.last_nanos);
        out.u64(self.worked_nanos);
        if let Some(computer) = self.computer {
            out.u64(computer);
        }
        out.into_bytes()
    }

    /// Reads it; `None` if it is malformed.
    pub(super) fn decode(payload: &[u8]) -> Option<ReportBody> {
        let mut from = BodyReader::new(payload);
        let (arrived, arrived_late) = (from.u64()?, from.u64()?);
        let (first_nanos, late_nanos, last_nanos) = (from.u64()?, from.u64()?, from.u64()?);
        let (worked_nanos, computer) = (from.u64()?, from.u64());
        let body = ReportBody { arrived, arrived_late, first_nanos, late_nanos, last_nanos, worked_nanos, computer };
        (arrived_late <= arrived && first_nanos <= last_nanos).then_some(body)
    }
}

/// The next address that follows a body; `None` if there is none, but padding.
pub(super) fn address(from: &mut BodyReader<'_>) -> Option<MacAddr> {
    from.array::<6>().map(MacAddr::from).filter(|&host| host != MacAddr::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_probe_is_read_as_it_was_written(
            task in 0..6_u8,
            payload_bytes: u16,
            number: u32,
            rest in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let body = ProbeBody { task: Task::from_wire(task).expect("a task"), payload_bytes, number };
            let mut payload = vec![0; ProbeBody::BYTES];
            body.write(&mut payload);
            payload.extend(&rest);
            let (read, from) = ProbeBody::read(&payload).expect("whole");
            prop_assert_eq!((read, from.rest()), (body, &rest[..]));
        }

        #[test]
        fn a_report_is_read_as_it_was_written(
            (arrived, late) in (0..9_u64, 0..9_u64),
            (first, last) in (0..9_u64, 0..9_u64),
            computer: Option<u64>,
        ) {
            let body = ReportBody {
                arrived,
                arrived_late: late,
                first_nanos: first,
                late_nanos: 5,
                last_nanos: last,
                worked_nanos: 9,
                computer,
            };
            let sane = late <= arrived && first <= last;
            prop_assert_eq!(ReportBody::decode(&body.encode()), sane.then_some(body));
        }

        #[test]
        fn arbitrary_bytes_never_panic(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            let _read = (ProbeBody::read(&payload).map(|(_, mut from)| from.text()), ReportBody::decode(&payload));
        }

        #[test]
        fn a_name_travels_whole(name in "[a-zß€]{0,85}") {
            let payload = ProbeBody::plain(Task::Invite).named(&name);
            let read = ProbeBody::read(&payload).and_then(|(_, mut from)| from.text()).expect("whole");
            prop_assert_eq!(name, read);
        }
    }
}
