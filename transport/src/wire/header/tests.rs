//! Tests of the frame header: encoding, checksum, and arbitrary bytes.

use super::*;
use proptest::prelude::*;

fn ethernet() -> EthernetHeader {
    EthernetHeader {
        source: MacAddr::new(2, 0, 0, 0, 0, 1).with_port_id(3),
        destination: MacAddr::new(2, 0, 0, 0, 0, 2).with_port_id(4),
        ether_type: EtherType::DEFAULT,
    }
}

fn header() -> impl Strategy<Value = Header> {
    let kind = prop::sample::select(vec![
        Kind::DATA,
        Kind::ACK,
        Kind::HEARTBEAT,
        Kind(19),
        Kind(24),
    ]);
    (
        kind,
        any::<u32>(),
        any::<u16>(),
        any::<u16>(),
        any::<u8>(),
        any::<u8>(),
        0..=MAX_SEQUENCE,
        any::<u32>(),
    )
        .prop_map(
            |(kind, session, stream, rank, epoch, flags, sequence, stamp)| Header {
                kind,
                session,
                stream: StreamId(stream),
                rank: Rank(rank),
                epoch,
                flags: Flags(flags),
                sequence,
                stamp,
            },
        )
}

fn sealed(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; OVERHEAD_BYTES + payload.len()];
    buffer[OVERHEAD_BYTES..].copy_from_slice(payload);
    let length = seal(&mut buffer, ethernet(), header, payload.len());
    assert_eq!(length, buffer.len());
    buffer
}

proptest! {
    #[test]
    fn a_sealed_frame_parses_equal_even_with_padding(
        header in header(), payload in prop::collection::vec(any::<u8>(), 0..2000), padding in 0..50usize,
    ) {
        let mut frame = sealed(&header, &payload);
        frame.extend(std::iter::repeat_n(0xAA, padding));
        let parsed = parse(&frame).expect("own frames parse");
        prop_assert_eq!(parsed.header, header);
        prop_assert_eq!(parsed.payload, &payload[..]);
        prop_assert_eq!(parsed.source, ethernet().source);
        let cut = OVERHEAD_BYTES + payload.len() / 2;
        let (cut, bytes) = parse_headers(&frame[..cut]).expect("its headers are there");
        prop_assert_eq!((cut.header, cut.payload, bytes), (header, &payload[..payload.len() / 2], payload.len()));
        prop_assert_eq!(destination(&frame), Some(ethernet().destination));
    }

    #[test]
    fn a_forwarded_frame_is_sealed_like_a_new_one(
        header in header(), payload in prop::collection::vec(any::<u8>(), 0..2000), rank in any::<u16>(),
        stamp in any::<u32>(), way in any::<u8>(),
    ) {
        let frame = sealed(&header, &payload);
        let content = parse(&frame).expect("own frames parse").content;
        // Another sender, stamp and urgency; equal stream, number and end.
        let flags = Flags(header.flags.0 & Flags::SEALED.0 | way & !Flags::SEALED.0);
        let header = Header { rank: Rank(rank), stamp, flags, epoch: way, ..header };
        let link = EthernetHeader { source: ethernet().destination, ..ethernet() };
        let (mut again, mut new) = (frame.clone(), frame);
        seal(&mut new, link, &header, payload.len());
        let length = Guard::Plain.seal_again(&mut again, link, &header, payload.len(), content);
        prop_assert_eq!((again.len(), &again), (length, &new));
        prop_assert_eq!(parse(&again).expect("it parses").content, content);
    }

    #[test]
    fn one_flipped_bit_anywhere_never_passes(
        header in header(), payload in prop::collection::vec(any::<u8>(), 0..200),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut frame = sealed(&header, &payload);
        let bit = bit.index(frame.len() * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parse(&frame).is_err());
    }

    #[test]
    fn a_damaged_payload_passes_for_a_sound_one(
        header in header(), payload in prop::collection::vec(any::<u8>(), 0..200), byte in any::<u16>(),
    ) {
        let mut frame = sealed(&header, &payload);
        damage(&mut frame, byte.into());
        let parsed = parse(&frame).expect("the checksum fits");
        let differ = parsed.payload.iter().zip(&payload).filter(|(new, old)| new != old).count();
        prop_assert_eq!((parsed.header, parsed.payload.len()), (header, payload.len()));
        prop_assert_eq!(differ, payload.len().min(1));
    }

    #[test]
    fn arbitrary_bytes_never_panic(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&frame).is_err() && parse_headers(&frame).is_err());
    }
}

#[test]
fn the_layout_on_the_wire_is_the_documented_one() {
    let header = Header {
        kind: Kind::DATA,
        session: 0x01020304,
        stream: StreamId(0x0506),
        rank: Rank(0x0708),
        epoch: 9,
        flags: Flags::LAST,
        sequence: 0x0C0D0E0F1011,
        stamp: 0x12131415,
    };
    let frame = sealed(&header, b"x");
    assert_eq!(
        frame[..14],
        [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xB5]
    );
    assert_eq!(
        frame[14..28],
        [0x45, 0x42, 6, 1, 7, 8, 4, 3, 0x12, 0x13, 0x14, 0x15, 9, 1]
    );
    assert_eq!(
        frame[32..46],
        [1, 2, 3, 4, 5, 6, 0, 1, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11]
    );
    assert_eq!(frame[46..], *b"x");
}

/// Bytes quoted in docs/protocol/frames.md §3.
#[test]
fn the_trailer_of_an_empty_stream_is_passed_on_as_documented() {
    let header = Header {
        kind: Kind::DATA,
        session: 0x5e55_0001,
        stream: StreamId(1),
        rank: Rank::ROOT,
        epoch: 1,
        flags: Flags::LAST,
        sequence: 0,
        stamp: 1000,
    };
    let host = |last| MacAddr::new(2, 0, 0, 0, 0, last);
    let link = |from, to| EthernetHeader {
        source: host(from),
        destination: host(to),
        ether_type: EtherType::DEFAULT,
    };
    let digest = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    let written = |frame: &[u8]| {
        frame
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let mut frame = vec![0; OVERHEAD_BYTES + 40];
    for (at, byte) in frame[OVERHEAD_BYTES + 8..].iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digest[2 * at..2 * at + 2], 16).expect("two digits");
    }
    seal(&mut frame, link(1, 2), &header, 40);
    let sealed = ["5e550001000100280000000000000000000000000000", digest].concat();
    let hop = "02000000000202000000000188b545420601000000000000".to_owned() + "03e80101";
    assert_eq!(written(&frame), [&hop, "1c5cf16e", &sealed].concat());

    let content = parse(&frame).expect("it was sealed").content;
    assert_eq!(content.crc(), 0x4ccf_b492);
    let header = Header {
        rank: Rank(1),
        stamp: 2000,
        ..header
    };
    Guard::Plain.seal_again(&mut frame, link(2, 3), &header, 40, content);
    let hop = "02000000000302000000000288b545420601000100000000".to_owned() + "07d00101";
    assert_eq!(written(&frame), [&hop, "66d47702", &sealed].concat());
}

#[test]
fn a_frame_of_another_version_says_which_from_whom_and_what_it_is() {
    let header = Header {
        kind: Kind(17),
        session: 1,
        stream: StreamId(0),
        rank: Rank::NONE,
        epoch: 0,
        flags: Flags::default(),
        sequence: 0,
        stamp: 0,
    };
    let mut frame = sealed(&header, b"old");
    frame[16] = VERSION - 1;
    let other = OtherVersion {
        version: VERSION - 1,
        kind: Kind(17),
        source: ethernet().source.with_port_id(0),
    };
    assert_eq!(parse(&frame).err(), Some(Reject::Version(other)));
    frame[15] ^= 1;
    assert_eq!(parse(&frame).err(), Some(Reject::Foreign));
}

#[test]
fn bits_are_named_from_the_lowest_on_and_unknown_ones_are_not() {
    let named = |bits: u8| Flags(bits).names().collect::<Vec<_>>();
    assert_eq!(
        named(0b1111_1111),
        ["LAST", "ACK_NOW", "RESENT", "FLUSH", "REPORT"]
    );
    assert_eq!(
        (named(0b1001_0100), named(0)),
        (vec!["RESENT", "REPORT"], vec![])
    );
    assert_eq!(
        named(Flags::ACK_NOW.with(Flags::FLUSH).0),
        ["ACK_NOW", "FLUSH"]
    );
}

fn older_frame() -> Vec<u8> {
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
    let header = [
        [0x45, 0x42, 5, 17, 0x5E, 0x55, 0, 1],
        [0, 0, 0xFF, 0xFF, 0, 0, 0, 3],
        [0; 8],
        [0; 8],
    ]
    .concat();
    let mut frame = [&ethernet[..], &header, b"old"].concat();
    frame[OLDER_CHECKSUM].copy_from_slice(&CHECKSUM_THEN);
    frame
}

const CHECKSUM_THEN: [u8; 4] = [0xA9, 0x54, 0x8C, 0x06];

#[test]
fn whole_frames_of_older_versions_are_recognised() {
    let mut padded = older_frame();
    padded.extend([0xAA; 10]);
    assert_eq!(older_payload(&padded), Some(&b"old"[..]));
    assert_eq!(older_payload(&older_frame()[..48]), None, "cut");
    for at in [
        0,
        OLDER_VERSION_AT,
        OLDER_PAYLOAD_BYTES.end - 1,
        OLDER_CHECKSUM.start,
        OVERHEAD_BYTES,
    ] {
        let mut damaged = older_frame();
        damaged[at] ^= 8;
        assert_eq!(older_payload(&damaged), None, "byte {at}");
    }
}
