//! Tests of delta transfers: which chunks are sent, in which order, and that the receiver puts them
//! in place.

use super::super::encoder::{Encoder, SpanBuffer};
use super::super::tests::{encoded_in, sizes};
use super::*;
use crate::keys::ContentCipher;
use crate::session::message::{ContentKind, Trailer};
use crate::session::verified::layout::ChunkSize;
use crate::session::verified::receiver::{
    Offered, Order, ReceiverOutput, ReceiverState, VerifiedReceiver,
};
use proptest::prelude::*;
use std::convert::Infallible;
use std::sync::Arc;

const STRETCH_BYTES: u64 = ChunkSize::DEFAULT.stretch_bytes();

fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new()
        .update(&bytes.to_be_bytes())
        .finalize_xof()
        .fill(&mut content);
    content
}

fn selected(chunk: ChunkSize, content: &[u8], sent: &ChunkSet, cut: Cut) -> (Vec<u8>, Selector) {
    let (whole, trailer) = encoded_in(chunk, content);
    let mut encoder = Encoder::new(chunk);
    let (mut selector, mut stream) = (
        Selector::new(chunk, content.len() as u64, cut, 1468),
        Vec::new(),
    );
    loop {
        match selector.due() {
            DueSection::HashLists(place) => {
                let read = |place: &super::super::SpanPlace, used| {
                    let mut buffer = SpanBuffer::empty(chunk, used);
                    let (begin, count) = (place.content_begin() as usize, place.content_bytes());
                    buffer.room()[..count].copy_from_slice(&content[begin..][..count]);
                    buffer.filled(count);
                    encoder.seal(&mut buffer);
                    Ok::<_, Infallible>(buffer)
                };
                let Ok(section) = selector.hash_lists(&place, read);
                stream.extend(section);
            }
            DueSection::Chunks(place) => {
                if stream.len() % 2 == 0 {
                    stream.extend(selector.padding().expect("hash lists came before"));
                    assert!(
                        stream.len() % 1468 == 1 && selector.padding().is_none(),
                        "one is enough"
                    );
                }
                let sent = sent.and(&ChunkSet::first(place.chunks()));
                for part in selector.chunks(sent) {
                    match part {
                        SectionPart::Bytes(bytes) => stream.extend(bytes),
                        SectionPart::Whole(range) => {
                            stream.extend(&whole[range.start as usize..range.end as usize])
                        }
                        SectionPart::Names(_) => unreachable!("chunks have no names"),
                    }
                }
            }
            DueSection::End => break,
        }
    }
    assert_eq!(encoder.trailer(), trailer);
    assert_eq!(
        selector.sections().lock().stream_bytes(),
        stream.len() as u64
    );
    (stream, selector)
}

fn composed(
    chunk: ChunkSize,
    stream: &[u8],
    content_bytes: usize,
    pieces: usize,
) -> (Vec<PartialSpan>, usize) {
    let mut composer = Composer::new(chunk, content_bytes as u64);
    let (mut spans, mut hash_lists) = (Vec::new(), 0);
    let mut drain = |composer: &mut Composer| {
        while let Some(step) = composer.poll(Vec::new) {
            match step {
                Composed::HashList(_) => hash_lists += 1,
                Composed::Span(span) => spans.push(span),
                Composed::Passed(stretch) => panic!("chunks of stretch {stretch} were to come"),
            }
        }
    };
    for piece in stream.chunks(pieces) {
        composer.take(piece);
        drain(&mut composer);
    }
    composer.finish();
    drain(&mut composer);
    assert!(composer.is_done());
    (spans, hash_lists)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sent_chunks_arrive_and_the_others_are_known_to_be_missing(
        chunk in sizes(),
        bytes in 1..4_000_000_usize,
        runs in prop::collection::vec((0..64_usize, 1..9_usize), 0..6),
        pieces in 1..200_000_usize,
    ) {
        let content = content(bytes);
        let chunks = bytes.div_ceil(chunk.bytes());
        let sent: ChunkSet = runs.iter().flat_map(|&(from, count)| from..(from + count).min(chunks)).collect();
        let (stream, _) = selected(chunk, &content, &sent, Cut::Fixed);
        let (spans, hash_lists) = composed(chunk, &stream, bytes, pieces);
        prop_assert_eq!(hash_lists, 1);
        let (whole, _) = encoded_in(chunk, &content);
        let mut at = 0;
        for (number, span) in spans.iter().enumerate() {
            let hash_list = span.place.hash_list_bytes();
            prop_assert_eq!(&span.bytes[..hash_list], &whole[at..at + hash_list]);
            for one in 0..span.place.chunks() {
                let here = span.here >> one & 1 == 1;
                prop_assert_eq!(here, sent.contains(number * chunk.in_span() + one));
                let part = span.place.chunk(one);
                let expected = &whole[at + part.start..at + part.end];
                let bytes = &span.bytes[part];
                let sound = if here { bytes == expected } else { bytes.iter().all(|byte| *byte == 0) };
                prop_assert!(sound);
            }
            at += span.place.bytes();
        }
        prop_assert_eq!(at, whole.len());
    }

    #[test]
    fn any_part_of_the_stream_is_made_again_but_names(
        chunk in sizes(), bytes in 1..3_000_000_usize, sent in prop::collection::vec(0..46_usize, 0..9),
        ends in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let content = content(bytes);
        let sent: ChunkSet = sent.into_iter().filter(|at| at * chunk.bytes() < bytes).collect();
        let (stream, selector) = selected(chunk, &content, &sent, Cut::None);
        let (one, other) = (ends.0.index(stream.len() + 1), ends.1.index(stream.len() + 1));
        let range = one.min(other) as u64..one.max(other) as u64;
        let (whole, mut again) = (encoded_in(chunk, &content).0, Vec::new());
        for part in selector.sections().lock().parts_of(&range) {
            match part {
                SectionPart::Bytes(bytes) => again.extend(bytes),
                SectionPart::Whole(range) => again.extend(&whole[range.start as usize..range.end as usize]),
                SectionPart::Names(bytes) => again.resize(again.len() + bytes as usize, 0),
            }
        }
        prop_assert!(again == stream[range.start as usize..range.end as usize]);
    }

    #[test]
    fn all_spans_are_returned_for_any_input_and_at_most_a_stretch_is_held(
        chunk in sizes(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX), 1..5),
        keep in any::<prop::sample::Index>(),
    ) {
        let content = content(1_500_000);
        let (mut stream, _) = selected(chunk, &content, &ChunkSet::first(5), Cut::ContentDefined);
        damages.iter().for_each(|(at, bits)| stream[at.index(2000)] ^= bits);
        stream.truncate(keep.index(stream.len()));
        let (spans, _) = composed(chunk, &stream, content.len(), 9000);
        prop_assert_eq!(spans.len(), 2);
    }
}

#[test]
fn a_stretch_of_any_chunks_has_no_more_of_them_than_can_be_numbered() {
    for doublings in -2..=1 {
        let chunk = ChunkSize::of_doublings(doublings).expect("there are four");
        let place = StretchPlace::of(chunk, 1, 1 << 30).expect("the second");
        assert_eq!(
            (place.begin(), place.bytes()),
            (chunk.stretch_bytes(), chunk.stretch_bytes())
        );
        assert!(
            place.chunks() <= STRETCH_CHUNKS && chunk.in_span() <= 64,
            "{chunk:?}"
        );
        let (span, within) = place.span_of(place.chunks() - 1);
        assert_eq!(
            (span.chunk_offset(within), within),
            (place.chunk_offset(place.chunks() - 1), chunk.in_span() - 1)
        );
        assert_eq!(span.content().end, place.begin() + place.bytes());
    }
    for bytes in [0, 1, 1 << 13, 3 << 13, 48 << 10, 1 << 18, u64::MAX, 1 << 63] {
        assert_eq!(ChunkSize::of_bytes(bytes), None, "{bytes}");
    }
    assert_eq!(ChunkSize::of_bytes(1 << 16), Some(ChunkSize::DEFAULT));
    assert!(
        [-128, -17, -3, 2, 127 - 16]
            .iter()
            .all(|&doublings| ChunkSize::of_doublings(doublings).is_none())
    );
}

#[test]
fn hash_lists_go_four_stretches_ahead_and_never_further() {
    let mut sections = Sections::new(ChunkSize::DEFAULT, 10 * STRETCH_BYTES);
    let mut order = String::new();
    loop {
        match sections.due() {
            DueSection::HashLists(place) => {
                order += &format!("l{} ", place.number());
                sections.add_hash_lists(0, 0);
            }
            DueSection::Chunks(place) => {
                order += &format!("c{} ", place.number());
                sections.add_chunks(ChunkSet::default());
            }
            DueSection::End => break,
        }
    }
    let documented = "l0 l1 l2 l3 c0 l4 c1 l5 c2 l6 c3 l7 c4 l8 c5 l9 c6 c7 c8 c9 ";
    assert_eq!(order, documented);
    let hash_lists = sections.stream_bytes() as f64 / (10 * STRETCH_BYTES) as f64;
    assert!(
        hash_lists < 0.000_52,
        "{hash_lists}: 0.05 %, less than 0.1 %"
    );
}

#[test]
fn a_dry_run_sends_no_span_and_asks_about_every_stretch() {
    let content_bytes = 10 * STRETCH_BYTES;
    let chunk = ChunkSize::DEFAULT;
    let (mut sections, mut composer) = (
        Sections::new(chunk, content_bytes),
        Composer::new(chunk, content_bytes),
    );
    let mut asked = Vec::new();
    loop {
        let parts = match sections.due() {
            DueSection::HashLists(_) => sections.add_hash_lists(0, 0),
            DueSection::Chunks(_) => sections.pass(),
            DueSection::End => break,
        };
        for part in parts {
            match part {
                SectionPart::Bytes(bytes) => composer.take(&bytes),
                // Unreadable hash lists still get a want-bitmap.
                SectionPart::Whole(range) => {
                    composer.take(&vec![0; (range.end - range.start) as usize])
                }
                SectionPart::Names(_) => {}
            }
        }
        while let Some(composed) = composer.poll(Vec::new) {
            match composed {
                Composed::HashList(hash_list) => asked.push(hash_list.number()),
                Composed::Passed(stretch) => {
                    assert!(asked.contains(&stretch) && composer.decided() == stretch + 1)
                }
                Composed::Span(_) => panic!("nothing was sent"),
            }
        }
    }
    assert!(composer.is_done());
    assert_eq!(asked, (0..10).collect::<Vec<u64>>());
    assert!(
        sections.stream_bytes() < content_bytes / 1900,
        "hardly more than the hash lists"
    );
}

#[test]
fn a_stream_that_passes_over_chunks_and_has_an_end_is_no_dry_run() {
    let (chunk, size) = (ChunkSize::DEFAULT, 1000);
    let (mut sections, mut stream) = (Sections::new(chunk, size), Vec::new());
    for part in [sections.add_hash_lists(0, 0), sections.pass()].concat() {
        match part {
            SectionPart::Bytes(bytes) => stream.extend(bytes),
            SectionPart::Whole(range) => {
                stream.resize(stream.len() + (range.end - range.start) as usize, 0)
            }
            SectionPart::Names(_) => {}
        }
    }
    let state = Arc::new(ReceiverState::default());
    let mut receiver = VerifiedReceiver::new(&state);
    let (source, content) = (String::new(), ContentKind::default());
    let offer = HeldContent {
        source: source.clone(),
        size,
        content,
        chunk,
    };
    let offered = Offered {
        source,
        size: Some(size),
        content,
        chunk,
    };
    for order in [
        Order::Begin(offered, ContentCipher::default()),
        Order::Complete(offer),
        Order::Write(stream),
    ] {
        state.order();
        receiver.take(order);
    }
    while receiver.poll_output().is_some() {}
    assert!(state.is_on_request(), "nothing but the hash lists has come");
    state.order();
    receiver.take(Order::End(Trailer {
        bytes: 0,
        digest: [0; 32],
    }));
    let end = receiver.poll_output();
    assert!(
        matches!(
            end,
            Some(ReceiverOutput::Settle {
                end_differs: true,
                ..
            })
        ),
        "{end:?}"
    );
    assert!(!state.is_on_request(), "a dry run has no end");
}
