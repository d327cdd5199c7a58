//! Insertion of a program into a host's cable, which forwards the frames and may change them.

use crate::error::LabError;
use crate::faults::port_to;
use crate::program::{IP, batch, run};

/// Two interfaces in the switches' namespace, between which a program must forward all frames of a
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    pub towards_host: String,
    pub towards_switch: String,
}

/// Takes the port of `host` off its switch, and connects a new port to an interface beside it.
pub(crate) fn lead(host: &str) -> Result<Detour, LabError> {
    let port = port_to(host)?;
    let shown = run(IP, &["-o", "link", "show", "dev", &port], "", "looking at a port")?;
    let word_after = |name: &str| shown.split_whitespace().skip_while(|word| *word != name).nth(1).map(str::to_owned);
    let (bridge, mtu) = (word_after("master"), word_after("mtu"));
    let bridge = bridge.expect("a port of a lab is a switch's, and a cable is led past one program");
    let mtu = mtu.expect("every interface has an MTU");
    let (near, far) = (format!("d{port}"), format!("{port}d"));
    let script = format!(
        "link add {near} mtu {mtu} type veth peer name {far} mtu {mtu}\nlink set {far} master {bridge} up\n\
         link set {near} up\nlink set {port} nomaster\n"
    );
    batch(IP, &script, "leading a cable past a program")?;
    Ok(Detour { towards_host: port, towards_switch: near })
}

pub(crate) fn set_learning(host: &str, on: bool) -> Result<(), LabError> {
    let (port, word) = (port_to(host)?, if on { "on" } else { "off" });
    batch(IP, &format!("link set {port} type bridge_slave learning {word}\n"), "setting what a port learns")
}
