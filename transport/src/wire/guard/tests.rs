//! Tests of frame integrity: checksums, and authentication tags made with a key.

use super::*;
use crate::wire::{
    EtherType, EthernetHeader, Flags, Header, KEYED_VERSION, Kind, MacAddr, OtherVersion, Rank, Reject, StreamId,
    UnprovenFrame, VERSION, parse, parse_headers, parse_keyed,
};
use proptest::prelude::*;

const OVERHEAD: usize = 54;

fn host(last: u8) -> MacAddr {
    MacAddr::new(2, 0, 0, 0, 0, last)
}

fn link(from: u8, to: u8) -> EthernetHeader {
    EthernetHeader { source: host(from), destination: host(to), ether_type: EtherType::DEFAULT }
}

fn guard(secret: u8, hash: PayloadHash) -> Guard {
    let secret: [u8; 32] = std::array::from_fn(|at| secret + at as u8);
    let derive = |context| blake3::derive_key(context, &secret);
    Guard::keyed(&derive("ethbcast 7 tag"), &derive("ethbcast 7 hash"), hash)
}

fn any_guard() -> impl Strategy<Value = Guard> {
    prop::sample::select(vec![PayloadHash::Polyval, PayloadHash::Poly1305, PayloadHash::Blake3])
        .prop_map(|hash| guard(0, hash))
}

fn header() -> Header {
    Header {
        kind: Kind::DATA,
        session: 0x5e55_0001,
        stream: StreamId(1),
        rank: Rank::ROOT,
        epoch: 1,
        flags: Flags::LAST,
        sequence: 0,
        stamp: 1000,
    }
}

fn sealed(guard: &Guard, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; OVERHEAD], payload].concat();
    assert_eq!(guard.seal(&mut frame, link(1, 2), header, payload.len()), frame.len());
    frame
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes quoted in docs/protocol/frames.md §3.
#[test]
fn a_frame_and_what_a_relay_makes_of_it_are_the_documented_ones() {
    let guard = guard(0, PayloadHash::Polyval);
    let payload: [u8; 56] = std::array::from_fn(|at| at as u8);
    let mut frame = sealed(&guard, &header(), &payload);
    let hop = "02000000000202000000000188b54542070100000000000003e80101";
    assert_eq!(hex(&frame[..28]), hop);
    assert_eq!(hex(&frame[28..40]), "c87c6ac7cc82e535574db21d");
    assert_eq!(hex(&frame[40..54]), "5e55000100010038000000000000");
    let content = guard.parse(&frame).expect("it was sealed").content;
    assert_eq!(hex(content.bytes()), "d68b4fe30eff5aab2ebcf8f1b58e9bf5");

    let passed_on = Header { rank: Rank(1), stamp: 2000, ..header() };
    guard.seal_again(&mut frame, link(2, 3), &passed_on, payload.len(), content);
    assert_eq!(hex(&frame[28..40]), "d2ffd90edec7bc7ca9dc9920");
    assert_eq!((&frame[54..], guard.parse(&frame).expect("sealed").content == content), (&payload[..], true));
}

#[test]
fn each_host_takes_its_own_version_and_names_the_other() {
    let keyed = guard(0, PayloadHash::Polyval);
    let (tagged, plain) = (sealed(&keyed, &header(), b"text"), {
        let mut frame = [0; 60];
        Guard::Plain.seal(&mut frame, link(1, 2), &header(), 4);
        frame
    });
    let other = |version| OtherVersion { version, kind: Kind::DATA, source: host(1) };
    assert_eq!(parse(&tagged).err(), Some(Reject::Tagged(other(KEYED_VERSION))));
    assert_eq!(keyed.parse(&plain).err(), Some(Reject::Untagged(other(VERSION))));
    assert_eq!(guard(1, PayloadHash::Polyval).parse(&tagged).err(), Some(Reject::Damaged), "another secret");
    assert!(parse(&plain).is_ok() && keyed.parse(&tagged).is_ok());
    assert!(Reject::Tagged(other(7)).is_stranger() && Reject::Stranger.is_stranger() && !Reject::Damaged.is_stranger());
}

#[test]
fn a_secret_is_found_by_what_the_frame_says_before_anything_is_hashed() {
    let secrets = [guard(0, PayloadHash::Polyval), guard(9, PayloadHash::Blake3)];
    let frame = sealed(&secrets[1], &header(), b"text");
    let mut seen = None;
    let found = parse_keyed(&frame, |unproven| {
        let UnprovenFrame { source, destination, header, payload } = *unproven;
        seen = Some((source, destination, header, payload.to_vec()));
        Some(&secrets[1])
    });
    assert_eq!(seen, Some((host(1), host(2), header(), b"text".to_vec())));
    assert_eq!(found.map(|frame| frame.payload), Ok(&b"text"[..]));
    for none in [None, Some(&Guard::Plain)] {
        assert_eq!(parse_keyed(&frame, |_| none).err(), Some(Reject::Stranger));
    }
    assert_eq!(parse_keyed(&frame[..OVERHEAD + 3], |_| unreachable!("it is cut")).err(), Some(Reject::Short));
}

#[test]
fn a_changed_byte_cannot_be_hidden_and_headers_are_read_all_the_same() {
    let guard = guard(0, PayloadHash::Polyval);
    let mut frame = sealed(&guard, &header(), b"text");
    crate::wire::damage(&mut frame, 5);
    assert_eq!(frame[OVERHEAD..], *b"t\x30xt");
    assert_eq!(guard.parse(&frame).err(), Some(Reject::Damaged));
    let (read, bytes) = parse_headers(&frame[..OVERHEAD + 1]).expect("its headers are there");
    assert_eq!((read.header, read.payload, bytes), (header(), &b"t"[..], 4));
}

#[test]
fn a_tag_covers_the_header_of_any_link_and_guards_show_nothing() {
    let Guard::Keyed(secret) = guard(0, PayloadHash::Blake3) else { unreachable!("it is keyed") };
    let tag = |link: &[u8]| secret.tag(link, &[1; 14], &[2; 14], ContentChecksum::from([3; 16]));
    let tags = [tag(&[4; 36]), tag(&[4; 14]), tag(&[4; 12]), tag(&[5; 12])];
    assert!((0..4).all(|at| !tags[..at].contains(&tags[at])), "{tags:?}");
    let guards = [guard(0, PayloadHash::Blake3), guard(1, PayloadHash::Blake3), Guard::Plain];
    assert_eq!(format!("{guards:?}"), "[Keyed(Secret), Keyed(Secret), Plain]");
    assert!((0..3).all(|at| (0..3).all(|other| (guards[at] == guards[other]) == (at == other))));
    assert_eq!((guards[0].header_bytes(), guards[2].header_bytes()), (40, 32));
    assert_eq!(
        (guards[0].payload_bytes(1500), guards[2].payload_bytes(1500), guards[0].payload_bytes(9)),
        (1460, 1468, 0)
    );
}

proptest! {
    #[test]
    fn what_is_sealed_parses_to_the_same_even_behind_padding(
        guard in any_guard(), payload in prop::collection::vec(any::<u8>(), 0..2000), padding in 0..50_usize,
        stamp in any::<u32>(), seats in any::<[u8; 2]>(),
    ) {
        let (source, destination) = (host(1).with_port_id(seats[0]), host(2).with_port_id(seats[1]));
        let link = EthernetHeader { source, destination, ..link(1, 2) };
        let mut frame = [&[0; OVERHEAD], &payload[..], &vec![0xAA; padding]].concat();
        let written = Header { stamp, ..header() };
        guard.seal(&mut frame, link, &written, payload.len());
        let parsed = guard.parse(&frame).expect("own frames parse");
        prop_assert_eq!((parsed.header, parsed.payload, parsed.source), (written, &payload[..], link.source));
        // Another sender, stamp and urgency, as if the frame were new.
        let again = Header { rank: Rank(7), stamp: !stamp, flags: Flags::LAST.with(Flags::ACK_NOW), ..written };
        let (content, mut new) = (parsed.content, frame.clone());
        guard.seal_again(&mut frame, link, &again, payload.len(), content);
        guard.seal(&mut new, link, &again, payload.len());
        prop_assert_eq!(&frame, &new);
        prop_assert!(guard.parse(&new).is_ok_and(|frame| frame.content == content));
    }

    #[test]
    fn one_flipped_bit_anywhere_never_passes(
        guard in any_guard(), payload in prop::collection::vec(any::<u8>(), 0..200),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut frame = sealed(&guard, &header(), &payload);
        let bit = bit.index(frame.len() * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(guard.parse(&frame).is_err());
    }

    #[test]
    fn zeros_behind_a_payload_make_it_another(guard in any_guard(), bytes in 0..40_usize, more in 1..40_usize) {
        let [short, long] = [bytes, bytes + more].map(|bytes| sealed(&guard, &header(), &vec![0; bytes]));
        prop_assert_ne!(&short[28..40], &long[28..40]);
    }

    #[test]
    fn arbitrary_bytes_behind_right_headers_never_panic(
        guard in any_guard(), mut frame in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let start = sealed(&guard, &header(), b"");
        let kept = frame.len().min(18);
        frame[..kept].copy_from_slice(&start[..kept]);
        prop_assert!(guard.parse(&frame).is_err());
    }
}
