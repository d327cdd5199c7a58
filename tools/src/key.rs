//! `ethbcast key`: makes, shows and changes key files. The key of a session comes from options,
//! environment, credentials or files.

use crate::args::{KeyArgs, KeyCommand, KeySourceArgs};
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, fail, print_line, report};
use crate::serve::Severity;
use crate::whole_file;
use ethbcast_collectives::keys::{KEY_PATH, KeyLog, Keys, PHRASE_VARIABLE, Phrase, Secret, Signer};
use ethbcast_collectives::membership::host;
use ethbcast_collectives::membership::live::{
    KeyError, KeyFault, key_of_file, key_of_phrase, key_of_system,
};
use ethbcast_transport::packet::random_secret;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::geteuid;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use zeroize::{Zeroize, Zeroizing};

const MODE: u32 = 0o600;

pub fn run(args: &KeyArgs) -> anyhow::Result<()> {
    match &args.command {
        KeyCommand::New { phrase: true, .. } => {
            let bytes = random_secret::<16>().code(Code::System)?;
            report(Phrase::new(*bytes).text().as_str())
        }
        KeyCommand::New { file, .. } => {
            let keys =
                Keys::new(secret()?, Signer::new(&secret()?), &own_name()).code(Code::System)?;
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
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || ".-_".contains(letter) {
            letter
        } else {
            '-'
        }
    };
    name.chars().map(plain).take(64).collect()
}

fn secret() -> anyhow::Result<Secret> {
    random_secret()
        .map(|bytes| Secret::new(*bytes))
        .code(Code::System)
}

fn put(file: Option<&Path>, keys: &Keys) -> anyhow::Result<()> {
    file.map_or_else(|| print(keys), |path| create(path, keys))
}

fn create(path: &Path, keys: &Keys) -> anyhow::Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(MODE)
        .open(path)
        .and_then(|mut file| {
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
        return fail(
            Code::Usage,
            "a key is no text for a terminal: name a file behind the command",
        );
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
    let right = if keys.may_send() {
        "may send"
    } else {
        "receives"
    };
    let mut lines = vec![format!("key {}, {right}", keys.name())];
    let others = keys
        .names()
        .skip(1)
        .map(|name| format!("also understands key {name}"));
    lines.extend(others);
    lines.extend(
        keys.senders()
            .iter()
            .map(|sender| format!("sender {}", sender.name)),
    );
    report(&lines.join("\n"))
}

/// The phrase as it was typed: the user is asked once per run.
static TYPED: OnceLock<Zeroizing<String>> = OnceLock::new();

const WITHOUT: &str =
    "any host on this network can read the transfer, and pretend to be a sender or receiver";

/// Says that a session has no key, unless that is meant.
pub fn print_missing(keys: Option<&Arc<Keys>>, args: &KeySourceArgs, quiet: bool) {
    if keys.is_none() && !args.no_key && !quiet {
        print_line(format_args!(
            "ethbcast: no key: {WITHOUT}; `ethbcast key new` makes one, --no-key means none"
        ));
    }
}

/// Returns the key of a receiver that stays, which as root needs one: it writes what any host
/// sends. Another user is warned at each start.
pub fn serving(args: &KeySourceArgs) -> anyhow::Result<Option<Arc<Keys>>> {
    let keys = resolve(args)?;
    if keys.is_some() || args.no_key {
        return Ok(keys);
    }
    if geteuid().is_root() {
        let text = format!(
            "recv --serve as root needs a key, for {WITHOUT}: make one on the sender with `ethbcast key new \
             {KEY_PATH}` and put its receivers' form at {KEY_PATH} here, name one with --key FILE, or say with \
             --no-key that none is meant"
        );
        return Err(Failure::new(Code::Usage, text).found(Fault::NoKey).into());
    }
    Severity::Warning.print(&format!(
        "no key: {WITHOUT}; `ethbcast key new` makes one, --no-key means none"
    ));
    Ok(None)
}

/// Returns the key of a session, if there is one. A key that is there and cannot be used is an
/// error.
pub fn resolve(args: &KeySourceArgs) -> anyhow::Result<Option<Arc<Keys>>> {
    let keys = found(args)?;
    if keys.is_none() && args.require_key {
        let text = format!(
            "--require-key, and there is no key: name one with --key FILE, or put one at {KEY_PATH}"
        );
        return Err(Failure::new(Code::Usage, text).found(Fault::NoKey).into());
    }
    let Some(keys) = keys else {
        if args.key_log.is_some() {
            print_line(format_args!(
                "ethbcast: without a key there are no secrets: --key-log is ignored"
            ));
        }
        return Ok(None);
    };
    hide();
    let log = args.key_log.as_deref().map(open_log).transpose()?;
    Ok(Some(Arc::new(match log {
        Some(log) => keys.logged(log),
        None => keys,
    })))
}

/// Opens a log of secrets, which only this user may read.
fn open_log(path: &Path) -> anyhow::Result<KeyLog> {
    let (shown, mut options) = (path.display().to_string(), OpenOptions::new());
    let file = options
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path);
    let file = file.map_err(|error| {
        Failure::new(
            Code::System,
            format!("cannot log secrets in {shown}: {error}"),
        )
    })?;
    let about = file.metadata().code(Code::System)?;
    if !about.is_file() || about.uid() != geteuid().as_raw() || about.mode() & 0o077 != 0 {
        let text = format!(
            "{shown} is not this user's, or others can read it: name another file for --key-log"
        );
        return Err(Failure::new(Code::System, text)
            .found(Fault::KeyMode)
            .into());
    }
    print_line(format_args!(
        "ethbcast: secrets are logged in {shown}: who reads it can read a capture of the session"
    ));
    Ok(KeyLog::new(move |line| {
        if let Err(error) = (&file).write_all(line.as_bytes()) {
            log::warn!("a secret is not logged in {shown}: {error}");
        }
    }))
}

/// Returns the key of a sender, which must have the right to send.
pub fn sending(args: &KeySourceArgs) -> anyhow::Result<Option<Arc<Keys>>> {
    let keys = resolve(args)?;
    if keys.as_ref().is_some_and(|keys| !keys.may_send()) {
        let text = "this key is a receiver's: send from a host whose key file has a `sign` line";
        return Err(Failure::new(Code::Usage, text).found(Fault::NoSend).into());
    }
    Ok(keys)
}

fn found(args: &KeySourceArgs) -> anyhow::Result<Option<Keys>> {
    if args.no_key {
        return Ok(None);
    }
    if args.key_phrase {
        if TYPED.get().is_none() {
            let typed = read_phrase()?;
            TYPED.get_or_init(|| typed);
        }
        return phrase(TYPED.get().expect("it has been asked for")).map(Some);
    }
    if let Some(path) = &args.key {
        return read(path).map(Some);
    }
    if let Some(typed) = std::env::var_os(PHRASE_VARIABLE) {
        let typed = Zeroizing::new(typed.into_string().unwrap_or_default());
        return phrase(&typed).map(Some);
    }
    usable(key_of_system())
}

fn phrase(typed: &str) -> anyhow::Result<Keys> {
    usable(key_of_phrase(typed))
}

pub fn read(path: &Path) -> anyhow::Result<Keys> {
    usable(key_of_file(path))
}

fn usable<T>(key: Result<T, KeyError>) -> anyhow::Result<T> {
    key.map_err(|error| match error.fault {
        KeyFault::Phrase => Failure::new(Code::Usage, error).found(Fault::Phrase).into(),
        KeyFault::Mode => Failure::new(Code::System, error)
            .found(Fault::KeyMode)
            .into(),
        KeyFault::Text => Failure::new(Code::Usage, error).into(),
        _ => Failure::new(Code::System, error).into(),
    })
}

/// Reads a line by single bytes, so that no buffer keeps a copy, until one of these signals is
/// pending.
fn read_line(terminal: &mut File, typed: &mut String, signals: &SignalFd) -> io::Result<()> {
    let mut byte = [0];
    while typed.len() < 255 {
        let mut ready =
            [signals.as_fd(), terminal.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
        poll(&mut ready, PollTimeout::NONE)?;
        if ready[0].any() == Some(true) || terminal.read(&mut byte)? == 0 || byte[0] == b'\n' {
            break;
        }
        typed.push(char::from(byte[0]));
    }
    byte[0].zeroize();
    Ok(())
}

/// Opens the terminal, to read and to write. The init process of an initramfs, and a shell there,
/// have none of their own, but the console as input and stderr.
fn terminal() -> Option<(File, File)> {
    let own = || {
        Some((
            File::open("/dev/tty").ok()?,
            File::options().write(true).open("/dev/tty").ok()?,
        ))
    };
    let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let output = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    own().or_else(|| Some((input.ok().filter(File::is_terminal)?, output.ok()?)))
}

fn read_phrase() -> anyhow::Result<Zeroizing<String>> {
    let Some((mut terminal, mut shown)) = terminal() else {
        return fail(
            Code::Usage,
            "--key-phrase needs a terminal, and there is none: set ETHBCAST_KEY instead",
        );
    };
    // A signal waits until the terminal is as it was.
    let held: SigSet = [
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGHUP,
    ]
    .into_iter()
    .collect();
    let signals = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).code(Code::System)?;
    let before = held
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .code(Code::System)?;
    let usual = tcgetattr(&terminal).code(Code::System)?;
    let mut silent = usual.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    shown.write_all(b"key phrase: ").code(Code::System)?;
    tcsetattr(&terminal, SetArg::TCSANOW, &silent).code(Code::System)?;
    let mut typed = Zeroizing::new(String::with_capacity(256));
    let line = read_line(&mut terminal, &mut typed, &signals);
    tcsetattr(&terminal, SetArg::TCSANOW, &usual).code(Code::System)?;
    shown.write_all(b"\n").code(Code::System)?;
    before.thread_set_mask().code(Code::System)?;
    line.code(Code::System)?;
    Ok(typed)
}

/// Denies other processes of this user the memory and the environment of this one, in which the key
/// is, and lets the kernel write no core.
pub fn hide() {
    if let Err(error) = prctl::set_dumpable(false) {
        log::warn!("others of this user can read this process: {error}");
    }
}
