//! Fuzz targets for decoders: no bytes make them panic, and decoded values survive encoding and
//! decoding.

use super::machines::Script;
use ethbcast_collectives::census::{CensusReply, CensusRequest};
use ethbcast_collectives::session::live::ReadAt;
use ethbcast_collectives::session::verified::{
    ChunkSet, ChunkSize, Composed, Composer, StretchPlace,
};
use ethbcast_collectives::session::{Message, Packing, View};
use ethbcast_content::image::{Qcow2, unpack};
use ethbcast_content::journal::{Journal, Recovered};
use ethbcast_content::layout::{Layout, Piece};
use ethbcast_content::manifest::{Head, Manifest};
use ethbcast_content::sparse::{Map, Part};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{Costs, Via, make};
use ethbcast_planning::topology::{Topology, lldp, nodeset, slurm};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{
    Ack, EtherType, Flags, Frame, Guard, Header, Identity, Kind, OVERHEAD_BYTES, PayloadHash, Rank,
    StreamId, parse,
};
use std::io::{self, Read, Seek, SeekFrom, Write};

const MAX_PAYLOAD_BYTES: usize = 1468;
const MAX_PIECES: usize = 1000;
const MAX_UNPACKED_BYTES: u64 = 1 << 20;

/// Decodes the bytes as a frame; and, to get past the checksum, encodes a frame with values drawn
/// from them.
pub(super) fn frame(bytes: &[u8]) {
    parse(bytes).iter().for_each(look_at);
    let mut script = Script::new(bytes);
    let mac = MacAddr::new(2, 0, 0, 0, 0, script.u8());
    let (session, stream, rank) = (
        script.u64() as u32,
        StreamId(script.u16()),
        Rank(script.u16()),
    );
    let identity = Identity {
        session,
        stream,
        rank,
        mac,
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    };
    let header = Header {
        epoch: script.u8(),
        flags: Flags(script.u8()),
        // A frame has room for 48 bits of it.
        sequence: script.u64() >> 16,
        stamp: script.u64() as u32,
        ..identity.header(Kind(script.u8()))
    };
    let (key, place, change) = (script.u8(), script.u16(), script.u8() | 1);
    let payload = script.bytes(MAX_PAYLOAD_BYTES);
    let mut buffer = [0; OVERHEAD_BYTES + 8 + MAX_PAYLOAD_BYTES];
    let length = identity.write(&mut buffer, mac, &header, payload);
    let frame = parse(&buffer[..length]).expect("what was sealed is taken");
    assert_eq!(
        (frame.header, frame.payload, frame.source),
        (header, payload, mac)
    );
    look_at(&frame);

    let hash = [
        PayloadHash::Polyval,
        PayloadHash::Poly1305,
        PayloadHash::Blake3,
    ][usize::from(key % 3)];
    // Under a hash key of zeros, which nobody draws, all payloads have the same hash.
    let keyed = Identity {
        guard: Guard::keyed(&[key; 32], &[!key | 1; 32], hash),
        ..identity
    };
    assert!(
        keyed.guard.parse(bytes).is_err(),
        "nobody finds a tag by chance"
    );
    let length = keyed.write(&mut buffer, mac, &header, payload);
    let frame = keyed
        .guard
        .parse(&buffer[..length])
        .expect("what was sealed is taken");
    assert_eq!(
        (frame.header, frame.payload, frame.source),
        (header, payload, mac)
    );
    buffer[usize::from(place) % length] ^= change;
    assert!(
        keyed.guard.parse(&buffer[..length]).is_err(),
        "byte {place} was changed by {change}"
    );
}

fn look_at(frame: &Frame<'_>) {
    let _message = Message::decode(frame.header.kind, frame.payload);
    let Some(ack) = Ack::parse(frame) else { return };
    // Near the largest numbers the bitmap names positions beyond them; such cursors are rejected.
    if ack
        .cursor
        .checked_add(1 + 8 * ack.bitmap.len() as u64)
        .is_some()
    {
        let (covered, beyond) = (ack.covered(), ack.arrived_beyond());
        assert!(ack.cursor <= covered, "{ack:?} speaks of {covered}");
        let counted = (ack.cursor..covered)
            .filter(|&sequence| ack.has(sequence))
            .count() as u64;
        assert_eq!(counted, beyond, "{ack:?}");
    }
    assert!(
        ack.body.below <= ack.cursor
            && ack.body.consumed <= ack.cursor
            && ack.cursor <= ack.body.limit
    );
}

pub(super) fn control(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else {
        return;
    };
    if let Some(question) = CensusRequest::decode(body) {
        assert_eq!(CensusRequest::decode(&question.encode()), Some(question));
    }
    if let Some(answer) = CensusReply::decode(body) {
        // Long names are cut once, when they are sent.
        let sent = CensusReply::decode(&answer.encode()).expect("what was an answer is one");
        assert_eq!(CensusReply::decode(&sent.encode()), Some(sent));
    }
    let Some(message) = Message::decode(Kind(kind), body) else {
        return;
    };
    let (again, body) = message.encode();
    assert_eq!(
        (again, Message::decode(again, &body)),
        (Kind(kind), Some(message))
    );
}

pub(super) fn view(bytes: &[u8]) {
    let Some(view) = View::decode(bytes) else {
        return;
    };
    let encoded = view.encode();
    let again = View::decode(&encoded).expect("what was a view is one");
    assert_eq!(again, view);
    let parts: Vec<u8> = view.parts(300).flat_map(|part| part.bytes).collect();
    assert_eq!(parts, encoded);
    assert!(view.ranks().all(|rank| rank.index() < view.members.len()));
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A parsed topology file can be written, read again and planned on.
pub(super) fn topology(bytes: &[u8]) {
    let Some(Ok(topology)) = text(bytes).map(|text| Topology::parse(text, "fuzz")) else {
        return;
    };
    let again = Topology::parse(&topology.to_toml(), "again").expect("what was a topology is one");
    assert_eq!(again, topology);
    let members: Vec<usize> = (0..topology.hosts().len()).collect();
    if (2..=64).contains(&members.len()) {
        for via in Via::ALL {
            let _plan = make(*via, &topology, 0, &members, &Costs::default());
        }
    }
}

/// Output of Slurm, LLDP, or a text by hand, selected by the first byte.
pub(super) fn network(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    let Some(text) = text(rest) else { return };
    match kind % 4 {
        0 => drop(slurm::parse(text, "fuzz")),
        1 => drop(slurm::from_topology_addrs(text, "fuzz")),
        2 => {
            let file = |(at, part): (usize, &str)| lldp::LldpFile {
                name: format!("n{at}"),
                source_name: format!("n{at}.json"),
                text: part.to_owned(),
            };
            let files: Vec<lldp::LldpFile> =
                text.split('\u{1}').enumerate().take(4).map(file).collect();
            drop(lldp::read(&files, None, "fuzz"));
        }
        _ => {
            let Ok(names) = nodeset::expand(text) else {
                return;
            };
            let again =
                nodeset::expand(&nodeset::fold(&names)).expect("what was folded can be expanded");
            let sorted = |mut names: Vec<String>| {
                names.sort();
                names.dedup();
                names
            };
            assert_eq!(sorted(again), sorted(names));
        }
    }
}

/// A parsed saved plan can be written and read again.
pub(super) fn plan(bytes: &[u8]) {
    let Some(Ok(plan)) = text(bytes).map(|text| SavedPlan::parse(text, "fuzz")) else {
        return;
    };
    let again = SavedPlan::parse(&plan.to_toml(), "again").expect("what was a plan is one");
    assert_eq!(again, plan);
    let names: Vec<&str> = plan.members().iter().map(String::as_str).collect();
    let _plan = plan.for_members(&names, plan.epoch());
}

/// Parsed calibrations give a cost for every size.
pub(super) fn calibration(bytes: &[u8]) {
    let Some(Ok(calibration)) = text(bytes).map(|text| Calibration::parse(text, "fuzz")) else {
        return;
    };
    let again =
        Calibration::parse(&calibration.to_toml(), "again").expect("what was a calibration is one");
    assert_eq!(again, calibration);
    for size in [0, 1, 1468, 1 << 20, u64::MAX] {
        let (gap, latency) = (calibration.gap_ns(size), calibration.latency_ns(size));
        // Behind a token bucket half a round trip is less than a frame's gap, and the latency is
        // negative.
        assert!(
            gap >= 0.0 && gap.is_finite() && latency.is_finite(),
            "{size} bytes: gap {gap}, latency {latency}"
        );
    }
}

/// A manifest behind a head with its own length and digest. Decoded values can be encoded again,
/// and each byte of its stream has a place.
pub(super) fn manifest(body: &[u8]) {
    let head = [
        &b"EBTREE\0\x01"[..],
        &(body.len() as u64).to_be_bytes(),
        blake3::hash(body).as_bytes(),
    ]
    .concat();
    let decoded = Head::read(head[..].try_into().expect("it is a head"));
    let Ok(manifest) = decoded.and_then(|head| Manifest::decode(&head, body)) else {
        return;
    };
    let encoded = manifest.encode();
    assert_eq!(encoded, [&head[..], body].concat());
    (0..manifest.entries().len()).for_each(|entry| drop(manifest.path(entry)));
    let layout = Layout::new(manifest, encoded.len() as u64);
    let mut at = 0;
    for _ in 0..MAX_PIECES {
        at += match layout.at(at) {
            Some(Piece::Manifest { bytes, .. } | Piece::Data { bytes, .. }) => bytes,
            Some(Piece::Verdict { .. }) => 1,
            None => return assert_eq!(at, layout.bytes()),
        };
    }
}

/// The map of a file with holes, behind a head with its own count and digest.
pub(super) fn map(body: &[u8]) {
    let Some((bytes, extents)) = body.split_at_checked(8) else {
        return;
    };
    let count = (extents.len() / 16) as u32;
    let whole = [
        &b"EBHOLES\x01"[..],
        bytes,
        &count.to_be_bytes(),
        blake3::hash(body).as_bytes(),
        extents,
    ]
    .concat();
    let Some(map) = Map::read(&whole) else { return };
    let mut at = 0;
    for _ in 0..MAX_PIECES {
        at += match map.at(at) {
            Some(Part::Map(at)) => (map.encoded().len() - at) as u64,
            Some(Part::Data(extent)) => {
                assert!(extent.offset + extent.bytes <= map.bytes());
                extent.bytes
            }
            None => return assert_eq!(at, map.stream_bytes()),
        };
    }
}

/// A packed stream, in the format that its first byte selects.
pub(super) fn packed(bytes: &[u8]) {
    let Some((&format, packed)) = bytes.split_first() else {
        return;
    };
    let format = [Packing::Gzip, Packing::Xz, Packing::Zstd][usize::from(format % 3)];
    let _unpacked = std::io::copy(
        &mut unpack(format, packed).take(MAX_UNPACKED_BYTES),
        &mut std::io::sink(),
    );
}

/// A journal: as it is, and with a head and records around parts of the bytes, which end with the
/// rest of them.
pub(super) fn journal(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let head = [&b"EBJRNL\0\x01"[..], script.bytes(48)].concat();
    let mut seal = blake3_seal(&[&[0; 16], &head]);
    let mut journal = [&head[..], &seal].concat();
    for _ in 0..script.below(MAX_RECORDS) {
        let (kind, length) = (script.u8() % 3, usize::from(script.u8()));
        let body = script.bytes(length);
        let record = [
            &(body.len() as u32).to_be_bytes()[..],
            &[kind, 0, 0, 0],
            body,
        ]
        .concat();
        seal = blake3_seal(&[&seal, &record]);
        journal = [&journal[..], &record, &seal].concat();
    }
    journal.extend_from_slice(script.bytes(MAX_PAYLOAD_BYTES));
    for journal in [bytes, &journal] {
        let Some((taken_up, recovered)) = take_up(journal) else {
            continue;
        };
        // What was behind the last record that is right is cut off, and nothing before it.
        let again = take_up(&taken_up).expect("what was a journal is one");
        assert!(again == (taken_up, recovered.clone()) && journal.starts_with(&again.0));
        let ranges: Vec<_> = recovered.durable.iter().collect();
        assert!(
            ranges.is_sorted_by(|one, next| one.end < next.start),
            "{ranges:?}"
        );
        assert!(ranges.iter().all(|range| recovered.durable.contains(range)));
    }
}

const MAX_RECORDS: usize = 8;

fn blake3_seal(parts: &[&[u8]]) -> [u8; 16] {
    *blake3::hash(&parts.concat())
        .as_bytes()
        .first_chunk()
        .expect("a digest is longer")
}

/// Returns a journal as its owner leaves it, and what it says.
fn take_up(bytes: &[u8]) -> Option<(Vec<u8>, Recovered)> {
    let file = tempfile::tempfile().expect("there is a temporary folder");
    (&file).write_all(bytes).expect("there is room");
    let (_, recovered) = Journal::take_up(file.try_clone().expect("one more")).ok()?;
    let mut left = Vec::new();
    (&file).seek(SeekFrom::Start(0)).expect("it is a file");
    (&file).read_to_end(&mut left).expect("it can be read");
    Some((left, recovered))
}

/// A selective stream of a short content: as it is, and as sections with right seals and lengths.
pub(super) fn sections(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let (chunk, content_bytes) = (ChunkSize::SHORTEST, script.u64() % MAX_SELECTED_BYTES);
    let (mut sealed, mut listed, mut sent) = (Vec::new(), 0, 0);
    while !script.is_over() {
        let kind = 1 + script.u8() % 4;
        let number = if kind == 1 { listed } else { sent };
        let Some(place) = StretchPlace::of(chunk, number, content_bytes) else {
            break;
        };
        let (short, long) = if kind == 1 {
            (script.u16(), script.below(3))
        } else {
            (0, usize::from(script.u8()))
        };
        let set_bytes = script.below(8);
        let set = if kind == 2 {
            script.bytes(set_bytes)
        } else {
            &[]
        };
        let (short, long) = if kind == 2 {
            (set.len() as u16, 0)
        } else {
            (short, if kind == 4 { 0 } else { long })
        };
        let head = [
            &[kind, 0][..],
            &short.to_be_bytes(),
            &(long as u32).to_be_bytes(),
        ]
        .concat();
        sealed = [
            &sealed[..],
            &head,
            &blake3_seal(&[&head, set, &number.to_be_bytes()]),
            set,
        ]
        .concat();
        let body_bytes = match kind {
            1 => {
                place
                    .spans()
                    .map(|span| span.hash_list_bytes())
                    .sum::<usize>()
                    + long * 12
            }
            2 => {
                let chunks = ChunkSet::read(place.chunks(), set).unwrap_or_default();
                chunks.iter().map(|chunk| place.chunk_bytes(chunk)).sum()
            }
            3 => long,
            _ => 0,
        };
        let end = sealed.len() + body_bytes;
        sealed.extend_from_slice(script.bytes(body_bytes.min(100)));
        sealed.resize(end, 0);
        (listed, sent) = (
            listed + u64::from(kind == 1),
            sent + u64::from(kind.is_multiple_of(2)),
        );
    }
    for stream in [bytes, &sealed] {
        let mut composer = Composer::new(chunk, content_bytes);
        let (mut decided, mut spans, mut passed) = (0, 0, 0);
        let mut take = |composed| match composed {
            Composed::HashList(_) => {}
            Composed::Span(span) => {
                assert_eq!(span.bytes.len(), span.place.bytes());
                let beyond = span.here.checked_shr(span.place.chunks() as u32);
                assert_eq!(beyond.unwrap_or(0), 0, "a chunk that is not in the span");
                decided += 1;
                spans += usize::from(span.is_last);
            }
            Composed::Passed(_) => passed += 1,
        };
        for part in stream.chunks(500) {
            composer.take(part);
            std::iter::from_fn(|| composer.poll(Vec::new)).for_each(&mut take);
        }
        composer.finish();
        std::iter::from_fn(|| composer.poll(Vec::new)).for_each(&mut take);
        assert!(
            composer.is_done(),
            "{decided} spans, the last of {spans} stretches and {passed} without any"
        );
    }
}

/// Length of the longest content of a selective stream: two stretches of the shortest chunks.
const MAX_SELECTED_BYTES: u64 = 18 << 20;

struct Image(Vec<u8>);

impl ReadAt for Image {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).map_or(self.0.len(), |offset| offset.min(self.0.len()));
        (&self.0[from..]).read(buffer)
    }
}

/// A qcow2 image, of which the first and the last bytes are read.
pub(super) fn qcow2(bytes: &[u8]) {
    let Ok(image) = Qcow2::open(Image(bytes.to_vec())) else {
        return;
    };
    let mut buffer = [0; 1000];
    let extents = image.extents().unwrap_or_default();
    assert!(
        extents.is_sorted_by(|one, next| one.offset + one.bytes < next.offset),
        "{extents:?}"
    );
    assert!(
        extents
            .iter()
            .all(|extent| extent.bytes > 0 && extent.offset + extent.bytes <= image.bytes())
    );
    for offset in [
        0,
        image.bytes() / 2,
        image.bytes().saturating_sub(10),
        image.bytes(),
    ] {
        if let Ok(count) = image.read_at(&mut buffer, offset) {
            assert!(
                count as u64 <= image.bytes() - offset && (count > 0 || offset == image.bytes())
            );
        }
    }
}
