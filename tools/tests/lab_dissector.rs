//! Tests of the Wireshark dissector, compared with `ethbcast dump` for every frame.
//!
//! The tests need `tshark`, and no root.

#[path = "command_line/dump/frames.rs"]
mod frames;

use ethbcast_tests::lab::{LIMIT, Run, scratch};
use frames::{Capture, Format, dumped, every_message, faulty, golden, text};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns tshark's fields of each frame.
fn dissected(file: &Path) -> Vec<Map<String, Value>> {
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/wireshark/ethbcast.lua");
    let ended = Run::here("tshark", &["-X", script, "-r", text(file), "-T", "json", "--no-duplicate-keys"]).end(LIMIT);
    ended.assert_code(0);
    assert!(!ended.stderr.contains("Lua"), "{}", ended.stderr);
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("JSON");
    let layer = |frame: &Value| frame["_source"]["layers"]["ethbcast"].as_object().cloned().unwrap_or_default();
    all.iter().map(layer).collect()
}

/// Returns the fields of a body in tshark's form.
fn body(frame: &Map<String, Value>) -> Map<String, Value> {
    let own = |(name, value): (&String, &Value)| Some((name.strip_prefix("ethbcast.body.")?.to_owned(), value.clone()));
    frame.iter().filter_map(own).collect()
}

fn as_text(value: &Value) -> Value {
    value.as_u64().map_or_else(|| value.clone(), |number| Value::String(number.to_string()))
}

/// Fails unless tshark and `dump` agree on every frame. Returns the kinds of frames.
#[track_caller]
fn assert_alike(file: &Path) -> BTreeSet<String> {
    let (dumped, dissected) = (dumped(file), dissected(file));
    assert_eq!(dumped.len(), dissected.len());
    for (at, (own, other)) in dumped.iter().zip(&dissected).enumerate() {
        assert_eq!(own["fault"], Value::Null, "frame {}", at + 1);
        let fields = own["fields"].as_object().expect("fields").iter();
        let fields: Map<_, _> = fields.map(|(name, value)| (name.clone(), as_text(value))).collect();
        assert_eq!(body(other), fields, "frame {}: {own}\n{other:#?}", at + 1);
        for name in ["sequence", "stamp", "payload_bytes", "stream"] {
            assert_eq!(other[&format!("ethbcast.{name}")], as_text(&own[name]), "{name} of frame {}", at + 1);
        }
        let session = format!("0x{}", own["session"].as_str().expect("digits"));
        assert_eq!(other["ethbcast.session"], session.as_str());
        assert!(!other.keys().any(|name| name.starts_with("_ws.")), "frame {}: {other:#?}", at + 1);
    }
    dumped.iter().map(|line| line["kind"].as_str().expect("a kind").to_owned()).collect()
}

#[test]
fn tshark_says_of_a_labs_frames_what_dump_says() {
    let kinds = assert_alike(&golden());
    let wanted = "ACK ALIVE ANNOUNCE ASK BYE CALL DATA DONE ECHO HEARTBEAT JOIN NOTE PROBE PULL PUSH READY RECEIPT \
                  REPORT STATUS VERDICT VIEW";
    let missing: Vec<_> = wanted.split(' ').filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "not in the capture: {missing:?}");
}

#[test]
fn tshark_says_of_every_message_what_dump_says() {
    let directory = scratch();
    let file = directory.path().join("all.pcap");
    fs::write(&file, Capture::new(Format::default()).with(&every_message()).bytes()).expect("written");
    let kinds = assert_alike(&file);
    assert_eq!(kinds.len(), 21, "all of sessions, streams and the census, and PROBE: {kinds:?}");
}

#[test]
fn tshark_marks_what_no_host_takes() {
    let directory = scratch();
    let file = directory.path().join("faults.pcap");
    let (frames, _) = faulty();
    fs::write(&file, Capture::new(Format::default()).with(&frames).bytes()).expect("written");
    let marks: Vec<String> = dissected(&file).iter().map(|frame| Value::Object(frame.clone()).to_string()).collect();
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
