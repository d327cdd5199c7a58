//! Tests of streams with interleaved hashes: encoded, checked, and damaged at any byte.

use super::*;
use crate::keys::{ContentCipher, SIGNATURE_BYTES, Secret, SessionName, Signer};
use crate::session::application::{
    Again, Collected, MemoryContent as InMemory, Next, Sink, SinkState, Source, VerifiedSink,
};
use crate::session::message::{ContentKind, Outcome, Trailer};
use crate::session::receiver::{Arrival, ReceiverEvent};
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::{PayloadHash, Rank};
use proptest::prelude::*;

const NOW: Instant = Instant::START;

fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes as u64;
    let mut content = vec![0; bytes];
    for word in content.chunks_mut(8) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let length = word.len();
        word.copy_from_slice(&state.to_be_bytes()[..length]);
    }
    content
}

pub(crate) fn encoded(content: &[u8]) -> (Vec<u8>, Trailer) {
    encoded_in(ChunkSize::DEFAULT, content)
}

pub(super) fn encoded_in(chunk: ChunkSize, content: &[u8]) -> (Vec<u8>, Trailer) {
    encoded_by(chunk, ContentCipher::default(), content)
}

fn encoded_by(chunk: ChunkSize, cipher: ContentCipher, content: &[u8]) -> (Vec<u8>, Trailer) {
    let chunk = chunk.signed(cipher.is_keyed());
    let (mut encoder, mut stream) = (Encoder::new(chunk).ciphered(cipher), Vec::new());
    for part in content.chunks(SPAN_BYTES) {
        let mut span = SpanBuffer::empty(chunk, SpanBuffer::default());
        span.room()[..part.len()].copy_from_slice(part);
        span.filled(part.len());
        encoder.seal(&mut span);
        stream.extend_from_slice(span.as_bytes());
    }
    (stream, encoder.trailer())
}

pub(super) fn sizes() -> impl Strategy<Value = ChunkSize> {
    (-2_i8..=1).prop_map(|doublings| ChunkSize::of_doublings(doublings).expect("there are four"))
}

fn lengths() -> impl Strategy<Value = usize> {
    let borders = prop::sample::select(vec![
        0,
        1024,
        CHUNK_BYTES,
        5 * CHUNK_BYTES,
        SPAN_BYTES,
        2 * SPAN_BYTES,
    ]);
    let around =
        (borders, -2_i64..=2).prop_map(|(border, off)| (border as i64 + off).max(0) as usize);
    prop_oneof![around, 0..2 * SPAN_BYTES + CHUNK_BYTES, 0..3 * CHUNK_BYTES]
}

fn invited(chunk: ChunkSize) -> Checked<Collected> {
    invited_by(chunk, ContentCipher::default())
}

fn invited_by(chunk: ChunkSize, cipher: ContentCipher) -> Checked<Collected> {
    begun(Collected::default(), chunk, cipher)
}

fn begun<K: Sink>(content: K, chunk: ChunkSize, cipher: ContentCipher) -> Checked<K> {
    let mut sink = Checked::checking(content);
    let (host, source, content) = ("n0".to_owned(), "a file".to_owned(), ContentKind::Stream);
    sink.on_event(
        NOW,
        &ReceiverEvent::Invited {
            host,
            source,
            size: None,
            content,
            chunk,
        },
    );
    let (rank, receivers, via) = (Rank(1), 1, Via::Chain);
    sink.on_event(
        NOW,
        &ReceiverEvent::Started {
            rank,
            receivers,
            via,
            size: None,
            selective: false,
            cipher,
        },
    );
    sink
}

fn received(
    mut sink: Checked<Collected>,
    stream: &[u8],
    pieces: &[usize],
    (truth, trailer): (&[u8], Trailer),
) -> Checked<Collected> {
    let (mut at, mut turn) = (0, 0);
    while at < stream.len() {
        mend(&mut sink, truth);
        assert!(sink.has_room(), "it has been given what it wanted");
        let end = (at + pieces[turn % pieces.len()]).min(stream.len());
        sink.take(NOW, Arrival::Bytes(&stream[at..end]));
        (at, turn) = (end, turn + 1);
    }
    sink.take(NOW, Arrival::End(trailer));
    mend(&mut sink, truth);
    sink
}

fn mend(sink: &mut Checked<Collected>, truth: &[u8]) {
    while let Some(wanted) = sink.missing(NOW).wanted {
        let (from, to) = (wanted.start as usize, wanted.end as usize);
        sink.fetched(NOW, Ok((wanted.start, &truth[from..to - 1])));
        assert_eq!(
            sink.missing(NOW).wanted,
            Some(wanted),
            "the last byte is lacking"
        );
        sink.fetched(NOW, Ok((from as u64, &truth[from..to])));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_content_comes_back_from_any_pieces_with_the_digest_of_the_whole(
        chunk in sizes(),
        length in lengths(),
        pieces in prop::collection::vec(1_usize..200_000, 1..4),
    ) {
        let content = content(length);
        let (stream, trailer) = encoded_in(chunk, &content);
        prop_assert_eq!(trailer.bytes, stream.len() as u64);
        prop_assert_eq!(trailer.digest, *blake3::hash(&content).as_bytes());
        let mut sink = received(invited(chunk), &stream, &pieces, (&stream, trailer));
        let verdict = sink.turn(NOW).verdict.expect("all has come");
        prop_assert_eq!(verdict.outcome, Outcome::Verified);
        prop_assert_eq!((verdict.bytes, verdict.digest), (trailer.bytes, trailer.digest));
        prop_assert!(sink.content().bytes() == content && sink.all_damages().is_empty());
    }

    #[test]
    fn any_damage_is_found_asked_for_and_mended(
        chunk in sizes(),
        length in lengths().prop_filter("nothing to damage", |length| *length > 0),
        places in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        pieces in prop::collection::vec(1000_usize..100_000, 1..3),
    ) {
        let content = content(length);
        let (truth, trailer) = encoded_in(chunk, &content);
        let mut stream = truth.clone();
        places.iter().for_each(|(place, bits)| stream[place.index(truth.len())] ^= bits);
        let damaged = stream != truth;
        let mut sink = received(invited(chunk), &stream, &pieces, (&truth, trailer));
        prop_assert!(sink.content().bytes() == content);
        prop_assert_eq!(sink.turn(NOW).verdict.expect("all is mended").outcome, Outcome::Verified);
        prop_assert_eq!(!sink.all_damages().is_empty(), damaged);
        prop_assert!(sink.all_damages().len() <= places.len());
    }

    #[test]
    fn any_part_of_the_stream_is_made_again_from_the_content(
        chunk in sizes(),
        length in lengths(),
        part in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let content = content(length);
        let (stream, _) = encoded_in(chunk, &content);
        let (one, other) = (part.0.index(stream.len() + 1), part.1.index(stream.len() + 1));
        let (from, to) = (one.min(other), one.max(other));
        let mut source = VerifiedSource::of(InMemory::new(&content[..])).chunked(chunk);
        let mut pushed = Vec::new();
        while let Next::Bytes(bytes) = source.next(NOW, false) {
            let count = bytes.len().min(300_001);
            pushed.extend_from_slice(&bytes[..count]);
            source.advance(count);
        }
        prop_assert!(pushed == stream);
        match source.read_again(NOW, from as u64, to - from) {
            Again::Bytes(bytes) => prop_assert!(bytes == &stream[from..to]),
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert!(matches!(source.read_again(NOW, from as u64, stream.len() - from + 1), Again::Impossible(_)));
    }

    #[test]
    fn places_are_arithmetic(chunk in sizes(), length in 0_u64..1 << 40, off in 0_u64..1 << 30) {
        let form = Form::Verified(chunk);
        let stream = form.stream_bytes(length);
        prop_assert_eq!(form.content_bytes(stream), length);
        let (hash_list, share) = (24 + 32 * chunk.in_span() as u64, chunk.bytes() as u64 / 35);
        prop_assert!(stream - length <= length / share + 56 + 32, "at 64 KiB a little more than 1/2000");
        let part = form.content_bytes(stream.saturating_sub(off));
        prop_assert!(part <= length && part + off + hash_list >= length);
        prop_assert!(form.content_bytes(stream + off) >= length);
    }
}

#[test]
fn a_chunk_damaged_three_times_is_given_up_and_named() {
    let (truth, trailer) = encoded(&content(3 * SPAN_BYTES));
    let place = SpanPlace::at(
        ChunkSize::DEFAULT,
        truth.len() as u64 / 2,
        truth.len() as u64,
    )
    .expect("a span");
    let mut stream = truth.clone();
    stream[place.begin() as usize + place.chunk(3).start] ^= 1;
    let mut sink = Checked::checking(Collected::default());
    stream
        .chunks(9000)
        .for_each(|frame| sink.take(NOW, Arrival::Bytes(frame)));
    sink.take(NOW, Arrival::End(trailer));
    for times in 1..=3 {
        let wanted = sink.missing(NOW).wanted.expect("it is damaged");
        assert_eq!(wanted.end - wanted.start, CHUNK_BYTES as u64);
        assert_eq!(
            (sink.all_damages().len(), sink.turn(NOW).verdict.is_none()),
            (times, true)
        );
        sink.fetched(
            NOW,
            Ok((
                wanted.start,
                &stream[wanted.start as usize..wanted.end as usize],
            )),
        );
    }
    assert_eq!(sink.missing(NOW).wanted, None);
    let verdict = sink.turn(NOW).verdict.expect("it is given up");
    assert_eq!(verdict.outcome, Outcome::Damaged);
    assert_eq!(
        verdict.text,
        "64 KiB at byte 1245184 came damaged 4 times: a host or cable on the way is bad; send again without it"
    );
    assert_eq!(
        sink.content().bytes().len(),
        SPAN_BYTES,
        "nothing from behind the damage, nor of it"
    );
}

#[test]
fn unavailable_bytes_fail_with_the_reason() {
    let (mut stream, trailer) = encoded(&content(100_000));
    stream[10] ^= 1;
    let mut sink = Checked::checking(Collected::default());
    sink.take(NOW, Arrival::Bytes(&stream));
    sink.take(NOW, Arrival::End(trailer));
    assert_eq!(sink.missing(NOW).wanted, Some(0..24 + 2 * 32));
    sink.fetched(NOW, Err("nobody has them"));
    let text = sink.turn(NOW).verdict.expect("it is given up").text;
    let expected = "the hash list of 100000 bytes at byte 0 came damaged, and cannot be fetched again: nobody has them";
    assert_eq!(text, expected);
}

#[test]
fn a_stream_without_valid_hash_lists_is_damaged_and_a_contradicting_end_is_left_to_the_root() {
    let bytes = content(24 + 32);
    let mut sink = Checked::checking(Collected::default());
    sink.take(NOW, Arrival::Bytes(&bytes));
    let trailer = Trailer {
        bytes: 56,
        digest: *blake3::hash(&bytes).as_bytes(),
    };
    sink.take(NOW, Arrival::End(trailer));
    let text = sink.turn(NOW).verdict.expect("no span is so long").text;
    assert!(
        text.contains("not of the form that a sender of files sends"),
        "{text}"
    );
    let (stream, trailer) = encoded(&content(1000));
    for wrong in [
        Trailer {
            bytes: trailer.bytes + 1,
            ..trailer
        },
        Trailer {
            digest: [0; 32],
            ..trailer
        },
    ] {
        let mut sink = Checked::checking(Collected::default());
        sink.take(NOW, Arrival::Bytes(&stream));
        sink.take(NOW, Arrival::End(wrong));
        let verdict = sink.turn(NOW).verdict.expect("all has come");
        assert!(sink.end_is_damaged());
        assert_eq!(
            (verdict.outcome, verdict.bytes, verdict.digest),
            (Outcome::Verified, trailer.bytes, trailer.digest)
        );
    }
}

#[test]
fn the_example_of_the_protocol_is_true() {
    let bytes: Vec<u8> = (0..70_000_u32).map(|at| (at % 251) as u8).collect();
    let (stream, trailer) = encoded(&bytes);
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(stream.len(), 70_088);
    let hash_list = "000111700000000088da791e722ac59740d9a44402e384ad99f1c79d4bab7449a0c2da1fafb91fb7620a39052da00f42\
                  2ba1183399877919a28233b275e3de519415b2d1f436f9f6ef7243ee4e0f000c20fd24094b4c362c";
    assert_eq!(hex(&stream[..88]), hash_list);
    assert!(stream[88..] == bytes);
    assert_eq!(
        hex(&trailer.digest),
        "5a8ef06db0fc4e6c27f6e4a44e333916934b860d747d8d65f56df4597f0421bf"
    );
}

fn cipher(hash: PayloadHash) -> ContentCipher {
    ContentCipher::new(&Secret::new([9; 32]), hash)
}

fn enciphered(content: &[u8], hash: PayloadHash) -> (Vec<u8>, Trailer) {
    encoded_by(ChunkSize::DEFAULT, cipher(hash), content)
}

/// Returns what protects a content at its sender and at a receiver.
fn signing(cipher: ContentCipher) -> [ContentCipher; 2] {
    let (signer, session) = (Signer::new(&Secret::new([7; 32])), SessionName([1; 32]));
    [
        cipher.clone().signed_by(signer.clone(), session),
        cipher.sent_by(signer.public(), session),
    ]
}

#[test]
fn an_encrypted_stream_is_as_long_and_each_damage_to_it_costs_one_piece() {
    let content = content(SPAN_BYTES + 3 * CHUNK_BYTES + 17);
    let (plain, plain_trailer) = encoded(&content);
    for hash in [PayloadHash::Polyval, PayloadHash::Poly1305] {
        let (stream, trailer) = enciphered(&content, hash);
        assert_eq!((stream.len(), trailer), (plain.len(), plain_trailer));
        let whole = ChunkSize::DEFAULT.whole_bytes();
        let mut damaged = stream.clone();
        // A hash list, its seal, and chunks, of which two are swapped.
        let first = SpanPlace::new(ChunkSize::DEFAULT, 0, SPAN_BYTES);
        let (one, two) = (first.chunk(4), first.chunk(5));
        for (to, from) in [(one.clone(), two.clone()), (two.clone(), one.clone())] {
            damaged[to].copy_from_slice(&stream[from]);
        }
        [
            20,
            first.hash_list_bytes() - 1,
            first.chunk(9).start + 7,
            whole + 9,
        ]
        .into_iter()
        .for_each(|at| damaged[at] ^= 1);
        let mut decoder = Decoder::default().ciphered(cipher(hash));
        let (mut decoded, mut damages) = (Vec::new(), Vec::new());
        for span in damaged.chunks(whole) {
            decoder.take(span.to_vec());
            while let Some(wanted) = decoder.wanted() {
                damages.push(decoder.poll_damage().expect("it came damaged").content);
                decoder.supply(
                    wanted.start,
                    &stream[wanted.start as usize..wanted.end as usize],
                );
            }
            decoded.extend_from_slice(decoder.poll().expect("it is right").bytes());
        }
        let chunk = |number: u64| number * CHUNK_BYTES as u64..(number + 1) * CHUNK_BYTES as u64;
        let rest = SPAN_BYTES as u64..content.len() as u64;
        assert_eq!(
            damages,
            [0..SPAN_BYTES as u64, chunk(4), chunk(5), chunk(9), rest]
        );
        assert!(decoded == content && decoder.trailer() == trailer);
    }
}

#[test]
fn chunks_of_an_encrypted_span_are_read_before_the_rest_has_come() {
    let content = content(3 * CHUNK_BYTES);
    let (stream, _) = enciphered(&content, PayloadHash::Polyval);
    let mut decoder = Decoder::default().ciphered(cipher(PayloadHash::Polyval));
    let begin = SpanPlace::new(ChunkSize::DEFAULT, 0, content.len()).hash_list_bytes();
    assert!(decoder.take_early(&stream[..begin + 2 * CHUNK_BYTES]) == content[..2 * CHUNK_BYTES]);
    decoder.take(stream);
    assert!(decoder.poll().expect("it is right").bytes() == &content[2 * CHUNK_BYTES..]);
    let mut other = Decoder::default().ciphered(ContentCipher::new(
        &Secret::new([8; 32]),
        PayloadHash::Polyval,
    ));
    other.take(enciphered(&content, PayloadHash::Polyval).0);
    assert!(
        other.poll().is_none() && other.wanted().is_some(),
        "another secret reads nothing"
    );
}

#[test]
fn with_keys_no_stream_ends_but_where_its_sender_has_ended_it() {
    let content = content(2 * SPAN_BYTES);
    let (stream, trailer) = encoded(&content);
    let forged = Trailer {
        bytes: u64::MAX,
        digest: [0; 32],
    };
    let [sender, receiver] = signing(ContentCipher::default());
    let (signed, signed_trailer) = encoded_by(ChunkSize::DEFAULT, sender, &content);
    let plain = (stream, trailer, ContentCipher::default());
    for ((stream, trailer, cipher), keyed) in
        [(plain, false), ((signed, signed_trailer, receiver), true)]
    {
        for (end, bytes) in [
            (trailer, stream.len()),
            (trailer, stream.len() / 2),
            (forged, stream.len()),
        ] {
            let mut sink = invited_by(ChunkSize::DEFAULT, cipher.clone());
            sink.take(NOW, Arrival::Bytes(&stream[..bytes]));
            sink.take(NOW, Arrival::End(end));
            let outcome = sink.turn(NOW).verdict.expect("it is over").outcome;
            let is_right = end == trailer && bytes == stream.len();
            assert_eq!(
                outcome == Outcome::Damaged,
                keyed && !is_right,
                "{keyed} {bytes}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_member_that_relays_makes_no_receiver_show_a_byte_of_its_own() {
    let (content, own) = (content(2 * SPAN_BYTES + 5), vec![7; 2 * SPAN_BYTES + 5]);
    for clear in [ContentCipher::default(), cipher(PayloadHash::Polyval)] {
        let [sender, receiver] = signing(clear.clone());
        let (truth, trailer) = encoded_by(ChunkSize::DEFAULT, sender.clone(), &content);
        // The member has the group's secret, and no key to sign with. What the sender has signed it
        // may send elsewhere.
        let chunk = ChunkSize::DEFAULT.signed(true);
        let member = clear.clone().sent_by(
            Signer::new(&Secret::new([7; 32])).public(),
            SessionName([1; 32]),
        );
        let mut forged = encoded_by(ChunkSize::DEFAULT, member, &own).0;
        let of_other_session =
            clear.signed_by(Signer::new(&Secret::new([7; 32])), SessionName([2; 32]));
        let other = encoded_by(ChunkSize::DEFAULT, of_other_session, &own).0;
        let span = |number: usize| number * chunk.whole_bytes()..(number + 1) * chunk.whole_bytes();
        let moved = [
            &truth[span(1)],
            &truth[span(0)],
            &truth[2 * chunk.whole_bytes()..],
        ]
        .concat();
        let hash_list_bytes = SpanPlace::new(chunk, 0, SPAN_BYTES).hash_list_bytes();
        let signature = hash_list_bytes - SIGNATURE_BYTES..hash_list_bytes;
        for stream in [&forged.clone(), &other, &moved, {
            forged[signature.clone()].copy_from_slice(&truth[signature.clone()]);
            &forged
        }] {
            let mut sink = invited_by(ChunkSize::DEFAULT, receiver.clone());
            stream[..chunk.whole_bytes() - 1]
                .chunks(9000)
                .for_each(|frame| sink.take(NOW, Arrival::Bytes(frame)));
            sink.missing(NOW + EARLY_AFTER);
            sink.take(
                NOW,
                Arrival::Bytes(&stream[chunk.whole_bytes() - 1..chunk.whole_bytes()]),
            );
            assert_eq!(sink.turn(NOW).verdict, None);
            assert!(
                sink.content().bytes().is_empty(),
                "nothing is shown, early or whole"
            );
            assert_eq!(sink.missing(NOW).wanted, Some(0..hash_list_bytes as u64));
            // The sender gives what it has signed, and the member's chunks differ from it.
            let sink = received(
                sink,
                &stream[chunk.whole_bytes()..],
                &[100_000],
                (&truth, trailer),
            );
            assert!(sink.content().bytes() == content);
            assert!(
                sink.all_damages()
                    .iter()
                    .filter(|damage| damage.is_hash_list)
                    .count()
                    >= 2
            );
        }
    }
}

/// A sink that keeps what it has been given.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Sink for Kept {
    fn take(&mut self, _now: Instant, arrival: Arrival<'_>) {
        if let Arrival::Bytes(bytes) = arrival {
            self.0.extend_from_slice(bytes);
        }
    }

    fn turn(&mut self, _now: Instant) -> SinkState {
        SinkState::default()
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        Again::Bytes(&self.0[offset as usize..][..bytes])
    }
}

#[test]
fn a_receiver_makes_the_signed_stream_again_that_it_has_seen() {
    let content = content(SPAN_BYTES + 5);
    let [sender, receiver] = signing(cipher(PayloadHash::Polyval));
    let (stream, _) = encoded_by(ChunkSize::DEFAULT, sender, &content);
    let mut sink = begun(Kept::default(), ChunkSize::DEFAULT, receiver);
    sink.take(
        NOW,
        Arrival::Bytes(&stream[..ChunkSize::DEFAULT.signed(true).whole_bytes()]),
    );
    for part in [0..1000, 500..100_000, 300_000..stream.len() - 700] {
        let part = part.start..part.end.min(ChunkSize::DEFAULT.signed(true).whole_bytes());
        match sink.read_again(NOW, part.start as u64, part.len()) {
            Again::Bytes(bytes) => assert!(bytes == &stream[part]),
            other => panic!("{other:?}"),
        }
    }
}
