//! Protection of a process that has a key: others cannot read its memory, and it gives up
//! privileges.

use ethbcast_collectives::keys::Keys;
use nix::sys::prctl;
use std::sync::Arc;

/// Denies other processes of this user the memory and the environment of this one, in which the key is, and lets the
/// kernel write no core.
pub fn hide() {
    if let Err(error) = prctl::set_dumpable(false) {
        log::warn!("others of this user can read this process: {error}");
    }
}

/// Makes sure that a session with a key starts no program with more rights than it has. The commands of the user are
/// none of its business: where there are some, they keep what they could do.
///
/// This holds for the calling thread and those that it starts from now on. A program with file capabilities must have
/// started the process that watches it before.
pub fn keep_to_own(keys: Option<&Arc<Keys>>, commands: [&Option<String>; 2]) {
    if keys.is_none() || commands.iter().any(|command| command.is_some()) {
        return;
    }
    if let Err(error) = prctl::set_no_new_privs() {
        log::warn!("programs that this process starts can gain rights: {error}");
    }
}
