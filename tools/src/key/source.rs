//! Search for a transfer's key: options, environment, systemd credentials, files.

use crate::args::KeySourceArgs;
use crate::doctor::Fault;
use crate::exit::{Code, Failure, WithCode, fail, print_line};
use crate::serve::Severity;
use ethbcast_collectives::keys::{KEY_PATH, Keys};
use ethbcast_collectives::membership::live::{KeyError, KeyFault, key_of_file, key_of_host, key_of_phrase};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::geteuid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use zeroize::{Zeroize, Zeroizing};

/// The phrase as it was typed: the user is asked once per run.
static TYPED: OnceLock<Zeroizing<String>> = OnceLock::new();

const WITHOUT: &str = "any host on this network can read what is sent, send in another's place and take its names";

/// Says that a session has no key, unless that is meant.
pub fn print_missing(keys: Option<&Arc<Keys>>, args: &KeySourceArgs, quiet: bool) {
    if keys.is_none() && !args.no_key && !quiet {
        print_line(format_args!("ethbcast: no key: {WITHOUT}; `ethbcast key new` makes one, --no-key means none"));
    }
}

/// Returns the key of a receiver that stays, which as root needs one: it writes what any host sends. Another user is
/// warned at each start.
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
    Severity::Warning.print(&format!("no key: {WITHOUT}; `ethbcast key new` makes one, --no-key means none"));
    Ok(None)
}

/// Returns the key of a session, if there is one. A key that is there and cannot be used is an error.
pub fn resolve(args: &KeySourceArgs) -> anyhow::Result<Option<Arc<Keys>>> {
    let keys = found(args)?;
    if keys.is_none() && args.require_key {
        let text = format!("--require-key, and there is no key: name one with --key FILE, or put one at {KEY_PATH}");
        return Err(Failure::new(Code::Usage, text).found(Fault::NoKey).into());
    }
    Ok(keys.map(|keys| {
        super::rights::hide();
        Arc::new(keys)
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

/// Refuses a command that speaks without a key on a host that has one, unless that is meant.
pub fn refuse(args: &KeySourceArgs, command: &str) -> anyhow::Result<()> {
    let Some(keys) = resolve(args)? else { return Ok(()) };
    let text = format!(
        "{command} uses no keys yet, and this host has key {}: its frames would be neither authenticated nor \
         encrypted; --no-key says that this is meant",
        keys.name()
    );
    Err(Failure::new(Code::Usage, text).found(Fault::Unkeyed).into())
}

fn found(args: &KeySourceArgs) -> anyhow::Result<Option<Keys>> {
    if args.no_key {
        return Ok(None);
    }
    if args.key_phrase {
        if TYPED.get().is_none() {
            let typed = asked()?;
            TYPED.get_or_init(|| typed);
        }
        return phrase(TYPED.get().expect("it has been asked for")).map(Some);
    }
    let found = args.key.as_deref().map_or_else(key_of_host, |path| key_of_file(path).map(Some));
    found.map_err(failure)
}

fn phrase(typed: &str) -> anyhow::Result<Keys> {
    key_of_phrase(typed).map_err(failure)
}

pub fn read(path: &Path) -> anyhow::Result<Keys> {
    key_of_file(path).map_err(failure)
}

fn failure(error: KeyError) -> anyhow::Error {
    let (code, fault) = match error.fault {
        KeyFault::Phrase => (Code::Usage, Some(Fault::Phrase)),
        KeyFault::Mode => (Code::System, Some(Fault::KeyMode)),
        KeyFault::Text => (Code::Usage, None),
        _ => (Code::System, None),
    };
    Failure::new(code, error).found(fault).into()
}

/// Reads a line by single bytes, so that no buffer keeps a copy, until one of these signals is pending.
fn read_line(terminal: &mut File, typed: &mut String, signals: &SignalFd) -> io::Result<()> {
    let mut byte = [0];
    while typed.len() < 255 {
        let mut ready = [signals.as_fd(), terminal.as_fd()].map(|file| PollFd::new(file, PollFlags::POLLIN));
        poll(&mut ready, PollTimeout::NONE)?;
        if ready[0].any() == Some(true) || terminal.read(&mut byte)? == 0 || byte[0] == b'\n' {
            break;
        }
        typed.push(char::from(byte[0]));
    }
    byte[0].zeroize();
    Ok(())
}

fn asked() -> anyhow::Result<Zeroizing<String>> {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let Ok(mut terminal) = terminal else {
        return fail(Code::Usage, "--key-phrase asks on the terminal, and there is none: set ETHBCAST_KEY instead");
    };
    // A signal waits until the terminal is as it was.
    let held: SigSet = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let signals = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).code(Code::System)?;
    let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK).code(Code::System)?;
    let usual = tcgetattr(&terminal).code(Code::System)?;
    let mut silent = usual.clone();
    silent.local_flags.remove(LocalFlags::ECHO);
    terminal.write_all(b"key phrase: ").code(Code::System)?;
    tcsetattr(&terminal, SetArg::TCSANOW, &silent).code(Code::System)?;
    let mut typed = Zeroizing::new(String::with_capacity(256));
    let line = read_line(&mut terminal, &mut typed, &signals);
    tcsetattr(&terminal, SetArg::TCSANOW, &usual).code(Code::System)?;
    terminal.write_all(b"\n").code(Code::System)?;
    before.thread_set_mask().code(Code::System)?;
    line.code(Code::System)?;
    Ok(typed)
}
