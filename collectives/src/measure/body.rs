//! Wire format of measurement frames: PROBE (request), ECHO (reply) and REPORT (counts). Capture
//! tools show the bodies as text.

use super::kind;
use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Kind;

/// Task of a PROBE's receiver. Ping: sends an equal number of bytes back, once the last frame has
/// arrived. Train: counts frames, and reports when a frame requests it. Ask: reports the count of
/// the prober's own train, or of the train of the address that follows. Flow: sends a train to the
/// address that follows, if the address behind it is the receiver's own. Bulk: receives a stream
/// like a receiver of a session, and reports the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Task {
    Invite = 0,
    Ping = 1,
    Train = 2,
    Ask = 3,
    Flow = 4,
    Bulk = 5,
}

impl Task {
    fn from_wire(value: u8) -> Option<Task> {
        let tasks = [
            Task::Invite,
            Task::Ping,
            Task::Train,
            Task::Ask,
            Task::Flow,
            Task::Bulk,
        ];
        tasks.into_iter().find(|&task| task as u8 == value)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeBody {
    pub task: Task,
    /// Ping: longest payload of the message's frames. Flow, bulk: payload of each frame. Else 0.
    pub payload_bytes: u16,
    /// Ping: bytes of the whole message. Train: first frame of the second count. Flow: number of
    /// frames. Bulk: the receiver's rank. Else 0.
    pub number: u32,
}

impl ProbeBody {
    /// Bytes of the fixed part: task, a reserved byte, the longest payload, the number.
    pub(super) const BYTES: usize = 8;

    pub(super) const fn plain(task: Task) -> Self {
        ProbeBody {
            task,
            payload_bytes: 0,
            number: 0,
        }
    }

    pub(super) fn write(&self, payload: &mut [u8]) {
        payload[..Self::BYTES].copy_from_slice(&self.encode().into_bytes());
    }

    pub(super) fn encode(&self) -> BodyWriter {
        let mut out = BodyWriter::default();
        out.u8(self.task as u8)
            .zeros(1)
            .u16(self.payload_bytes)
            .u32(self.number);
        out
    }

    pub(super) fn named(&self, name: &str) -> Vec<u8> {
        let mut out = self.encode();
        out.name(name);
        out.into_bytes()
    }

    pub(super) fn about(&self, hosts: &[MacAddr]) -> Vec<u8> {
        let mut out = self.encode();
        hosts.iter().for_each(|host| {
            out.bytes(&host.octets());
        });
        out.into_bytes()
    }

    pub(super) fn read(payload: &[u8]) -> Option<(ProbeBody, BodyReader<'_>)> {
        let mut from = BodyReader::new(payload);
        let (task, _) = (Task::from_wire(from.u8()?)?, from.u8()?);
        let body = ProbeBody {
            task,
            payload_bytes: from.u16()?,
            number: from.u32()?,
        };
        Some((body, from))
    }
}

/// Count of a train by its responder; `arrived_late` counts the frames from the second count's
/// first one on, which arrived at `late_nanos`. Times are of the responder's clock, so only
/// differences are meaningful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportBody {
    pub arrived: u64,
    pub arrived_late: u64,
    pub first_nanos: u64,
    pub late_nanos: u64,
    pub last_nanos: u64,
    pub worked_nanos: u64,
    pub computer: Option<u64>,
}

impl ReportBody {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = BodyWriter::default();
        out.u64(self.arrived)
            .u64(self.arrived_late)
            .u64(self.first_nanos)
            .u64(self.late_nanos)
            .u64(self.last_nanos);
        out.u64(self.worked_nanos);
        if let Some(computer) = self.computer {
            out.u64(computer);
        }
        out.into_bytes()
    }

    pub(super) fn decode(payload: &[u8]) -> Option<ReportBody> {
        let mut from = BodyReader::new(payload);
        let (arrived, arrived_late) = (from.u64()?, from.u64()?);
        let (first_nanos, late_nanos, last_nanos) = (from.u64()?, from.u64()?, from.u64()?);
        let (worked_nanos, computer) = (from.u64()?, from.u64());
        let body = ReportBody {
            arrived,
            arrived_late,
            first_nanos,
            late_nanos,
            last_nanos,
            worked_nanos,
            computer,
        };
        (arrived_late <= arrived && first_nanos <= last_nanos).then_some(body)
    }
}

pub(super) fn address(from: &mut BodyReader<'_>) -> Option<MacAddr> {
    from.array::<6>()
        .map(MacAddr::from)
        .filter(|&host| host != MacAddr::default())
}

pub(crate) fn is_well_formed(kind: Kind, body: &[u8]) -> bool {
    match kind {
        kind::PROBE | kind::ECHO => ProbeBody::read(body).is_some(),
        kind::REPORT => ReportBody::decode(body).is_some(),
        _ => false,
    }
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
