//! Tests of the Wireshark dissector, compared with `ethbcast dump` for every frame.
//!
//! The tests need `tshark`, and no root.

#[path = "command_line/dump/frames.rs"]
mod frames;

use ethbcast_collectives::keys::{KeyLog, Keys};
use ethbcast_planning::plan::Via;
use ethbcast_tests::communicator::{self, Step};
use ethbcast_tests::lab::{LIMIT, Run, scratch};
use ethbcast_tests::session::{Case, keys, play, star};
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::{
    EtherType, Guard, Identity, Kind, MacAddr, PayloadHash, Rank, StreamId,
};
use frames::{Capture, Format, OnWire, dumped, every_message, faulty, golden, text};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

/// Returns tshark's fields of each frame.
fn dissected(file: &Path, options: &[&str]) -> Vec<Map<String, Value>> {
    let script = concat!(
        "lua_script:",
        env!("CARGO_MANIFEST_DIR"),
        "/wireshark/ethbcast.lua"
    );
    let arguments = [
        &[
            "-X",
            script,
            "-r",
            text(file),
            "-T",
            "json",
            "--no-duplicate-keys",
        ][..],
        options,
    ]
    .concat();
    let ended = Run::here("tshark", &arguments).end(LIMIT);
    ended.assert_code(0);
    assert!(!ended.stderr.contains("Lua"), "{}", ended.stderr);
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("JSON");
    let layer = |frame: &Value| {
        frame["_source"]["layers"]["ethbcast"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    all.iter().map(layer).collect()
}

/// Returns the fields of a body in tshark's form.
fn body(frame: &Map<String, Value>) -> Map<String, Value> {
    let own = |(name, value): (&String, &Value)| {
        Some((
            name.strip_prefix("ethbcast.body.")?.to_owned(),
            value.clone(),
        ))
    };
    frame.iter().filter_map(own).collect()
}

fn as_text(value: &Value) -> Value {
    value
        .as_u64()
        .map_or_else(|| value.clone(), |number| Value::String(number.to_string()))
}

/// Fails unless tshark and `dump` agree on every frame. Returns the kinds of frames that are not
/// sealed by a key, and how many are.
#[track_caller]
fn assert_alike(file: &Path, log: Option<&Path>) -> (BTreeSet<String>, usize) {
    let preference = log.map(|log| format!("ethbcast.key_log:{}", text(log)));
    let of_dump: Vec<&str> = log
        .iter()
        .flat_map(|log| ["--key-log", text(log)])
        .collect();
    let of_tshark: Vec<&str> = preference
        .iter()
        .flat_map(|preference| ["-o", preference])
        .collect();
    let (dumped, dissected) = (dumped(file, &of_dump), dissected(file, &of_tshark));
    assert_eq!(dumped.len(), dissected.len());
    let (mut kinds, mut sealed) = (BTreeSet::new(), 0);
    for (at, (own, other)) in dumped.iter().zip(&dissected).enumerate() {
        if own["fault"] == "protected by a key" {
            assert!(
                Value::Object(other.clone())
                    .to_string()
                    .contains("ethbcast.keyed"),
                "frame {}: {other:#?}",
                at + 1
            );
            sealed += 1;
            continue;
        }
        assert_eq!(own["fault"], Value::Null, "frame {}", at + 1);
        let fields = own["fields"].as_object().expect("fields").iter();
        let fields: Map<_, _> = fields
            .map(|(name, value)| (name.clone(), as_text(value)))
            .collect();
        assert_eq!(body(other), fields, "frame {}: {own}\n{other:#?}", at + 1);
        for name in ["sequence", "stamp", "payload_bytes", "stream"] {
            assert_eq!(
                other[&format!("ethbcast.{name}")],
                as_text(&own[name]),
                "{name} of frame {}",
                at + 1
            );
        }
        let session = format!("0x{}", own["session"].as_str().expect("digits"));
        assert_eq!(other["ethbcast.session"], session.as_str());
        assert!(
            !other.keys().any(|name| name.starts_with("_ws.")),
            "frame {}: {other:#?}",
            at + 1
        );
        kinds.insert(own["kind"].as_str().expect("a kind").to_owned());
    }
    (kinds, sealed)
}

#[track_caller]
fn assert_among(kinds: &BTreeSet<String>, wanted: &str) {
    let missing: Vec<_> = wanted
        .split(' ')
        .filter(|kind| !kinds.contains(*kind))
        .collect();
    assert!(missing.is_empty(), "not in the capture: {missing:?}");
}

/// Log of the secrets of [`keyed`].
static LOG: Mutex<String> = Mutex::new(String::new());

fn logged(_host: usize) -> Option<Keys> {
    Some(keys(1).logged(KeyLog::new(|line| {
        LOG.lock().expect("whole").push_str(line)
    })))
}

/// Returns the frames of a simulated session and of a group of ranks, with keys.
fn keyed() -> Vec<OnWire> {
    let frames = RefCell::new(Vec::new());
    let hears = |delivery: &Delivery<'_>| {
        frames
            .borrow_mut()
            .push((delivery.frame.to_vec(), delivery.frame.len()));
        Fate::Deliver
    };
    let case = Case {
        mtu_bytes: 1500,
        keys: logged,
        ..Case::new(Via::Chain, 2, 20_000)
    };
    // It lasts longer than the interval of STATUS.
    play(&case, &star(&case, 1_000_000), 1, hears, "a session");
    let calls = [
        Step::Broadcast {
            root: 0,
            bytes: 3000,
        },
        Step::Message {
            from: 1,
            to: 2,
            tag: 5,
            bytes: 20_000,
        },
    ];
    let group = communicator::Case {
        keys: logged,
        ..communicator::Case::new(3, &calls)
    };
    communicator::play(&group, 1, hears, "a group");
    frames.into_inner()
}

/// Returns frames of every length up to some, and some longer ones, under a secret of 32 nines and
/// Poly1305.
fn under_poly1305() -> Vec<OnWire> {
    let derive = |context| blake3::derive_key(context, &[9; 32]);
    let guard = Guard::keyed(
        &derive("ethbcast 7 tag"),
        &derive("ethbcast 7 hash"),
        PayloadHash::Poly1305,
    );
    let (mac, ether_type) = (MacAddr::new(2, 0, 0, 0, 0, 1), EtherType::DEFAULT);
    let identity = Identity {
        session: 9,
        stream: StreamId(1),
        rank: Rank(0),
        mac,
        ether_type,
        guard,
    };
    let frame = |bytes: usize| {
        let payload: Vec<u8> = (0..bytes).map(|at| !(at * at) as u8).collect();
        let mut frame = vec![0; 100 + bytes];
        let length = identity.write(
            &mut frame,
            MacAddr::BROADCAST,
            &identity.header(Kind::DATA),
            &payload,
        );
        frame.truncate(length);
        (frame, length)
    };
    (0..70).chain([1023, 1460, 8960]).map(frame).collect()
}

#[test]
fn tshark_says_of_a_labs_frames_what_dump_says() {
    let (kinds, _) = assert_alike(&golden(), None);
    let wanted = "ACK ALIVE ANNOUNCE ASK BYE CALL DATA DONE ECHO HEARTBEAT JOIN NOTE PROBE PULL PUSH READY RECEIPT \
                  REPORT STATUS VERDICT VIEW";
    assert_among(&kinds, wanted);
}

#[test]
fn tshark_opens_by_a_log_of_secrets_what_dump_opens() {
    let directory = scratch();
    let (file, log) = (
        directory.path().join("keyed.pcap"),
        directory.path().join("log"),
    );
    let frames = [keyed(), under_poly1305()].concat();
    fs::write(&file, Capture::new(Format::default()).with(&frames).bytes()).expect("written");
    let secrets = LOG.lock().expect("whole").clone()
        + "ethbcast-secret 00000009 2 "
        + &"09".repeat(32)
        + "\n";
    fs::write(&log, secrets).expect("written");
    let (kinds, sealed) = assert_alike(&file, Some(&log));
    assert_among(
        &kinds,
        "ACK ALIVE BYE DATA DONE KEYS NOTE PUSH READY STATUS VERDICT VIEW",
    );
    assert!(
        sealed > 0
            && ["ANNOUNCE", "JOIN", "CALL"]
                .iter()
                .all(|kind| !kinds.contains(*kind)),
        "{kinds:?}"
    );
    let (kinds, sealed) = assert_alike(&file, None);
    assert!(kinds.is_empty() && sealed == frames.len(), "{kinds:?}");
}

#[test]
fn tshark_says_of_every_message_what_dump_says() {
    let directory = scratch();
    let file = directory.path().join("all.pcap");
    fs::write(
        &file,
        Capture::new(Format::default())
            .with(&every_message())
            .bytes(),
    )
    .expect("written");
    let (kinds, _) = assert_alike(&file, None);
    assert_eq!(
        kinds.len(),
        21,
        "all of sessions, streams and the census, and PROBE: {kinds:?}"
    );
}

#[test]
fn tshark_marks_what_no_host_takes() {
    let directory = scratch();
    let file = directory.path().join("faults.pcap");
    let (frames, _) = faulty();
    fs::write(&file, Capture::new(Format::default()).with(&frames).bytes()).expect("written");
    let marks: Vec<String> = dissected(&file, &[])
        .iter()
        .map(|frame| Value::Object(frame.clone()).to_string())
        .collect();
    let expected = [
        "ethbcast.damaged",
        "Of version 5",
        "Of kind 99",
        "{}",
        "ethbcast.malformed",
        "ethbcast.cut",
        "{}",
        "ethbcast.cut",
        "ethbcast.malformed",
    ];
    for (mark, expected) in marks.iter().zip(expected) {
        assert!(mark.contains(expected), "{expected}: {mark}");
    }
}
