//! The other tools of this machine: which there are, and what is to be installed to have the rest.

use anyhow::bail;

use crate::mpi::{self, Mpi};
use crate::tools::{Tool, is_installed};

/// An MPI, as it comes or with frames as Ethernet carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiPeer {
    mpi: Mpi,
    is_cut: bool,
}

impl MpiPeer {
    /// Which MPI.
    pub fn mpi(self) -> Mpi {
        self.mpi
    }

    /// Whether TCP hands the interface frames of a cable's size.
    pub fn is_cut(self) -> bool {
        self.is_cut
    }

    /// What it is called.
    pub fn name(self) -> String {
        let name = match self.mpi {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        };
        format!("{name}{}", if self.is_cut { ", wire-size frames" } else { "" })
    }
}

/// The tools that are measured beside ours.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    tools: Vec<Tool>,
    mpis: Vec<MpiPeer>,
    skipped: Vec<(String, String)>,
}

impl Peers {
    /// Looks for all of them.
    ///
    /// # Errors
    /// If there is none but the TCP chain, which is our own: what to install.
    pub fn find() -> anyhow::Result<Self> {
        let mut peers = Self::default();
        for tool in Tool::PEERS {
            match tool.missing() {
                None => peers.tools.push(tool),
                Some(why) => peers.skipped.push((tool.name(), why)),
            }
        }
        for mpi in Mpi::ALL {
            let [whole, cut] = [false, true].map(|is_cut| MpiPeer { mpi, is_cut });
            match mpi::missing(mpi) {
                Some(why) => peers.skipped.push((whole.name(), why)),
                None if is_installed("ethtool") => peers.mpis.extend([whole, cut]),
                None => {
                    peers.mpis.push(whole);
                    peers.skipped.push((cut.name(), "no ethtool here: install the package ethtool".to_owned()));
                }
            }
        }
        let is_foreign = |tool: &Tool| !matches!(tool, Tool::TcpChain | Tool::TcpChainCut);
        if peers.mpis.is_empty() && !peers.tools.iter().any(is_foreign) {
            bail!(
                "none of the other tools is installed here: `apt install udpcast uftp` for files, `openmpi-bin \
                 libopenmpi-dev` or `mpich libmpich-dev` for messages, or leave out --peers"
            );
        }
        Ok(peers)
    }

    /// Those that send files.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Those that send messages.
    pub fn mpis(&self) -> &[MpiPeer] {
        &self.mpis
    }

    /// Those that are not here, and what to do about it.
    pub fn skipped(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// The versions of those that say one.
    pub fn versions(&self) -> Vec<(String, String)> {
        let whole = self.mpis.iter().filter(|peer| !peer.is_cut());
        let version = |peer: &MpiPeer| {
            let said = mpi::version(peer.mpi()).ok()?;
            Some((peer.name(), said.trim_start_matches(&peer.name()).trim().to_owned()))
        };
        whole.filter_map(version).collect()
    }
}
