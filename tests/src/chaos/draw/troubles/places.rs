//! Troubles of disks, and of other hosts on the Ethernet.

use std::time::Duration;

use super::{Drawing, event};
use crate::chaos::Class;
use crate::chaos::scenario::{Attack, Deed, Due, Promise, STRANGER, Trouble};

const DISK: &[i32] = &[0, 4];

impl Drawing<'_> {
    pub(super) fn disk(&mut self) -> Trouble {
        let host = self.hosts.take(self.random);
        let bytes = self.scenario.bytes;
        let before = |deed| event(&host, deed, Due::Before, Duration::ZERO);
        let (words, events, keeps_out) = match self.random.below(3) {
            0 => {
                let room = bytes / 4 + self.random.below(bytes / 2);
                (format!("{host} has room for {room} bytes"), vec![before(Deed::SmallDisk(room))], true)
            }
            1 => {
                let due = self.on_the_way();
                let fill = event(&host, Deed::FillDisk, due, Duration::ZERO);
                (format!("{host}'s disk is filled"), vec![before(Deed::SmallDisk(bytes + (2 << 20))), fill], false)
            }
            _ => {
                let room = 1 + ((bytes / 3) >> 20);
                let words = format!("{host}'s disk loses what is more than {room} MiB");
                // The file system's own needs.
                (words, vec![before(Deed::ThinDisk(room + 2))], false)
            }
        };
        let extra = self.gone() + if keeps_out { self.terms.receive_wait } else { Duration::ZERO };
        Trouble { events, marred: vec![(host, DISK)], keeps_out, extra, ..Self::nothing(Class::Disk, words) }
    }

    pub(super) fn operators(&mut self) -> Trouble {
        let (phase, due, then) = match self.random.below(3) {
            0 => ("at once", Due::Start, Duration::ZERO),
            1 => ("while the first gathers", Due::Start, self.seconds(0.0, 0.3)),
            _ => ("meanwhile", self.on_the_way(), Duration::ZERO),
        };
        let events = vec![event(STRANGER, Deed::Send, due, then)];
        let extra = self.terms.receive_wait * 2;
        let words = format!("a second sender {phase}");
        Trouble { events, promise: Promise::Either, extra, ..Self::nothing(Class::Operators, words) }
    }

    pub(super) fn attack(&mut self) -> Trouble {
        let attack = self.one_of(&[Attack::Old, Attack::Echo, Attack::Forge]);
        let due = if self.random.chance(0.5) { Due::Start } else { self.on_the_way() };
        let events = vec![event(STRANGER, Deed::Attack(attack), due, Duration::ZERO)];
        let promise = if attack == Attack::Forge { Promise::Forged } else { Promise::File };
        let words = match attack {
            Attack::Old => "replays an old session",
            Attack::Echo => "replays this session",
            Attack::Forge => "forges frames of this session",
        };
        let extra = (self.gone() + self.terms.receive_wait) * 2 + self.scenario.transfer() * 4;
        Trouble { events, promise, extra, ..Self::nothing(Class::Attack, words.to_owned()) }
    }
}
