//! `ethbcast lab`: a test network of network namespaces on this machine.

use crate::args::{CableArgs, LabArgs, LabCommand};
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::inputs::read_topology;
use crate::signals::Interrupt;
use crate::units;
use ethbcast_lab::{Lab, LabConfig, LabError, LabGuard, parse_rate, parse_rate_or_unlimited};
use ethbcast_planning::topology::{BUILTIN_NAMES, Topology, nodeset};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

pub fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.command {
        LabCommand::Up {
            shape,
            topology,
            cables,
        } => up(shape.or(topology).as_deref().unwrap_or_default(), &cables),
        LabCommand::Exec { lab, host, command } => exec(&lab, &host, &command),
        LabCommand::Each {
            lab,
            except,
            label,
            command,
        } => run_each(&lab, &except, label, &command),
        LabCommand::Down { lab, all } => down(&lab, all),
        LabCommand::List => list(),
        LabCommand::Topology { name } => topology(&name),
        LabCommand::Demo {
            mebibytes,
            hosts,
            rate,
            loss,
        } => run_demo(mebibytes, hosts, &rate, loss),
    }
}

fn code(error: &LabError) -> Code {
    use LabError::*;
    match error {
        NotRoot
        | ToolMissing { .. }
        | KernelLacks { .. }
        | ProcessesRemain { .. }
        | NamespacesRemain { .. }
        | Tool { .. } => Code::System,
        System { .. } | NoInterface { .. } => Code::System,
        Interrupted => Code::Interrupted,
        _ => Code::Usage,
    }
}

fn lab_failure(error: LabError) -> Failure {
    Failure::new(code(&error), error)
}

/// Returns this host's name: the given one or, without `$ETHBCAST_HOST`, that of the lab host on
/// which this process runs.
pub fn host_name(given: Option<&str>) -> Option<String> {
    let told = std::env::var("ETHBCAST_HOST").is_ok();
    given
        .map(str::to_owned)
        .or_else(|| Lab::own_host().filter(|_| !told))
}

fn up(shape: &str, cables: &CableArgs) -> anyhow::Result<()> {
    let topology = shaped(shape)?;
    let config = LabConfig {
        name: cables.lab.clone(),
        rate_bits_per_second: cables
            .rate
            .as_deref()
            .map_or(Ok(None), parse_rate_or_unlimited)
            .code(Code::Usage)?,
        mtu_bytes: cables.mtu,
        loss: cables.loss,
        ..LabConfig::new(topology)
    };
    let lab = Lab::up(&config).map_err(lab_failure)?;
    let hosts = lab.hosts();
    let option = if lab.name() == ethbcast_lab::DEFAULT_LAB {
        String::new()
    } else {
        format!(" --lab {}", lab.name())
    };
    eprintln!(
        "lab {} is up: hosts {}; run things with `ethbcast lab exec{option} {} -- CMD`, end it with `ethbcast lab \
         down{option}`",
        lab.name(),
        nodeset::fold(&hosts),
        hosts.first().map_or("HOST", String::as_str)
    );
    Ok(())
}

fn exec(lab: &str, host: &str, command: &[OsString]) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;
    let lab = Lab::open(lab).map_err(lab_failure)?;
    let mut process = prepare(&lab, host, command)?;
    // Returns only after a failure: the command replaces this process, so that exit code and
    // signals are its own.
    let error = process.exec();
    fail(
        Code::System,
        format!("cannot run {:?} on {host}: {error}", command[0]),
    )
}

fn prepare(lab: &Lab, host: &str, command: &[OsString]) -> anyhow::Result<std::process::Command> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Failure::new(Code::Usage, "give a command after --"))?;
    let program = program
        .to_str()
        .ok_or_else(|| Failure::new(Code::Usage, "the command's name is not valid UTF-8"))?;
    let mut process = lab.command(host, program).map_err(lab_failure)?;
    process.args(arguments);
    Ok(process)
}

fn down(name: &str, all: bool) -> anyhow::Result<()> {
    let names = if all {
        Lab::list().map_err(lab_failure)?
    } else {
        vec![name.to_owned()]
    };
    for name in names {
        let removed = Lab::remove(&name).map_err(lab_failure)?;
        match removed.namespaces {
            0 => eprintln!("lab {name} is not up: nothing to do"),
            count => eprintln!(
                "lab {name} is down: {count} namespaces and {} processes ended",
                removed.processes
            ),
        }
    }
    Ok(())
}

fn list() -> anyhow::Result<()> {
    for name in Lab::list().map_err(lab_failure)? {
        match Lab::open(&name) {
            Ok(lab) => report(&format!("{name}: {}", nodeset::fold(&lab.hosts())))?,
            Err(error) => report(&format!("{name}: {error}"))?,
        }
    }
    Ok(())
}

fn topology(name: &str) -> anyhow::Result<()> {
    report(builtin(name)?.to_toml().trim_end())
}

/// Runs the command. With `label`, each line of its output begins with the host's name.
pub fn run_each(
    lab: &str,
    except: &[String],
    label: bool,
    command: &[OsString],
) -> anyhow::Result<()> {
    let lab = Lab::open(lab).map_err(lab_failure)?;
    let hosts: Vec<String> = lab
        .hosts()
        .into_iter()
        .filter(|host| !except.contains(host))
        .collect();
    let mut children: Vec<(String, Child)> = Vec::new();
    for host in hosts {
        let own: Vec<OsString> = command.iter().map(|word| for_host(word, &host)).collect();
        let cannot = |error| {
            Failure::new(
                Code::System,
                format!("cannot run {:?} on {host}: {error}", own[0]),
            )
        };
        let mut process = prepare(&lab, &host, &own)?;
        if label {
            process.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = process.spawn().map_err(cannot)?;
        children.push((host, child));
    }
    // Signals blocked here are inherited by later threads and programs, not by earlier threads.
    let interrupt = Interrupt::watch(true, || {}).code(Code::System)?;
    interrupt.begin_polling();
    let mut readers = Vec::new();
    for (host, child) in &mut children {
        readers.extend(
            child
                .stdout
                .take()
                .map(|from| labelled(host, from, std::io::stdout())),
        );
        readers.extend(
            child
                .stderr
                .take()
                .map(|from| labelled(host, from, std::io::stderr())),
        );
    }
    let Ended { statuses, signal } = wait(children, &interrupt).code(Code::System)?;
    for reader in readers {
        drop(reader.join());
    }
    if let Some(signal) = signal {
        return Err(
            Interrupt::failure(signal, "interrupted; what ran on the hosts has ended").into(),
        );
    }
    let failed: Vec<String> = statuses
        .iter()
        .filter(|(_, status)| !status.success())
        .map(|(host, status)| format!("{host} ({})", describe(*status)))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        fail(Code::SomeFailed, format!("failed on {}", failed.join(", ")))
    }
}

/// Forwards lines as they arrive, each as a whole with its host's name.
fn labelled(
    host: &str,
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> JoinHandle<()> {
    let host = host.to_owned();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { return };
            let whole = [host.as_bytes(), b": ", &line, b"\n"].concat();
            // The command continues even if its reader has gone.
            drop(to.write_all(&whole).and_then(|()| to.flush()));
        }
    })
}

fn describe(status: ExitStatus) -> String {
    status
        .code()
        .map_or_else(|| status.to_string(), |code| format!("exit {code}"))
}

fn for_host(word: &OsString, host: &str) -> OsString {
    word.to_str()
        .map_or_else(|| word.clone(), |word| word.replace("{}", host).into())
}

const LOOK_EVERY: Duration = Duration::from_millis(20);

pub struct Ended {
    pub statuses: Vec<(String, ExitStatus)>,
    pub signal: Option<Signal>,
}

/// Waits for all commands, and ends them once this process is interrupted.
pub fn wait(mut children: Vec<(String, Child)>, interrupt: &Interrupt) -> std::io::Result<Ended> {
    let mut told = None;
    loop {
        let mut are_over = true;
        for (_, child) in &mut children {
            are_over &= child.try_wait()?.is_some();
        }
        if are_over {
            break;
        }
        if let (None, Some(signal)) = (told, interrupt.signal()) {
            told = Some(signal);
            for (host, child) in &mut children {
                // After its end the process id may belong to another process.
                if child.try_wait()?.is_none()
                    && let Err(error) = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM)
                {
                    log::debug!("what runs on {host} has just ended: {error}");
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let status = |(host, mut child): (String, Child)| Ok((host, child.wait()?));
    let statuses = children
        .into_iter()
        .map(status)
        .collect::<std::io::Result<_>>()?;
    Ok(Ended {
        statuses,
        signal: told,
    })
}

/// Limit on hosts; more namespaces take minutes to create.
const MAX_HOSTS: usize = 256;

pub fn shaped(shape: &str) -> anyhow::Result<Topology> {
    if let Ok(hosts) = shape.parse::<usize>() {
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return fail(
                Code::Usage,
                format!("a lab of {hosts} hosts: choose 1 to {MAX_HOSTS}"),
            );
        }
        return Topology::single_switch((0..hosts).map(|host| format!("n{host}")))
            .code(Code::Usage);
    }
    if !Path::new(shape).exists() && Topology::builtin(shape).is_none() {
        let text = format!(
            "{shape} is neither a number of hosts, nor a topology file, nor one of {}",
            BUILTIN_NAMES.join(", ")
        );
        return fail(Code::Usage, text);
    }
    read_topology(Path::new(shape))
}

pub fn builtin(name: &str) -> anyhow::Result<Topology> {
    let unknown = || {
        Failure::new(
            Code::Usage,
            format!(
                "{name} is no test bed: choose one of {}",
                BUILTIN_NAMES.join(", ")
            ),
        )
    };
    Ok(Topology::builtin(name).ok_or_else(unknown)?)
}

/// Length of a full frame at MTU 1500 with all headers.
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1468.0;

struct DemoRow {
    via: &'static str,
    seconds: f64,
    verified: usize,
    receivers: usize,
}

fn run_demo(mebibytes: u64, hosts: u16, rate: &str, loss: f64) -> anyhow::Result<()> {
    let rate_bits_per_second = parse_rate(rate).code(Code::Usage)?;
    let topology =
        Topology::single_switch((0..hosts).map(|host| format!("n{host}"))).code(Code::Usage)?;
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
    let builder = |parent: &Path| {
        tempfile::Builder::new()
            .prefix("ethbcast-demo-")
            .tempdir_in(parent)
    };
    builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))
}

fn make_file(path: &Path, bytes: u64) -> std::io::Result<()> {
    let stream = blake3::Hasher::new()
        .update(b"ethbcast demo")
        .finalize_xof();
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
    let (root, receivers) = lab
        .hosts()
        .split_first()
        .map(|(root, rest)| (root.clone(), rest.to_vec()))
        .unwrap_or_default();
    let mut started: Vec<(String, Child)> = Vec::new();
    for host in &receivers {
        let mut receive = on(lab, host)?;
        receive
            .args(["recv", "--quiet", "-i", "eth0", "--max-wait", "30"])
            .arg(directory.join(format!("{host}-{via}.bin")));
        started.push((
            host.clone(),
            receive.stdin(Stdio::null()).spawn().code(Code::System)?,
        ));
    }
    let path = directory.join("report.json");
    let mut send = on(lab, &root)?;
    send.args([
        "send",
        "--json",
        "-i",
        "eth0",
        "--via",
        via,
        "-n",
        &receivers.len().to_string(),
        "--max-wait",
        "30",
    ])
    .arg(source);
    let stdout = std::fs::File::create(&path).code(Code::System)?;
    started.push((
        root,
        send.stdin(Stdio::null())
            .stdout(stdout)
            .spawn()
            .code(Code::System)?,
    ));
    if let Some(signal) = wait(started, interrupt).code(Code::System)?.signal {
        return Err(Interrupt::failure(signal, "interrupted; the lab has been taken down").into());
    }
    for host in &receivers {
        // A failed receiver left no file.
        drop(std::fs::remove_file(
            directory.join(format!("{host}-{via}.bin")),
        ));
    }
    let text = std::fs::read(&path).code(Code::System)?;
    let Ok(report) = serde_json::from_slice::<serde_json::Value>(&text) else {
        return fail(
            Code::SomeFailed,
            format!("sending via {via} failed; see above"),
        );
    };
    let verified = report["receivers"].as_array().map_or(0, |all| {
        all.iter()
            .filter(|receiver| receiver["status"] == "verified")
            .count()
    });
    Ok(DemoRow {
        via,
        seconds: report["seconds"].as_f64().unwrap_or_default(),
        verified,
        receivers: receivers.len(),
    })
}

fn on(lab: &LabGuard, host: &str) -> anyhow::Result<Command> {
    let program = std::env::current_exe().code(Code::System)?;
    let program = program
        .to_str()
        .ok_or_else(|| Failure::new(Code::System, "the path of ethbcast is not valid UTF-8"))?;
    Ok(lab.command(host, program).map_err(lab_failure)?)
}

fn print_table(rows: &[DemoRow], bytes: u64, rate_bits_per_second: u64) -> anyhow::Result<()> {
    let limit = bytes as f64 * 8.0 / rate_bits_per_second as f64 * FRAME_BYTES / PAYLOAD_BYTES;
    let mut text = format!(
        "\n{:<8} {:>9} {:>22} {:>20}\n",
        "path", "seconds", "share of wire limit", "verified receivers"
    );
    for row in rows {
        let share = if row.seconds > 0.0 {
            limit / row.seconds * 100.0
        } else {
            0.0
        };
        let verified = format!("{} of {}", row.verified, row.receivers);
        text += &format!(
            "{:<8} {:>9.3} {share:>20.1} % {verified:>20}\n",
            row.via, row.seconds
        );
    }
    let (size, rate) = (
        units::bytes(bytes),
        units::rate(rate_bits_per_second as f64),
    );
    text +=
        &format!("wire limit: {limit:.3} s for {size} at {rate} with 46 bytes of headers a frame");
    report(&text)
}
