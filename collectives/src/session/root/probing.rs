//! A short look at the network before the plan is made, if nobody has measured it (Patarasuk 2008 §5.1).

use super::{Phase, Root};
use crate::measure::{ProbeSettings, Prober, calibrate};
use ethbcast_transport::wire::{Header, Peer};

impl Root {
    /// Everybody is there: measures, or starts at once if what the network costs is known or does not matter.
    pub(super) fn probe_or_start(&mut self) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        if self.prober.is_some() {
            return;
        }
        if !self.config.probe || self.config.calibration.is_some() {
            self.start();
            return;
        }
        let station = &self.config.station;
        let identity = station.identity(self.config.session, Header::NO_RANK);
        let candidates = &gathering.candidates;
        // One receiver gets all of the time: with a share of it, what a bucket or a buffer lets through would pass for the link's rate.
        let speaker = &candidates[candidates.len() / 2];
        let targets = vec![Peer { rank: 0, mac: speaker.mac }];
        let settings = ProbeSettings::short(usize::from(station.mtu_bytes));
        self.prober = Some(Prober::new(self.now, identity, targets, settings));
    }

    /// Goes on to the start when the measurement is done.
    pub(super) fn watch_probe(&mut self) {
        let Some(prober) = self.prober.take_if(|prober| prober.is_done()) else { return };
        let result = prober.result();
        match calibrate(&result) {
            Ok(calibration) => {
                log::info!("probed: {:?}, loss {:.4}", calibration.points(), calibration.loss());
                self.config.calibration = Some(calibration);
            }
            Err(error) => log::warn!("the short probe found out too little ({error}); cables of 1 Gbit/s are assumed"),
        }
        self.start();
    }
}
