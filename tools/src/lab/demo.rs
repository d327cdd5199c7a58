//! `ethbcast lab demo`: two transfers (relayed in a chain, and by broadcast) on 8 hosts in network
//! namespaces.

use super::lab_failure;
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::signals::Interrupt;
use crate::units;
use ethbcast_lab::{Lab, LabConfig, LabGuard, parse_rate};
use ethbcast_planning::topology::Topology;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Length of a full frame at MTU 1500 with all headers.
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1468.0;

struct DemoRow {
    via: &'static str,
    seconds: f64,
    verified: usize,
    receivers: usize,
}

pub fn run(mebibytes: u64, hosts: u16, rate: &str, loss: f64) -> anyhow::Result<()> {
    let rate_bits_per_second = parse_rate(rate).code(Code::Usage)?;
    let topology = Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).code(Code::Usage)?;
    let config = LabConfig {
        name: format!("demo{}", std::process::id()),
        rate_bits_per_second: Some(rate_bits_per_second),
        loss,
        ..LabConfig::new(topology)
    };
    eprintln!("bringing up {hosts} hosts on one switch, every cable at {rate}, loss {loss}");
    // From now on Ctrl-C only sets a flag, and the guard removes the lab on every path out.
    let interrupt = Interrupt::watch(false, || {}).code(Code::System)?;
    interrupt.begin_polling();
    let lab = LabGuard::up(&config).map_err(lab_failure)?;
    let directory = scratch().code(Code::System)?;
    let bytes = mebibytes << 20;
    let source = directory.path().join("demo.bin");
    make_file(&source, bytes).code(Code::System)?;
    let mut rows = Vec::new();
    for via in ["chain", "cast"] {
        eprintln!("\nsending {} via {via}", units::bytes(bytes));
        rows.push(transfer(&lab, via, &source, directory.path(), &interrupt)?);
    }
    Lab::remove(lab.name()).map_err(lab_failure)?;
    print_table(&rows, bytes, rate_bits_per_second)?;
    match rows.iter().all(|row| row.verified == row.receivers) {
        true => Ok(()),
        false => fail(Code::SomeFailed, "some receivers failed; see above"),
    }
}

/// Creates a directory in memory if possible, as the demo shows the network and not the disk that
/// all hosts share.
fn scratch() -> std::io::Result<tempfile::TempDir> {
    let builder = |parent: &Path| tempfile::Builder::new().prefix("ethbcast-demo-").tempdir_in(parent);
    builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))
}

/// Writes a file of bytes by which misplaced frames are detected.
fn make_file(path: &Path, bytes: u64) -> std::io::Result<()> {
    let stream = blake3::Hasher::new().update(b"ethbcast demo").finalize_xof();
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    std::io::copy(&mut stream.take(bytes), &mut file)?;
    file.flush()
}

fn transfer(
    lab: &LabGuard,
    via: &'static str,
    source: &Path,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<DemoRow> {
    let (root, receivers) =
        lab.hosts().split_first().map(|(root, rest)| (root.clone(), rest.to_vec())).unwrap_or_default();
    let mut started: Vec<(String, Child)> = Vec::new();
    for host in &receivers {
        let mut receive = on(lab, host)?;
        receive
            .args(["recv", "--quiet", "-i", "eth0", "--max-wait", "30"])
            .arg(directory.join(format!("{host}-{via}.bin")));
        started.push((host.clone(), receive.stdin(Stdio::null()).spawn().code(Code::System)?));
    }
    let path = directory.join("report.json");
    let mut send = on(lab, &root)?;
    send.args(["send", "--json", "-i", "eth0", "--via", via, "-n", &receivers.len().to_string(), "--max-wait", "30"])
        .arg(source);
    let stdout = std::fs::File::create(&path).code(Code::System)?;
    started.push((root, send.stdin(Stdio::null()).stdout(stdout).spawn().code(Code::System)?));
    if let Some(signal) = super::wait(started, interrupt).code(Code::System)?.signal {
        return Err(Interrupt::failure(signal, "interrupted; the lab has been taken down").into());
    }
    for host in &receivers {
        // A failed receiver left no file.
        drop(std::fs::remove_file(directory.join(format!("{host}-{via}.bin"))));
    }
    let text = std::fs::read(&path).code(Code::System)?;
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(&text) else {
        return fail(Code::SomeFailed, format!("sending via {via} failed; see above"));
    };
    let verified = report["receivers"]
        .as_array()
        .map_or(0, |all| all.iter().filter(|receiver| receiver["status"] == "verified").count());
    Ok(DemoRow { via, seconds: report["seconds"].as_f64().unwrap_or_default(), verified, receivers: receivers.len() })
}

fn on(lab: &LabGuard, host: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().code(Code::System)?;
    let program =
        program.to_str().ok_or_else(|| Failure::new(Code::System, "the path of ethbcast is not valid UTF-8"))?;
    Ok(lab.command(host, program).map_err(lab_failure)?)
}

fn print_table(rows: &[DemoRow], bytes: u64, rate_bits_per_second: u64) -> anyhow::Result<()> {
    let limit = bytes as f64 * 8.0 / rate_bits_per_second as f64 * FRAME_BYTES / PAYLOAD_BYTES;
    let mut text =
        format!("\n{:<8} {:>9} {:>22} {:>20}\n", "path", "seconds", "share of wire limit", "verified receivers");
    for row in rows {
        let share = if row.seconds > 0.0 { limit / row.seconds * 100.0 } else { 0.0 };
        let verified = format!("{} of {}", row.verified, row.receivers);
        text += &format!("{:<8} {:>9.3} {share:>20.1} % {verified:>20}\n", row.via, row.seconds);
    }
    let (size, rate) = (units::bytes(bytes), units::rate(rate_bits_per_second as f64));
    text += &format!("wire limit: {limit:.3} s for {size} at {rate} with 46 bytes of headers a frame");
    report(&text)
}
