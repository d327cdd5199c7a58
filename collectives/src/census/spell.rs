//! Text form of census frames, for capture tools.

use super::kind::{HERE, WHO};
use super::{CensusReply, CensusRequest};
use ethbcast_transport::wire::{Fields, Frame, Spelled};

pub(crate) fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        WHO => ("WHO", CensusRequest::decode(frame.payload).map(question)),
        HERE => ("HERE", CensusReply::decode(frame.payload).map(answer)),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

fn question(question: CensusRequest) -> Fields {
    let CensusRequest { nonce, spread, group } = question;
    Fields::default()
        .text("nonce", format!("{nonce:016x}"))
        .number("spread_ms", spread.as_millis() as u64)
        .text("group", group)
}

fn answer(answer: CensusReply) -> Fields {
    let CensusReply { nonce, group, host, mtu_bytes, free_bytes, busy, bytes, size, about } = answer;
    let fields = Fields::default().text("nonce", format!("{nonce:016x}")).text("busy", busy.name());
    let fields = fields.number("mtu", mtu_bytes).perhaps("megabits", about.megabits_per_second);
    let fields = fields.perhaps("free_bytes", free_bytes).number("came_bytes", bytes).perhaps("size", size);
    let fields = fields.text("group", group).text("host", host).text("build", about.version);
    match about.last {
        None => fields,
        Some(last) => {
            let word = if last.is_delivered { "delivered" } else { "failed" };
            fields.text("last", word).number("seconds_ago", last.seconds_ago).text("source", last.source)
        }
    }
}
