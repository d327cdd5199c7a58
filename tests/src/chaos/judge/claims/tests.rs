use super::*;
use serde_json::json;

fn digest() -> blake3::Hash {
    blake3::hash(b"what was sent")
}

fn scenario() -> Scenario {
    let (seed, only, rate_bits_per_second, troubles) = (1, None, None, Vec::new());
    Scenario { seed, only, via: "chain", bytes: 13, rate_bits_per_second, late: false, troubles }
}

fn good() -> Host {
    let json = json!({ "status": "verified", "bytes": 13, "blake3": digest().to_hex().as_str() });
    let (file, may) = (FileState::Whole(0), vec![0]);
    Host {
        name: "n1".into(),
        code: Some(0),
        json,
        is_confirmed: true,
        admits_doubt: false,
        file,
        may,
        is_marred: false,
    }
}

fn report(status: &str) -> String {
    let receivers = json!([{ "host": "n1", "status": status }]);
    json!({ "bytes": 13, "blake3": digest().to_hex().as_str(), "receivers": receivers, "left_out": [] }).to_string()
}

fn wrong(host: Host, code: i32, report: &str) -> Vec<String> {
    let (scenario, sent) = (scenario(), [Some((13, digest())), None]);
    let root_lines = [vec!["n1 joined (1)".to_owned()]];
    let claims = Claims { scenario: &scenario, hosts: &[host], sent: &sent, root_lines: &root_lines, said: "" };
    let mut wrong = claims.wrong();
    wrong.extend(claims.wrong_of_root(0, Some(code), &Report::read(report)));
    wrong
}

#[track_caller]
fn is_found(host: Host, code: i32, report: &str, part: &str) {
    let wrong = wrong(host, code, report);
    assert!(wrong.iter().any(|line| line.contains(part)), "{part:?} is not in {wrong:?}");
}

#[test]
fn a_good_run_is_good_and_a_dead_host_that_is_named_is_too() {
    assert_eq!(wrong(good(), 0, &report("verified")), [""; 0]);
    let dead = Host { code: Some(137), file: FileState::Absent, may: vec![0, 137], is_marred: true, ..good() };
    assert_eq!(wrong(dead, 1, &report("died")), [""; 0]);
}

#[test]
fn every_lie_of_a_receiver_is_found() {
    let verified = report("verified");
    is_found(Host { file: FileState::Wrong, ..good() }, 0, &verified, "another file");
    is_found(Host { file: FileState::Absent, ..good() }, 0, &verified, "ended with 0 without the file");
    is_found(Host { code: Some(3), file: FileState::Absent, ..good() }, 1, &report("silent"), "has not got the file");
    is_found(Host { code: Some(1), ..good() }, 1, &report("silent"), "and the file is there");
    is_found(Host { code: Some(101), file: FileState::Absent, is_marred: true, ..good() }, 1, &report("died"), "101");
    let json = json!({ "status": "verified", "bytes": 12, "blake3": digest().to_hex().as_str() });
    is_found(Host { json, ..good() }, 0, &verified, "prints");
}

#[test]
fn every_lie_of_a_sender_is_found() {
    let gone = || Host { code: Some(137), file: FileState::Absent, may: vec![137], is_marred: true, ..good() };
    is_found(gone(), 0, &report("verified"), "the file is not there");
    is_found(good(), 1, &report("silent"), "for sure");
    is_found(good(), 1, &report("verified"), "ended with 1, and reports");
    is_found(gone(), 0, &report("died"), "ended with 0, and reports");
    is_found(good(), 0, "", "without a report");
    is_found(good(), 101, &report("verified"), "ended with 101");
    let other = report("verified").replace("13", "14");
    is_found(good(), 0, &other, "reports 14 bytes");
    let nobody = json!({ "bytes": 13, "blake3": digest().to_hex().as_str(), "receivers": [], "left_out": [] });
    is_found(gone(), 1, &nobody.to_string(), "does not name it");
}
