//! Views on the wire.

use super::*;
use crate::session::message::Message;
use ethbcast_transport::wire::Rank;

pub(in crate::session) fn chain(count: u16) -> View {
    let member = |rank: u16| ViewMember {
        host: format!("n{rank}"),
        mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
        nonce: u64::from(rank) * 7,
        parent: rank.checked_sub(1).map(Rank),
        order: 0,
        standing: Standing::InPlace,
    };
    View {
        epoch: 3,
        via: Via::Kary(5),
        segment_frames: 7,
        policy: Policy::HolesAllowed,
        push_frames: None,
        payload_bytes: 1468,
        size: None,
        content: ContentKind::Tree,
        members: (0..count).map(member).collect(),
    }
}

#[test]
fn a_view_survives_being_cut_into_parts_that_arrive_backwards_and_twice() {
    let view = chain(200);
    let parts: Vec<ViewPart> = view.parts(300).collect();
    assert!(parts.len() > 10);
    let mut assembler = Assembler::default();
    let mut complete = None;
    for part in parts.iter().rev().chain(&parts) {
        assert!(Message::View(part.clone()).encode().1.len() <= 300);
        complete = assembler.take(part).or(complete);
    }
    assert_eq!(complete, Some(view));
}

#[test]
fn a_view_whose_parents_go_in_a_circle_is_refused() {
    let mut view = chain(5);
    view.members[2].parent = Some(Rank(4));
    assert_eq!(View::decode(&view.encode()), None);
    view.members[2].parent = Some(Rank(9));
    assert_eq!(View::decode(&view.encode()), None);
}

#[test]
fn the_papers_protocols_survive_the_journey() {
    for (policy, push_frames, strict) in
        [(Policy::HolesAllowed, None, 0), (Policy::InOrderOnly, None, 1), (Policy::InOrderOnly, Some(9), 10)]
    {
        let view = View { policy, push_frames, ..chain(2) };
        assert_eq!(view.encode()[10], strict);
        assert_eq!(View::decode(&view.encode()), Some(view));
    }
}

/// docs/protocol.md §6 quotes these bytes.
#[test]
fn the_documented_example_is_what_is_sent() {
    let mac = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let member = |host: &str, mac, nonce, parent| ViewMember {
        host: host.to_owned(),
        mac,
        nonce,
        parent,
        order: 0,
        standing: Standing::InPlace,
    };
    let members = vec![member("n0", mac(1), 0, None), member("n1", mac(2), 0x1122_3344_5566_7788, Some(Rank::ROOT))];
    let (content, size) = (ContentKind::Stream, Some(0));
    let view = View { epoch: 1, via: Via::Chain, segment_frames: 1, size, content, members, ..chain(0) };
    let hex: Vec<String> = view.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let documented = [
        "00 00 00 01 01 00 00 00 00 01 00 05 bc 00 00 00 00 00 00 00 00",
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02",
        "02 00 00 00 00 01 00 00 00 00 00 00 00 00 ff ff 00 00 01 02 6e 30",
        "02 00 00 00 00 02 11 22 33 44 55 66 77 88 00 00 00 00 01 02 6e 31",
    ];
    assert_eq!(hex.join(" "), documented.join(" "));
    assert_eq!(blake3::Hash::from(view.digest()).to_hex().as_str()[..8], *"32b60bc3");
}
