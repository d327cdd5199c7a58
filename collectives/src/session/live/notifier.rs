//! Progress and events of a running transfer, reported to the caller's callback.

use super::history::{History, bytes_of};
use super::options::{Progress, ProgressPlace, RunOptions};
use crate::session::application::Coverage;
use crate::session::blocks::Blocks;
use crate::session::message::{MemberState, Status};
use crate::session::receiver::Receiver;
use crate::session::root::{Root, RootEvent};
use crate::session::verified::Form;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{Counters, Port};
use ethbcast_transport::wire::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct Notifier<'a> {
    options: &'a RunOptions,
    form: Form,
    notified_at: Option<Instant>,
    blocked: BTreeMap<Rank, u32>,
    away: Notified,
    no_link: Notified,
    history: History,
}

struct Notified {
    flag: Arc<AtomicBool>,
    told: bool,
}

impl Notified {
    fn new(flag: Arc<AtomicBool>) -> Notified {
        Notified { flag, told: false }
    }

    fn news(&mut self) -> Option<bool> {
        let is = self.flag.load(Ordering::Relaxed);
        (is != std::mem::replace(&mut self.told, is)).then_some(is)
    }
}

impl<'a> Notifier<'a> {
    pub(super) fn new(options: &'a RunOptions, form: Form, port: &Port) -> Notifier<'a> {
        Notifier {
            options,
            form,
            notified_at: None,
            blocked: BTreeMap::new(),
            away: Notified::new(port.away_flag()),
            no_link: Notified::new(port.no_link_flag()),
            history: History::default(),
        }
    }

    fn look_at_interface(&mut self) {
        if let Some(away) = self.away.news() {
            self.options.notify(Progress::Interface { away });
        }
        if let Some(lost) = self.no_link.news() {
            self.options.notify(Progress::Link { lost });
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self
            .notified_at
            .is_none_or(|at| now.since(at) >= self.options.progress_every);
        if due {
            self.notified_at = Some(now);
        }
        due
    }

    pub(super) fn root_event(&mut self, now: Instant, event: &RootEvent) {
        self.options.notify(Progress::Sender(event));
        self.history.record(event, now);
    }

    /// Reports progress. `covered` converts bytes of the stream to the bytes of the content that
    /// they complete.
    pub(super) fn root_moved(
        &mut self,
        root: &Root,
        mut covered: impl FnMut(u64) -> Option<u64>,
        now: Instant,
    ) {
        self.look_at_interface();
        self.history.note(root, self.form, now);
        for (rank, _) in root
            .states()
            .filter(|(_, status)| status.state == MemberState::Blocked)
        {
            *self.blocked.entry(rank).or_default() += 1;
        }
        let Some(view) = root.view() else { return };
        if root.states().next().is_none() || !self.is_due(now) {
            return;
        }
        let mut place = |(
            rank,
            Status {
                state, consumed, ..
            },
        ): (Rank, Status)| {
            let (host, came) = (
                view.members[rank.index()].host.as_str(),
                bytes_of(consumed, view, self.form),
            );
            let stream = consumed.saturating_mul(u64::from(view.payload_bytes));
            ProgressPlace {
                host,
                state,
                bytes: covered(stream).unwrap_or(came),
                came,
            }
        };
        let members: Vec<ProgressPlace<'_>> = root.states().map(&mut place).collect();
        let slowest = root
            .states()
            .min_by_key(|(_, status)| status.consumed)
            .map(place);
        self.options.notify(Progress::Moved {
            bytes: slowest.map_or(0, |slowest| slowest.bytes),
            came: slowest.map_or(0, |slowest| slowest.came),
            slowest: slowest.map(|slowest| (slowest.host, slowest.state)),
            members: &members,
            resent_frames: root.stream_stats().data_resent,
        });
    }

    pub(super) fn receiver_moved(&mut self, receiver: &Receiver, coverage: Coverage, now: Instant) {
        self.look_at_interface();
        let arrived = |streams: &Blocks| streams.frames() * streams.payload_bytes() as u64;
        let Some(arrived) = receiver.streams().map(arrived) else {
            return;
        };
        if self.is_due(now) {
            let size = receiver.view().and_then(|view| view.size);
            let came = coverage
                .form
                .content_bytes(arrived.min(size.unwrap_or(u64::MAX)));
            let bytes = coverage.bytes.unwrap_or(came);
            let resent_frames = receiver.stream_stats().data_resent;
            self.options.notify(Progress::Moved {
                bytes,
                came,
                slowest: None,
                members: &[],
                resent_frames,
            });
        }
    }

    pub(super) fn take_history(&mut self) -> History {
        std::mem::take(&mut self.history)
    }

    pub(super) fn held_up_by(&self, root: &Root) -> Option<String> {
        let (&rank, _) = self.blocked.iter().max_by_key(|(_, times)| **times)?;
        root.view()
            .map(|view| view.members[rank.index()].host.clone())
    }
}

pub fn log_counters(counters: &Counters) {
    log::info!("socket: {counters:?}");
    if counters.kernel_dropped > 0 {
        log::warn!(
            "the kernel dropped {} frames because the receive ring was full",
            counters.kernel_dropped
        );
    }
}
