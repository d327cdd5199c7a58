//! Measurement frames as named fields, for `ethbcast dump`.

use super::body::{ProbeBody, ReportBody, Task, address};
use super::kind;
use ethbcast_transport::wire::{Fields, Frame, Spelled};

pub(crate) fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        kind::PROBE => ("PROBE", probe(frame.payload, "group")),
        kind::ECHO => ("ECHO", probe(frame.payload, "host")),
        kind::REPORT => ("REPORT", report(frame.payload)),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

/// Decodes a PROBE or ECHO. An invitation names a group, its reply a host.
fn probe(payload: &[u8], named: &'static str) -> Option<Fields> {
    let (ProbeBody { task, payload_bytes, number }, mut rest) = ProbeBody::read(payload)?;
    let word = match task {
        Task::Invite => "invite",
        Task::Ping => "ping",
        Task::Train => "train",
        Task::Ask => "ask",
        Task::Flow => "flow",
        Task::Bulk => "bulk",
    };
    let fields = Fields::default().text("task", word).number("payload", payload_bytes).number("number", number);
    Some(match task {
        Task::Invite => fields.text(named, rest.text()?),
        Task::Flow => {
            let [receiver, sender] = [address(&mut rest)?, address(&mut rest)?];
            fields.text("receiver", receiver.to_string()).text("sender", sender.to_string())
        }
        Task::Ask => match address(&mut rest) {
            Some(of) => fields.text("sender", of.to_string()),
            None => fields,
        },
        Task::Ping | Task::Train | Task::Bulk => fields,
    })
}

fn report(payload: &[u8]) -> Option<Fields> {
    let ReportBody { arrived, arrived_late, first_nanos, late_nanos, last_nanos, worked_nanos, computer } =
        ReportBody::decode(payload)?;
    let fields = Fields::default().number("arrived", arrived).number("arrived_late", arrived_late);
    let fields = fields.number("first_ns", first_nanos).number("late_ns", late_nanos).number("last_ns", last_nanos);
    let fields = fields.number("worked_ns", worked_nanos);
    Some(match computer {
        Some(computer) => fields.number("computer", computer),
        None => fields,
    })
}
