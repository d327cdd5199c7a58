//! The other tools on this machine, and the packages to install for the missing ones.

use anyhow::bail;

use crate::mpi::{self, Mpi};
use crate::tools::{Tool, is_installed};

/// An MPI, with or without TCP offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpiPeer {
    mpi: Mpi,
    is_cut: bool,
}

impl MpiPeer {
    /// Returns the MPI.
    pub fn mpi(self) -> Mpi {
        self.mpi
    }

    /// Whether TCP sends frames of the MTU's size.
    pub fn is_cut(self) -> bool {
        self.is_cut
    }

    /// Returns the name in the report.
    pub fn name(self) -> String {
        let name = match self.mpi {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        };
        format!("{name}{}", if self.is_cut { ", wire-size frames" } else { "" })
    }
}

/// The other tools that are measured.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    tools: Vec<Tool>,
    mpis: Vec<MpiPeer>,
    skipped: Vec<(String, String)>,
}

impl Peers {
    /// Looks for all tools.
    ///
    /// # Errors
    /// If there is none except the built-in TCP chain, with the packages to install.
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

    /// Returns the tools that send files.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Returns the tools that send messages.
    pub fn mpis(&self) -> &[MpiPeer] {
        &self.mpis
    }

    /// Returns the missing tools, with advice.
    pub fn skipped(&self) -> &[(String, String)] {
        &self.skipped
    }

    /// Returns the versions of the tools that report one.
    pub fn versions(&self) -> Vec<(String, String)> {
        let whole = self.mpis.iter().filter(|peer| !peer.is_cut());
        let version = |peer: &MpiPeer| {
            let said = mpi::version(peer.mpi()).ok()?;
            Some((peer.name(), said.trim_start_matches(&peer.name()).trim().to_owned()))
        };
        whole.filter_map(version).collect()
    }
}
