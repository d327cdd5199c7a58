//! A host that speaks another version of the protocol.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::VERSION;
use std::fmt;

/// A host with another build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBuild {
    /// Its address.
    pub mac: MacAddr,
    /// Its name, if it has said it where it can be read.
    pub host: Option<String>,
    /// The version it speaks.
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
