//! A host with another protocol version.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::VERSION;
use std::fmt;

/// A host with another build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBuild {
    /// Its address.
    pub mac: MacAddr,
    /// Its name, if readable in that version's frames.
    pub host: Option<String>,
    /// Its protocol version.
    pub version: u8,
}

impl fmt::Display for OtherBuild {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherBuild { mac, host, version } = self;
        match host {
            Some(host) => write!(formatter, "{host} ({mac})")?,
            None => write!(formatter, "{mac}")?,
        }
        write!(formatter, " speaks version {version} of the protocol, this ethbcast {VERSION}: install the same build")
    }
}
