//! Test helper: sends the frames again that a receiver lacks because its former relay died.

use ethbcast_transport::Instant;
use ethbcast_transport::stream::LostRange;
use std::collections::BTreeMap;
use std::time::Duration;

/// Frames of one child's gap that the root sends in a turn: half of the cable's rate.
const TURN_FRAMES: u64 = 16;
const PATIENCE: Duration = Duration::from_millis(30);

struct Filling {
    from: u64,
    next: u64,
    since: Instant,
}

#[derive(Default)]
pub struct Gaps {
    reports: BTreeMap<usize, LostRange>,
    fillings: BTreeMap<usize, Filling>,
    reported: u64,
}

impl Gaps {
    pub fn reported(&self) -> u64 {
        self.reported
    }

    pub fn report(&mut self, orphans: Vec<LostRange>) {
        self.reported += orphans.len() as u64;
        self.reports.extend(
            orphans
                .into_iter()
                .map(|orphan| (orphan.rank.index(), orphan)),
        );
    }

    pub fn fill(&mut self, now: Instant, mut write: impl FnMut(usize, u64)) {
        for (child, orphan) in std::mem::take(&mut self.reports) {
            let fresh = Filling {
                from: orphan.from,
                next: orphan.from,
                since: now,
            };
            let filling = self.fillings.entry(child).or_insert(fresh);
            if orphan.from > filling.from {
                *filling = Filling {
                    from: orphan.from,
                    next: filling.next.max(orphan.from),
                    since: now,
                };
            } else if now.since(filling.since) > PATIENCE {
                *filling = Filling {
                    from: orphan.from,
                    next: orphan.from,
                    since: now,
                };
            }
            let end = orphan.to.min(filling.next + TURN_FRAMES);
            while filling.next < end {
                let sequence = filling.next;
                write(child, sequence);
                filling.next += 1;
            }
            // The child's next acknowledgement may be some time away.
            if filling.next < orphan.to {
                self.reports.insert(child, orphan);
            }
        }
    }
}
