//! Tests of `ethbcast dump` on capture files with every type of frame and with invalid data. The
//! Wireshark dissector prints equal values (`lab_dissector`).

mod frames;

use super::ended_here;
use ethbcast_tests::lab::scratch;
use frames::{Capture, Format, dumped, every_message, faulty, golden, lines, text};
use std::fs;
use std::path::Path;

#[test]
fn every_message_of_a_session_is_printed_field_by_field() {
    let directory = scratch();
    let file = directory.path().join("all.pcap");
    let messages = every_message();
    fs::write(
        &file,
        Capture::new(Format::default()).with(&messages).bytes(),
    )
    .expect("written");
    let lines = dumped(&file, &[]);
    assert_eq!(lines.len(), messages.len());
    assert!(
        lines.iter().all(|line| line["fault"].is_null()),
        "{lines:#?}"
    );
    let of = |kind: &str| {
        lines
            .iter()
            .find(|line| line["kind"] == kind)
            .unwrap_or_else(|| panic!("no {kind}"))
    };
    assert_eq!(of("ANNOUNCE")["fields"]["host"], "n0");
    assert_eq!(of("ANNOUNCE")["fields"]["mode"], "0644");
    let trees: Vec<_> = lines
        .iter()
        .map(|line| &line["fields"]["tree"])
        .filter(|tree| !tree.is_null())
        .collect();
    assert_eq!(
        trees, ["0:n0, 1:n1<0, 2:n2<1 (gone)"; 4],
        "a view is said once, with the part that makes it whole"
    );
    assert_eq!(of("VERDICT")["fields"]["accepted"], "1-2,9");
    assert_eq!(of("ACK")["fields"]["limit"], 4105);
    assert_eq!(of("ACK")["fields"]["arrived_beyond"], 2);
    assert_eq!(of("DATA")["fields"]["bytes"], 0, "the trailer");
    let shown = ended_here(&["dump", text(&file)]).stdout_text();
    let join = "02:00:00:00:00:02 > 02:00:00:00:00:01 JOIN session 5e550001, length 66: nonce \"0000000000000007\", ";
    assert!(
        shown.contains(join) && shown.contains("host \"n1\""),
        "{shown}"
    );
}

#[test]
fn every_format_of_a_capture_says_the_same() {
    let directory = scratch();
    let messages = every_message();
    let whole = Format {
        big_endian: true,
        nanoseconds: true,
        ng: false,
    };
    let mut said = Vec::new();
    for ng in [false, true] {
        for big_endian in [false, true] {
            for nanoseconds in [false, true] {
                let format = Format {
                    big_endian,
                    nanoseconds,
                    ng,
                };
                let file = directory.path().join("capture");
                fs::write(&file, Capture::new(format).with(&messages).bytes()).expect("written");
                said.push((format, dumped(&file, &[])));
            }
        }
    }
    let (_, first) = &said[0];
    assert_eq!(first[1]["time"], "1700000000.001002000");
    said.iter()
        .for_each(|(format, lines)| assert_eq!(lines, first, "{format:?}"));
    // A rewritten capture equals the original.
    let [file, again] = ["whole", "again"].map(|name| directory.path().join(name));
    fs::write(&file, Capture::new(whole).with(&messages).bytes()).expect("written");
    ended_here(&["dump", "--quiet", "--write", text(&again), text(&file)]).assert_code(0);
    assert!(
        fs::read(&file).expect("ours") == fs::read(&again).expect("written"),
        "byte for byte"
    );
    let counted = ended_here(&["dump", "--json", "--count", "2", text(&file)]);
    assert_eq!(lines(&counted).len(), 2);
}

#[test]
fn invalid_frames_are_named_and_the_rest_is_printed() {
    let directory = scratch();
    let file = directory.path().join("faults.pcap");
    let (frames, faults) = faulty();
    fs::write(&file, Capture::new(Format::default()).with(&frames).bytes()).expect("written");
    let ended = ended_here(&["dump", "--json", text(&file)]);
    ended.assert_code(0);
    let lines = lines(&ended);
    assert_eq!(lines.len(), faults.len());
    for (line, fault) in lines.iter().zip(&faults) {
        assert!(
            line["fault"].as_str().unwrap_or_default().contains(fault),
            "{fault}: {line}"
        );
    }
    assert!(
        ended.stderr.contains("2 were cut by the capture") && ended.stderr.contains("tcpdump -s 0"),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("1 of other protocols"), "{ended:?}");
    let shown = ended_here(&["dump", text(&file)]);
    faults
        .iter()
        .for_each(|fault| assert!(shown.stdout_text().contains(fault), "{fault}: {shown:?}"));
}

#[test]
fn a_capture_that_is_none_or_ends_too_early_is_refused_after_what_can_be_read() {
    let directory = scratch();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let refused = |path: &Path, code, part: &str| {
        let ended = ended_here(&["dump", text(path)]);
        ended.assert_code(code);
        assert!(ended.stderr.contains(part), "{part}: {ended:?}");
        ended.stdout_text().lines().count()
    };
    let messages = every_message();
    for ng in [false, true] {
        let whole = Capture::new(Format {
            ng,
            ..Format::default()
        })
        .with(&messages)
        .bytes();
        let shown = refused(
            &write("cut", &whole[..whole.len() - 5]),
            2,
            "the capture was cut short",
        );
        assert_eq!(shown, messages.len() - 1, "what comes before is shown");
    }
    let mut other = Capture::new(Format::default()).bytes();
    other[20] = 113;
    assert_eq!(
        refused(
            &write("cooked", &other),
            2,
            "not captured on an Ethernet interface"
        ),
        0
    );
    refused(
        &write("text", b"no capture at all, whatever it is called"),
        2,
        "neither pcap nor pcapng",
    );
    refused(&write("empty", b""), 2, "neither pcap nor pcapng");
    refused(&directory.path().join("none"), 4, "cannot read");
    let mut long = Capture::new(Format::default()).bytes();
    long.extend([[0; 8], [0xff; 8]].concat());
    refused(&write("long", &long), 2, "at byte 24");
    let nowhere = ended_here(&["dump", text(&golden()), "--write", "/nonexistent/file"]);
    nowhere.assert_refusal(4, &["cannot write /nonexistent/file", "--write"]);
}
