//! `ethbcast lab each`: a command on every host at the same time.

use super::children::{Ended, wait};
use super::{lab_failure, prepare};
use crate::exit::{Code, Failure, WithCode, fail};
use crate::signals::Interrupt;
use ethbcast_lab::Lab;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// Runs the command. With `label`, each line of its output begins with the host's name.
///
/// # Errors
/// A failure with code 1 if one failed, 130 or 143 if this was interrupted and has ended them all.
pub fn run(lab: &str, except: &[String], label: bool, command: &[OsString]) -> anyhow::Result<()> {
    let lab = Lab::open(lab).map_err(lab_failure)?;
    let hosts: Vec<String> = lab.hosts().into_iter().filter(|host| !except.contains(host)).collect();
    let mut children: Vec<(String, Child)> = Vec::new();
    for host in hosts {
        let own: Vec<OsString> = command.iter().map(|word| for_host(word, &host)).collect();
        let cannot = |error| Failure::new(Code::System, format!("cannot run {:?} on {host}: {error}", own[0]));
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
        readers.extend(child.stdout.take().map(|from| labelled(host, from, std::io::stdout())));
        readers.extend(child.stderr.take().map(|from| labelled(host, from, std::io::stderr())));
    }
    let Ended { statuses, signal } = wait(children, &interrupt).code(Code::System)?;
    for reader in readers {
        drop(reader.join());
    }
    if let Some(signal) = signal {
        return Err(Interrupt::failure(signal, "interrupted; what ran on the hosts has ended").into());
    }
    let failed: Vec<String> = statuses
        .iter()
        .filter(|(_, status)| !status.success())
        .map(|(host, status)| format!("{host} ({})", describe(*status)))
        .collect();
    if failed.is_empty() { Ok(()) } else { fail(Code::SomeFailed, format!("failed on {}", failed.join(", "))) }
}

/// Forwards lines as they arrive, each as a whole with its host's name.
fn labelled(host: &str, from: impl Read + Send + 'static, mut to: impl Write + Send + 'static) -> JoinHandle<()> {
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
    status.code().map_or_else(|| status.to_string(), |code| format!("exit {code}"))
}

fn for_host(word: &OsString, host: &str) -> OsString {
    word.to_str().map_or_else(|| word.clone(), |word| word.replace("{}", host).into())
}
