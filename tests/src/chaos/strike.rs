//! Carries out the deeds of a scenario.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::attacker::Attacker;
use super::play::Play;
use super::receiver::Receiver;
use super::relay::Relay;
use super::scenario::{Attack, Deed, Event, ROOT, STRANGER};
use crate::lab::{SmallDisk, ThinDisk, faults, power_off, within};

/// Size of the session that an attacker records before it replays it.
const REHEARSED_BYTES: u64 = 256 << 10;
const REHEARSAL: Duration = Duration::from_secs(20);

impl Deed {
    pub fn starts_a_program(self) -> bool {
        matches!(self, Deed::Restart | Deed::Send)
    }
}

pub trait Strike {
    fn strike(&mut self, event: &Event) -> anyhow::Result<()>;

    fn prepare_attack(&mut self) -> anyhow::Result<()>;
}

impl Strike for Play<'_> {
    fn strike(&mut self, event: &Event) -> anyhow::Result<()> {
        let host = event.host.as_str();
        match event.deed {
            Deed::Kill => signal(self, host, Signal::SIGKILL)?,
            Deed::Terminate => signal(self, host, Signal::SIGTERM)?,
            Deed::Stop => signal(self, host, Signal::SIGSTOP)?,
            Deed::Continue => signal(self, host, Signal::SIGCONT)?,
            Deed::PowerOff => power_off(self.lab(), host)?,
            Deed::Faults(which, way, fraction) => {
                self.lab().set_faults(host, &faults(self.lab(), which, way, fraction)?)?;
            }
            Deed::Heal => self.lab().set_faults(host, &[])?,
            Deed::Loss(fraction) => self.lab().set_loss(host, fraction)?,
            Deed::Port(up) => self.lab().set_port(host, up)?,
            Deed::Link(up) => self.lab().set_link(host, up)?,
            Deed::Detour(manners) => {
                let relay = Relay::start(self.lab(), host, manners, self.scenario.seed)?;
                self.relays.push(relay);
            }
            Deed::SmallDisk(bytes) => {
                let disk = SmallDisk::mount(&self.directory(host), bytes)?;
                self.small_disks.push((host.to_owned(), disk));
            }
            Deed::ThinDisk(room_mib) => {
                let store = self.directory(&format!("store-{host}"));
                fs::create_dir(&store)?;
                self.thin_disks.push(ThinDisk::make(&store, &self.directory(host), room_mib)?);
            }
            Deed::FillDisk => {
                let mut own = self.small_disks.iter().filter(|(of, _)| of == host);
                own.try_for_each(|(_, disk)| disk.fill())?;
            }
            Deed::Restart => self.start_again(host)?,
            Deed::Attack(_) => self.attacker.iter().for_each(Attacker::speak),
            Deed::Send => {
                let (seed, bytes) = (self.scenario.seed, self.scenario.bytes);
                self.second = Some(self.sender(STRANGER, !seed, bytes / 2 + 1)?);
            }
        }
        Ok(())
    }

    fn prepare_attack(&mut self) -> anyhow::Result<()> {
        let attack = self.pending.iter().find_map(|pending| match pending.event.deed {
            Deed::Attack(attack) => Some(attack),
            _ => None,
        });
        let Some(attack) = attack else { return Ok(()) };
        self.attacker = Some(Attacker::start(self.lab(), attack, self.scenario.seed)?);
        if attack == Attack::Old { rehearse(self) } else { Ok(()) }
    }
}

fn signal(play: &mut Play, host: &str, signal: Signal) -> anyhow::Result<()> {
    play.processes().filter(|(of, _)| *of == host).try_for_each(|(_, process)| process.signal(signal))
}

fn rehearse(play: &mut Play) -> anyhow::Result<()> {
    let directory = play.directory("rehearsal");
    let start = |host: String| {
        let own = directory.join(&host);
        fs::create_dir_all(&own)?;
        Receiver::start(play.stage, play.lab(), &host, &own, false)
    };
    let mut receivers = play.hosts().into_iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let mut root = play.sender(ROOT, 0, REHEARSED_BYTES)?;
    within(REHEARSAL, || {
        let mut all = receivers.iter_mut().map(|receiver| &mut receiver.process).chain([&mut root]);
        all.all(|process| matches!(process.ended(), Ok(Some(_)))).then_some(())
    });
    drop((receivers, root));
    fs::remove_dir_all(&directory)?;
    Ok(())
}
