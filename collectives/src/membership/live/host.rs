//! What this host is called.

use nix::sys::stat::stat;

/// The name given, or `$ETHBCAST_HOST`, or the name of the network namespace this process runs in (so that hosts that
/// share one machine differ), or the hostname.
pub fn name(given: Option<&str>) -> String {
    given
        .map(str::to_owned)
        .or_else(|| std::env::var("ETHBCAST_HOST").ok())
        .or_else(namespace)
        .or_else(hostname)
        .unwrap_or_else(|| "localhost".to_owned())
}

fn hostname() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// The name of the namespace under `/run/netns`.
fn namespace() -> Option<String> {
    let own = stat("/proc/self/ns/net").ok()?;
    if stat("/proc/1/ns/net").is_ok_and(|init| init.st_ino == own.st_ino) {
        return None;
    }
    let entries = std::fs::read_dir("/run/netns").ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find(|name| {
        stat(format!("/run/netns/{name}").as_str()).is_ok_and(|at| at.st_ino == own.st_ino && at.st_dev == own.st_dev)
    })
}
