//! Finding the network interface to use, in the calling thread's network namespace.
//!
//! Everything is asked of the kernel by `getifaddrs` and `ioctl`: `/sys/class/net` shows the namespace it was mounted
//! in, not the one we are in.

use super::error::Errno;
use super::syscall;
use crate::MacAddr;
use nix::errno::Errno as SystemErrno;
use pnet_datalink::NetworkInterface;

/// An Ethernet interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as in `ip link`.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Its own address.
    pub mac: MacAddr,
    /// The largest payload of one frame; the 14 bytes of the Ethernet header come on top.
    pub mtu_bytes: usize,
}

/// Why there is no interface to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceError {
    /// No interface has that name.
    #[error("there is no interface {name}: choose one of {} with -i", list(.known))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names of Ethernet interfaces that there are.
        known: Vec<String>,
    },
    /// The interface is there but switched off.
    #[error("interface {name} is down: bring it up with `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface does not carry Ethernet frames (or is the loopback interface).
    #[error("interface {name} is not an Ethernet interface: choose another with -i")]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// No name was given and no interface would do.
    #[error("no Ethernet interface is up among {}: bring one up with `ip link set NAME up`", list(.known))]
    NoneUsable {
        /// The names there are.
        known: Vec<String>,
    },
    /// No name was given and several interfaces would do.
    #[error("several Ethernet interfaces are up ({}): say which with -i", list(.usable))]
    Ambiguous {
        /// The interfaces that would do.
        usable: Vec<String>,
    },
    /// The kernel would not tell about the interface.
    #[error("cannot read the settings of interface {name} ({errno}): check it with `ip link show {name}`")]
    System {
        /// The interface.
        name: String,
        /// The kernel's reason.
        errno: Errno,
    },
}

impl Interface {
    /// The interface called `name`; without a name, the only Ethernet interface that is up (and has a cable, if several
    /// are up).
    ///
    /// # Errors
    ///
    /// See [`InterfaceError`].
    pub fn find(name: Option<&str>) -> Result<Interface, InterfaceError> {
        let all = pnet_datalink::interfaces();
        match name {
            Some(name) => Self::named(name, &all),
            None => Self::only(&all),
        }
    }

    fn named(name: &str, all: &[NetworkInterface]) -> Result<Interface, InterfaceError> {
        let Some(found) = all.iter().find(|it| it.name == name) else {
            return Err(InterfaceError::Unknown {
                name: name.to_owned(),
                known: names(all.iter().filter(|it| is_ethernet(it).unwrap_or(true))),
            });
        };
        if !is_ethernet(found)? {
            return Err(InterfaceError::NotEthernet { name: name.to_owned() });
        }
        if !found.is_up() {
            return Err(InterfaceError::Down { name: name.to_owned() });
        }
        Self::describe(found)
    }

    fn only(all: &[NetworkInterface]) -> Result<Interface, InterfaceError> {
        let mut usable = Vec::new();
        for it in all {
            if it.is_up() && is_ethernet(it)? {
                usable.push(it);
            }
        }
        // An unused bridge or a port without a cable is no reason to ask back.
        if usable.len() > 1 && usable.iter().any(|it| it.is_lower_up()) {
            usable.retain(|it| it.is_lower_up());
        }
        match usable[..] {
            [] => Err(InterfaceError::NoneUsable { known: names(all) }),
            [it] => Self::describe(it),
            _ => Err(InterfaceError::Ambiguous { usable: names(usable.iter().copied()) }),
        }
    }

    fn describe(found: &NetworkInterface) -> Result<Interface, InterfaceError> {
        let name = found.name.clone();
        let (_, mac) = syscall::interface_hardware(&name).map_err(|errno| system(&name, errno))?;
        let mtu_bytes = syscall::interface_mtu_bytes(&name).map_err(|errno| system(&name, errno))?;
        Ok(Interface { name, index: found.index, mac, mtu_bytes })
    }
}

fn is_ethernet(it: &NetworkInterface) -> Result<bool, InterfaceError> {
    match syscall::interface_hardware(&it.name) {
        Ok((kind, _)) => Ok(kind == libc::ARPHRD_ETHER && !it.is_loopback()),
        // It went away after it was listed.
        Err(SystemErrno::ENODEV) => Ok(false),
        Err(errno) => Err(system(&it.name, errno)),
    }
}

fn system(name: &str, errno: SystemErrno) -> InterfaceError {
    InterfaceError::System { name: name.to_owned(), errno: Errno::new(errno) }
}

fn names<'a>(all: impl IntoIterator<Item = &'a NetworkInterface>) -> Vec<String> {
    let mut names: Vec<String> = all.into_iter().map(|it| it.name.clone()).collect();
    names.sort();
    names
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "(none)".to_owned() } else { names.join(", ") }
}
