//! Reports of plausible runs.

use serde_json::{Value, json};

/// Samples of a run.
const MOMENTS: usize = 200;
const SECONDS: f64 = 20.0;
const BYTES: u64 = 1 << 30;

/// Creates a run to `receivers` receivers on two switches; `with_trouble` adds deaths and stalls.
pub fn run_of(receivers: usize, with_trouble: bool) -> Value {
    let hosts: Vec<String> = (1..=receivers).map(|at| format!("n{at}")).collect();
    let dead = with_trouble.then_some(receivers / 2);
    let seconds: Vec<f64> = (1..=MOMENTS).map(|at| at as f64 / MOMENTS as f64 * SECONDS).collect();
    let tracks: Vec<Value> = (0..receivers).map(|at| track(at, &hosts[at], dead, with_trouble)).collect();
    let outcomes = hosts.iter().enumerate().map(|(at, host)| {
        let is_dead = dead == Some(at);
        let status = if is_dead { "died" } else { "verified" };
        let end = if is_dead { SECONDS / 2.0 } else { SECONDS - 0.5 + 0.5 * at as f64 / receivers as f64 };
        let reason = is_dead.then_some("its process has ended: killed");
        json!({ "host": host, "rank": at + 1, "status": status, "bytes": if is_dead { 0 } else { BYTES },
                "seconds": end, "reason": reason, "frames": 731_500,
                "repaired_frames": if with_trouble && at == 0 { 14_000 } else { 0 } })
    });
    let chain: Vec<&str> = std::iter::once("n0").chain(hosts.iter().map(String::as_str)).collect();
    let edges: Vec<Value> = chain.windows(2).map(|two| json!({ "from": two[0], "to": two[1], "order": 0 })).collect();
    let (half, last) = (receivers / 2, receivers);
    let topology = format!(
        "schema = 1\n[[switch]]\nname = \"s0\"\nhosts = \"n[0-{half}]\"\nlinks = [\"s1\"]\n[[switch]]\nname = \
         \"s1\"\nhosts = \"n[{}-{last}]\"\n",
        half + 1
    );
    let incident =
        |at: usize| json!({ "seconds": SECONDS / 2.0, "kind": "failed", "hosts": [hosts[at]], "text": "died: killed" });
    let command = ["ethbcast", "send", "-i", "eth0", "--hosts", "n[1-100]", "--report", "run.html", "image.raw"];
    json!({
        "schema": 1, "session": "0000002a", "bytes": BYTES, "seconds": SECONDS, "total_seconds": SECONDS + 1.0,
        "goodput_bits_per_second": BYTES as f64 * 8.0 / SECONDS, "via": "chain", "preset": "default",
        "blake3": "9f2b1c".repeat(10) + "ab12", "segment_bytes": 1468, "predicted_seconds": SECONDS * 0.9,
        "reason": "chain: 18.0 s predicted, next cast 19.1 s (+6 %); segment 1 frame",
        "frames": { "data_sent": 731_500, "data_resent": 3120, "control_sent": 900, "control_received": 88_000 },
        "receivers": outcomes.collect::<Vec<_>>(), "left_out": [],
        "damaged": [{ "at": 0, "bytes": 65536, "from": "n1", "to": ["n2"] }],
        "run": {
            "version": "0.1.0", "command": command, "began": "2026-01-01T00:00:00Z", "source": "image.raw",
            "group": "ethbcast", "root": "n0", "interface": "eth0", "mtu_bytes": 1500, "topology": topology,
            "plan": { "via": "chain", "hosts": chain, "edges": edges }, "held_up_by": "n2",
            "candidates": [{ "via": "chain", "predicted_seconds": 18.0 }, { "via": "cast", "predicted_seconds": 19.1 }],
            "timeline": {
                "seconds": seconds, "sent_bytes": seconds.iter().map(|at| sent(*at)).collect::<Vec<_>>(),
                "resent_frames": vec![0; MOMENTS], "receivers": tracks,
                "incidents": dead.map(incident).into_iter().collect::<Vec<_>>(),
            },
        },
    })
}

fn sent(seconds: f64) -> u64 {
    (BYTES as f64 * (seconds / SECONDS * 1.04).min(1.0)) as u64
}

/// Creates the progress of a receiver, slightly behind its predecessor, some with a pause.
fn track(at: usize, host: &str, dead: Option<usize>, with_trouble: bool) -> Value {
    let rests = with_trouble && at % 5 == 1;
    let moment = |moment: usize| {
        let seconds = (moment + 1) as f64 / MOMENTS as f64 * SECONDS;
        let is_resting = rests && (6.0..9.0).contains(&seconds);
        let wave = ((moment * 37 + at * 11) % 17) as f64 / 100.0;
        let there = sent(if is_resting { 6.0 } else { (seconds - 0.02 * at as f64 - wave).max(0.0) });
        let gone = dead == Some(at) && seconds > SECONDS / 2.0;
        (
            if gone { sent(SECONDS / 2.0) } else { there },
            if gone {
                '-'
            } else if is_resting {
                'b'
            } else {
                'a'
            },
        )
    };
    let (bytes, states): (Vec<u64>, String) = (0..MOMENTS).map(moment).unzip();
    json!({ "host": host, "bytes": bytes, "states": states })
}
