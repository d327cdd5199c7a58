//! `ethbcast key`: makes, shows and changes key files.

mod rights;
mod source;

use crate::args::{KeyArgs, KeyCommand};
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, fail, report};
use crate::whole_file;
use ethbcast_collectives::keys::{Keys, Phrase, Secret, Signer};
use ethbcast_collectives::membership::host;
use ethbcast_transport::packet::random_secret;
pub use rights::keep_to_own;
use source::read;
pub use source::{print_missing, refuse, resolve, sending, serving};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const MODE: u32 = 0o600;

pub fn run(args: &KeyArgs) -> anyhow::Result<()> {
    match &args.command {
        KeyCommand::New { phrase: true, .. } => {
            let bytes = random_secret::<16>().code(Code::System)?;
            report(Phrase::new(*bytes).text().as_str())
        }
        KeyCommand::New { file, .. } => {
            let keys = Keys::new(secret()?, Signer::new(&secret()?), &own_name()).code(Code::System)?;
            put(file.as_deref(), &keys)
        }
        KeyCommand::Receivers { file, out } => put(out.as_deref(), &read(file)?.of_receivers()),
        KeyCommand::Show { file } => show(&read(file)?),
        KeyCommand::Add { file } => {
            let mut keys = read(file)?;
            keys.add(secret()?).code(Code::Usage)?;
            whole_file::save_private(file, &keys.text()).code(Code::System)?;
            show(&keys)
        }
    }
}

/// Returns the name of this host in a form that a key file permits.
fn own_name() -> String {
    let name = host::name(crate::lab::host_name(None).as_deref());
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '-' };
    name.chars().map(plain).take(64).collect()
}

fn secret() -> anyhow::Result<Secret> {
    random_secret().map(|bytes| Secret::new(*bytes)).code(Code::System)
}

fn put(file: Option<&Path>, keys: &Keys) -> anyhow::Result<()> {
    file.map_or_else(|| print(keys), |path| create(path, keys))
}

fn create(path: &Path, keys: &Keys) -> anyhow::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path).and_then(|mut file| {
        file.write_all(keys.text().as_bytes())?;
        file.sync_all()
    });
    match written {
        Ok(()) => report(&format!("key {} in {}", keys.name(), path.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let text = format!(
                "{} is there, and was left as it was: choose another name, or `ethbcast key add {0}` for a new key \
                 beside the one in it",
                path.display()
            );
            fail(Code::Usage, text)
        }
        Err(error) => fail(Code::System, format!("{}: {error}", path.display())),
    }
}

fn print(keys: &Keys) -> anyhow::Result<()> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        return fail(Code::Usage, "a key is no text for a terminal: name a file behind the command");
    }
    let mut file = File::from(stdout.as_fd().try_clone_to_owned().code(Code::System)?);
    let about = file.metadata().code(Code::System)?;
    if about.is_file() && about.mode() & 0o077 != 0 {
        // A process that has opened the file would continue to read after a change of its mode.
        let text = "others can read the file behind `>`, and nothing was written to it: name it without `>`, so that \
                    it is made for this user alone";
        return Err(Failure::new(Code::Usage, text).found(Fault::KeyMode).into());
    }
    file.write_all(keys.text().as_bytes()).code(Code::System)
}

fn show(keys: &Keys) -> anyhow::Result<()> {
    let right = if keys.may_send() { "may send" } else { "receives" };
    let mut lines = vec![format!("key {}, {right}", keys.name())];
    let others = keys.names().skip(1).map(|name| format!("also understands key {name}"));
    lines.extend(others);
    lines.extend(keys.senders().iter().map(|sender| format!("sender {}", sender.name)));
    report(&lines.join("\n"))
}
