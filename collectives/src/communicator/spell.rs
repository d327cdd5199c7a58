//! Text form of the frames of a group without a root, for capture tools.

use super::body::{CallBody, Notice};
use super::failure::{Cause, Failure};
use super::kind;
use super::network::SpreadMessage;
use ethbcast_transport::wire::{Fields, Frame, Rank, Spelled};

pub(crate) fn spell(frame: &Frame<'_>) -> Option<Spelled> {
    let (kind, fields) = match frame.header.kind {
        kind::CALL => ("CALL", CallBody::decode(frame.payload).map(|body| call(&body))),
        kind::ALIVE => ("ALIVE", notice(frame.payload)),
        kind::BYE => ("BYE", notice(frame.payload)),
        _ => return None,
    };
    Some(Spelled { kind, fields })
}

fn call(body: &CallBody) -> Fields {
    let CallBody { nonce, size, mtu_bytes, preset, joined, digest, group, host, network } = body;
    let fields = Fields::default().text("nonce", format_args!("{nonce:016x}")).number("ranks", *size);
    let fields = fields.number("mtu", *mtu_bytes).number("preset", *preset).number("joined", *joined);
    let fields = fields.hex("digest", digest).text("group", group).text("host", host);
    let SpreadMessage { told, unfit, list, network, piece } = network;
    let fields = fields.number("told", *told).number("unfit", *unfit).text("list", format_args!("{list:016x}"));
    let fields = fields.text("network", format_args!("{network:016x}"));
    match piece {
        Some(piece) => fields.number("part", piece.at).number("parts", piece.count),
        None => fields,
    }
}

fn notice(payload: &[u8]) -> Option<Fields> {
    // The number of ranks is unknown here, so any rank is accepted.
    let Notice { calls, failure, waits_for, moved, repeats } = Notice::decode(payload, Rank::NONE.0)?;
    let fields = Fields::default().number("repeats", repeats).perhaps("waits_for", waits_for.map(|rank| rank.0));
    let mut fields = fields.number("moved", moved);
    if let Some(newest) = calls[0] {
        fields = fields.text("call", newest);
    }
    Some(match failure {
        Some(failure) => fields.and(self::failure(failure)),
        None => fields,
    })
}

fn failure(Failure { from, cause }: Failure) -> Fields {
    let (word, rank) = match cause {
        Cause::Mismatch { one, .. } => ("mismatch", one.0),
        Cause::Gone { rank } => ("gone", rank),
        Cause::Left { rank } => ("left", rank),
        Cause::Abandoned { rank, .. } => ("abandoned", rank),
        Cause::Garbled { rank } => ("garbled", rank),
        Cause::Cut { one, .. } => ("cut", one),
        Cause::Deaf { rank } => ("deaf", rank),
    };
    Fields::default().text("failure", word).number("about", rank.0).number("from", from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicator::signature::{Operation, Signature};
    use ethbcast_transport::MacAddr;
    use ethbcast_transport::wire::{ContentChecksum, Flags, Header, StreamId};

    #[test]
    fn a_member_that_leaves_says_what_it_called_and_why_nothing_goes_on() {
        let call = Signature { number: 4, operation: Operation::Barrier, root: Rank(0), bytes: 0 };
        let failure = Some(Failure { from: 5, cause: Cause::Gone { rank: Rank(700) } });
        let told = Notice { calls: [Some(call), None, None, None], failure, waits_for: None, moved: 9, repeats: 2 };
        let (stream, rank, flags) = (StreamId(0), Rank(1), Flags::default());
        let header = Header { kind: kind::BYE, session: 1, stream, rank, epoch: 0, flags, sequence: 0, stamp: 0 };
        let payload = told.encode();
        let spelled =
            spell(&Frame { source: MacAddr::ZERO, header, payload: &payload, content: ContentChecksum::default() });
        let fields = Fields::default().number("repeats", 2_u64).number("moved", 9_u64).text("call", "barrier #4");
        let fields = fields.text("failure", "gone").number("about", 700_u64).number("from", 5_u64);
        assert_eq!(spelled, Some(Spelled { kind: "BYE", fields: Some(fields) }));
    }
}
