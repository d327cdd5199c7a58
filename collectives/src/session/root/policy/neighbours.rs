//! Other traffic on the receivers' links, and the bandwidth that a transfer leaves to it.

use crate::membership::Timing;
use crate::session::link_share::LinkShare;
use crate::session::throttle::Rate;
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, MacAddr, Retry};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const LINK_KEPT: Duration = Duration::from_secs(1);
const SESSION_KEPT: Duration = Duration::from_secs(3);
const MAX_SESSIONS: usize = 8;
const MAX_NEWS: usize = 64;
const MAX_STEP: Duration = Duration::from_millis(500);
const USED_PERCENT: u64 = 85;
const MARGIN_PART: u64 = 50;
const OFFERED_PART: u64 = 8;
const OFFER_LASTS: Duration = Duration::from_millis(900);
const OFFER: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(64)];
const CROWDED_PART: u64 = 8;
const LESS_PERCENT: u64 = 85;
const SILENT_PERCENT: u64 = 60;
const TRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(16)];
const BEFORE_TRY: Duration = Duration::from_millis(200);
const TRIED_PERCENT: [u64; 2] = [200, 125];
const GROWTH_PERCENT: u64 = 110;
const LIMITED_PERCENT: u64 = 90;
const SQUEEZED_PERCENT: u64 = 55;
const SQUEEZED_ROOM_PERCENT: u64 = 40;
const MIN_PERCENT: u64 = 50;
const SHARED_PERCENT: u64 = 97;
const MAX_SHARING: u64 = 3;
const FINDS_BEST: Duration = Duration::from_millis(300);

/// Link of a member, with rates of all frames together in kbit/s: the rate in the `last` report,
/// the one before the trial under way (`tried`), and the highest that lasted for two reports
/// (`full`), as a single report may have been measured over too short a time. The `room` is the
/// rate left to other traffic; `is_full` is set once a trial has found the link full.
#[derive(Clone, Copy, Debug)]
struct MemberLink {
    at: Instant,
    share: LinkShare,
    full: u64,
    last: u64,
    room: u64,
    offers: Retry,
    offered_until: Instant,
    tries: Retry,
    tried: Option<u64>,
    is_full: bool,
    tally: TrafficTally,
}

/// Sums of other traffic over the times in which there was some.
#[derive(Clone, Copy, Debug, Default)]
struct TrafficTally {
    lasted: Duration,
    others: f64,
    all: f64,
}

/// Traffic of others beside a session, on the link on which there was most.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherTraffic {
    /// Host of the link.
    pub host: String,
    /// Time for which there was other traffic.
    pub lasted: Duration,
    /// Share of the link's traffic in that time.
    pub share: f64,
    /// Hosts that sent sessions of other groups meanwhile.
    pub sessions: Vec<String>,
}

/// Traffic of others beside a session, and the rate that leaves it room.
///
/// Each member reports what its interface counts beyond the session's frames. On each link the
/// session leaves others 1.5 times what they take, and more at the next report if they have taken
/// that. A flow that adapts thus grows into its room, up to half of the link. A flow of a fixed
/// rate gets what it wants. Sessions that receive each other's announcements share evenly. Frames
/// that only the interface has counted may be own ones that were lost behind it, so they count only
/// as far as the host's IP packets, or another session, explain them.
///
/// A flow whose frames were lost grows only into free room, and tries rarely. So new traffic is
/// offered a part of the link, and again after [`OFFER`], the shortest and longest time, while it
/// takes little. Traffic of more than [`SQUEEZED_PERCENT`] of the link gets
/// [`SQUEEZED_ROOM_PERCENT`], which makes up for losses in a queue that it fills.
///
/// A session that uses up its own part tries more at the intervals of [`TRY`], as its first rates
/// may have been measured while it began. It tries [`TRIED_PERCENT`] of the measured rate, less
/// once a trial has shown that the link is full. Sessions share [`SHARED_PERCENT`] of a link, which
/// they would overrun otherwise; those beyond [`MAX_SHARING`] count for nothing, as anybody can
/// announce one. Nothing is left to others in the first time of the data ([`FINDS_BEST`]), in which
/// the session finds its best rate.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    links: BTreeMap<Rank, MemberLink>,
    sessions: BTreeMap<MacAddr, (String, Instant)>,
    heard: Vec<String>,
    /// Sessions that were news: each is once, as its announcements can be replayed. Beyond
    /// [`MAX_NEWS`] there is news only at the longest interval of [`OFFER`].
    known: VecDeque<(MacAddr, u32)>,
    news_at: Option<Instant>,
    timing: Timing,
}

impl Neighbours {
    /// Takes the times of the session, whose members report the less often the more there are.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    fn is_known(&self, now: Instant, link: &MemberLink) -> bool {
        now.since(link.at) <= self.timing.or_reports(LINK_KEPT, 2)
    }

    pub fn note(&mut self, now: Instant, rank: Rank, share: Option<LinkShare>) {
        let (others, longest_step) = (self.running(now), self.longest_step());
        if share.is_none() && !self.links.contains_key(&rank) {
            return;
        }
        let share = share.unwrap_or_default();
        let link = self
            .links
            .entry(rank)
            .or_insert(MemberLink::new(now, share));
        let taken = if others > 0 {
            share.others
        } else {
            share.others.min(share.ip)
        };
        link.note(now, share, taken.into(), others, longest_step);
    }

    /// Notes a session of another group; returns whether it is news.
    pub fn note_session(
        &mut self,
        now: Instant,
        (mac, session): (MacAddr, u32),
        host: &str,
    ) -> bool {
        // Sessions that are over make room for others.
        self.sessions
            .retain(|_, (_, at)| now.since(*at) <= SESSION_KEPT);
        let is_open =
            self.known.len() < MAX_NEWS || self.news_at.is_none_or(|at| now.since(at) >= OFFER[1]);
        let is_news = is_open && !self.known.contains(&(mac, session));
        if is_news {
            self.news_at = Some(now);
            self.known.push_back((mac, session));
            // The oldest may be news again at that interval.
            if self.known.len() > MAX_NEWS {
                self.known.pop_front();
            }
        }
        if self.sessions.len() < MAX_SESSIONS || self.sessions.contains_key(&mac) {
            self.sessions.insert(mac, (host.to_owned(), now));
            if self.heard.len() < MAX_SESSIONS && !self.heard.iter().any(|known| known == host) {
                self.heard.push(host.to_owned());
            }
        }
        // Frames without another explanation are those of the new session.
        let running = self.running(now);
        let (kept, longest_step) = (self.timing.or_reports(LINK_KEPT, 2), self.longest_step());
        for link in self
            .links
            .values_mut()
            .filter(|link| is_news && now.since(link.at) <= kept)
        {
            link.offers.restart(now, true);
            link.note(
                now,
                link.share,
                link.share.others.into(),
                running,
                longest_step,
            );
        }
        is_news
    }

    fn longest_step(&self) -> Duration {
        self.timing.or_reports(MAX_STEP, 2)
    }

    fn running(&self, now: Instant) -> u64 {
        self.sessions
            .values()
            .filter(|(_, at)| now.since(*at) <= SESSION_KEPT)
            .count() as u64
    }

    /// Whether frames of others, of any kind, were seen lately, or another session announced
    /// itself: this session should announce itself to it.
    pub fn are_suspected(&self, now: Instant) -> bool {
        self.running(now) > 0
            || self
                .links
                .values()
                .any(|link| link.share.others > 0 && self.is_known(now, link))
    }

    fn are_there(&self, now: Instant) -> bool {
        self.links
            .values()
            .any(|link| link.room > 0 && self.is_known(now, link))
    }

    /// Whether other traffic takes an eighth of a link, so that losses may be its.
    pub fn crowd(&self, now: Instant) -> bool {
        self.links
            .values()
            .any(|link| link.room * CROWDED_PART > link.full && self.is_known(now, link))
    }

    /// Returns the limit of the root's own rate that leaves their room to others; `None` if there
    /// are none, or it is too early. What members say never takes more than half of the `best`
    /// rate, in kbit/s, that the root itself has reached since its first data; and if other hosts
    /// announce sessions, three quarters.
    pub fn limit(
        &self,
        now: Instant,
        view: &View,
        (lasted, best): (Duration, u64),
    ) -> Option<Rate> {
        let others = self.running(now);
        if lasted < FINDS_BEST || best == 0 || !self.are_there(now) {
            return None;
        }
        let degrees = view.degrees();
        // A trial of one link needs all others.
        let percent = self
            .links
            .values()
            .map(MemberLink::percent)
            .max()
            .unwrap_or(100);
        // Each child of a tree costs its parent a copy.
        let copies = |rank: Rank| match view.via {
            via if via == Via::Cast || via.is_in_blocks() => 1,
            _ => degrees
                .get(rank.index())
                .map_or(1, |&children| children.max(1) as u64),
        };
        let of_link = |(&rank, link): (&Rank, &MemberLink)| {
            link.part_at(percent) * copies(Rank::ROOT)
                / if link.share.is_sent { copies(rank) } else { 1 }
        };
        let yielding = self
            .links
            .iter()
            .filter(|(_, link)| link.room > 0 && self.is_known(now, link));
        let least = if others > 0 {
            even_part(best, others)
        } else {
            best * MIN_PERCENT / 100
        };
        let kbits = yielding.map(of_link).min()?.max(least);
        Some(Rate::new(kbits.saturating_mul(1000)).unwrap_or(Rate::LOWEST))
    }

    pub fn seen(&self, view: &View) -> Option<OtherTraffic> {
        let most = self
            .links
            .iter()
            .max_by(|(_, one), (_, other)| one.tally.others.total_cmp(&other.tally.others));
        let (rank, MemberLink { tally, .. }) = most.filter(|(_, link)| link.tally.others > 0.0)?;
        let host = view.members.get(rank.index())?.host.clone();
        Some(OtherTraffic {
            host,
            lasted: tally.lasted,
            share: tally.others / tally.all,
            sessions: self.heard.clone(),
        })
    }
}

fn even_part(rate: u64, others: u64) -> u64 {
    rate * SHARED_PERCENT / 100 / (1 + others.min(MAX_SHARING))
}

impl MemberLink {
    fn new(now: Instant, share: LinkShare) -> MemberLink {
        let offers = Retry::new(now, OFFER[0], OFFER[1]);
        let tries = Retry::new(now + BEFORE_TRY, TRY[0], TRY[1]);
        MemberLink {
            at: now,
            share,
            full: 0,
            last: u64::MAX,
            room: 0,
            offers,
            offered_until: now,
            tries,
            tried: None,
            is_full: false,
            tally: TrafficTally::default(),
        }
    }

    fn percent(&self) -> u64 {
        self.tried
            .map_or(100, |_| TRIED_PERCENT[usize::from(self.is_full)])
    }

    fn part_at(&self, percent: u64) -> u64 {
        (self.full * percent / 100).saturating_sub(self.room)
    }

    fn own_part(&self) -> u64 {
        self.part_at(self.percent())
    }

    fn try_more(&mut self, now: Instant, all: u64) {
        if let Some(before) = self.tried.take() {
            let has_room = all * 100 > before * GROWTH_PERCENT;
            self.is_full |= !has_room;
            if has_room {
                self.full = self.full.max(all);
                self.tries.restart(now, true);
            }
        }
        let is_limited = u64::from(self.share.own) * 100 >= self.own_part() * LIMITED_PERCENT;
        if is_limited && self.tries.take_due(now) {
            self.tried = Some(all);
        }
    }

    fn note(
        &mut self,
        now: Instant,
        share: LinkShare,
        taken: u64,
        sessions: u64,
        longest_step: Duration,
    ) {
        let step = now.since(std::mem::replace(&mut self.at, now));
        self.share = share;
        if taken == 0 {
            self.room = self.room * SILENT_PERCENT / 100;
            self.room = if self.room * MARGIN_PART < self.full {
                0
            } else {
                self.room
            };
            return;
        }
        let all = u64::from(share.own) + taken;
        self.full = self.full.max(all.min(self.last));
        self.last = all;
        let (full, margin) = (self.full, self.full / MARGIN_PART);
        let wanted = if taken * 100 >= self.room * USED_PERCENT {
            taken + taken / 2 + margin
        } else {
            (taken + taken / 10 + margin).max(self.room * LESS_PERCENT / 100)
        };
        if self.offers.take_due(now) {
            self.offered_until = now + OFFER_LASTS;
        }
        let most = match sessions {
            0 if taken * 100 > full * SQUEEZED_PERCENT => full * SQUEEZED_ROOM_PERCENT / 100,
            0 => full / 2,
            // Sessions beyond one get only what they take: they may be on other links.
            _ => (full - even_part(full, 1))
                .max((full - even_part(full, sessions)).min(taken + margin)),
        };
        // Another session wants its part at once. More have to show that they take more than one.
        let offered = if sessions > 0 {
            full - even_part(full, 1)
        } else {
            full / OFFERED_PART
        };
        let offered = if now < self.offered_until { offered } else { 0 };
        self.room = wanted.max(offered).min(most).max(1);
        if sessions == 0 {
            self.try_more(now, all);
        }
        if step <= longest_step {
            let seconds = step.as_secs_f64();
            self.tally.lasted += step;
            self.tally.others += taken as f64 * seconds;
            self.tally.all += all as f64 * seconds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::HOW_MANY;
    use super::*;
    use crate::session::view::tests::chain;

    const LINK: u64 = 100_000;

    fn at(report: u64) -> Instant {
        Instant::START + Duration::from_millis(100 * report)
    }

    /// Returns the room after each report on a link on which other flows want `wanted` kbit/s and
    /// grow into their room at once.
    fn rooms(reports: u64, wanted: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut link = MemberLink::new(at(0), LinkShare::default());
        let mut rooms = vec![0];
        for report in 1..=reports {
            let least = wanted(report).min(LINK / 40);
            let taken = wanted(report).min(link.room.max(least));
            let own = LINK - link.room.max(taken);
            let share = LinkShare {
                own: own as u32,
                others: taken as u32,
                ip: taken as u32,
                is_sent: false,
            };
            link.note(at(report), share, taken, 0, MAX_STEP);
            rooms.push(link.room);
        }
        rooms
    }

    #[test]
    fn however_rarely_a_link_is_reported_it_counts_until_two_reports_are_lost() {
        for receivers in HOW_MANY {
            let timing = Timing::default().among(receivers);
            let mut neighbours = Neighbours::default();
            neighbours.set_timing(timing);
            let share = LinkShare {
                own: 50_000,
                others: 40_000,
                ip: 40_000,
                is_sent: false,
            };
            let at = |report: u32| Instant::START + timing.status * report;
            (0..10).for_each(|report| neighbours.note(at(report), Rank(1), Some(share)));
            assert!(
                neighbours.are_suspected(at(11)) && neighbours.crowd(at(11)),
                "{receivers}"
            );
            let seen = neighbours.seen(&chain(3)).expect("there was other traffic");
            assert_eq!(seen.lasted, at(9).since(at(0)), "{receivers}");
        }
    }

    #[test]
    fn sessions_that_are_over_keep_no_other_from_being_seen() {
        let mut neighbours = Neighbours::default();
        let mac = |last: usize| MacAddr::new(2, 0, 0, 0, 0, last as u8);
        (0..MAX_SESSIONS)
            .for_each(|last| assert!(neighbours.note_session(at(0), (mac(last), 7), "n0")));
        assert_eq!(neighbours.running(at(0)), MAX_SESSIONS as u64);
        assert!(neighbours.note_session(at(100), (mac(MAX_SESSIONS), 7), "n1"));
        assert_eq!(neighbours.running(at(100)), 1);
    }

    #[test]
    fn a_session_that_announces_itself_again_and_again_is_offered_its_part_once() {
        let mut neighbours = Neighbours::default();
        let share = LinkShare {
            own: 99_000,
            others: 1_000,
            ip: 1_000,
            is_sent: false,
        };
        let mut offered = Vec::new();
        for report in 0..600 {
            if report % 11 == 0 {
                let last = (report / 11 % 3) as u8;
                neighbours.note_session(at(report), (MacAddr::new(2, 0, 0, 0, 0, last), 7), "n0");
            }
            neighbours.note(at(report), Rank(1), Some(share));
            offered.push(neighbours.links[&Rank(1)].offered_until);
        }
        offered.dedup();
        let spaced = |pair: &[Instant]| pair[1].since(pair[0]) >= OFFER[0];
        assert!(offered[4..].windows(2).all(spaced), "{offered:?}");
    }

    #[test]
    fn a_session_that_begins_behind_recorded_ones_is_news_and_those_are_rarely_again() {
        let mut neighbours = Neighbours::default();
        let mac = |number: u64| MacAddr::new(2, 0, 0, 1, (number >> 8) as u8, number as u8);
        let recorded = 10 * MAX_NEWS as u64;
        let news = |at_report: u64| {
            neighbours.note_session(at(at_report), (mac(at_report % recorded), 7), "n0")
        };
        let news = (0..20 * recorded)
            .map(news)
            .filter(|&is_news| is_news)
            .count();
        let most = MAX_NEWS
            + 1
            + at(20 * recorded).since(at(0)).as_secs() as usize / OFFER[1].as_secs() as usize;
        assert!((MAX_NEWS + 2..=most).contains(&news), "{news} of {most}");
        let later = at(20 * recorded) + OFFER[1];
        assert!(neighbours.note_session(later, (MacAddr::new(2, 0, 0, 2, 0, 0), 7), "n1"));
    }

    #[test]
    fn a_flow_that_adapts_grows_to_half_of_the_link_and_leaves_it_whole() {
        let rooms = rooms(30, |report| if report < 15 { LINK } else { 0 });
        assert!(
            rooms[10] * 100 >= LINK * 48 && rooms.iter().all(|&room| room <= LINK / 2),
            "{rooms:?}"
        );
        assert_eq!(rooms[25], 0, "{rooms:?}");
    }

    #[test]
    fn a_flow_of_a_fixed_rate_gets_what_it_wants_and_little_more() {
        let rooms = rooms(60, |_| LINK / 5);
        assert!(
            rooms[20..]
                .iter()
                .all(|room| (LINK / 5..LINK / 100 * 33).contains(room)),
            "{rooms:?}"
        );
    }

    #[test]
    fn what_was_measured_while_a_session_began_limits_it_for_a_moment_only() {
        let mut link = MemberLink::new(at(0), LinkShare::default());
        let (mut own, mut took) = (LINK / 1000, Vec::new());
        for report in 1..40 {
            let share = LinkShare {
                own: own as u32,
                others: 900,
                ip: 900,
                is_sent: false,
            };
            link.note(at(report), share, 900, 0, MAX_STEP);
            own = link.own_part().min(LINK - 900);
            took.push(own);
        }
        assert!(
            took[16..].iter().all(|own| own * 100 > LINK * 94),
            "{took:?}"
        );
    }

    #[test]
    fn whatever_members_and_other_hosts_say_a_part_of_the_roots_own_best_rate_is_left() {
        let view = crate::session::view::tests::chain(200);
        let own = |lasted, best| (Duration::from_millis(lasted), best);
        for numbers in [
            [0, 0, 0],
            [1, 1, 1],
            [0, u32::MAX, u32::MAX],
            [1, u32::MAX, 7],
            [u32::MAX; 3],
        ] {
            for sessions in [0, 1, 20] {
                let (mut neighbours, [own_kbits, others, ip]) = (Neighbours::default(), numbers);
                for report in 1..200 {
                    for rank in 0..200 {
                        let is_sent = rank % 2 == 0;
                        neighbours.note(
                            at(report),
                            Rank(rank),
                            Some(LinkShare {
                                is_sent,
                                own: own_kbits,
                                others,
                                ip,
                            }),
                        );
                    }
                    for session in 0..sessions {
                        neighbours.note_session(
                            at(report),
                            (MacAddr::new(2, 0, 0, 0, 1, session), 7),
                            "x",
                        );
                    }
                    let limit = neighbours.limit(at(report), &view, own(1000, LINK));
                    let limit = limit.map_or(u64::MAX, Rate::bits_per_second);
                    let parts = [2, 2, 4][usize::from(sessions.min(2))];
                    assert!(
                        limit >= LINK * 1000 * 97 / 100 / parts,
                        "{numbers:?}, {sessions} sessions: {limit}"
                    );
                    assert_eq!(neighbours.limit(at(report), &view, own(100, LINK)), None);
                    assert_eq!(neighbours.limit(at(report), &view, own(1000, 0)), None);
                }
            }
        }
    }

    #[test]
    fn sessions_together_take_no_more_than_the_link_and_an_even_part_of_it_each() {
        let view = crate::session::view::tests::chain(2);
        // Sessions on the link, and others that are heard and are elsewhere.
        for (count, elsewhere) in [(2_u64, 0), (3, 0), (4, 0), (2, 1), (2, 2), (3, 1)] {
            let mut sessions: Vec<(Neighbours, u64)> =
                (0..count).map(|_| (Neighbours::default(), LINK)).collect();
            for report in 1..60 {
                let all: u64 = sessions.iter().map(|(_, wants)| wants).sum();
                let got: Vec<u64> = sessions
                    .iter()
                    .map(|(_, wants)| wants * LINK / all.max(LINK))
                    .collect();
                for (session, (neighbours, wants)) in sessions.iter_mut().enumerate() {
                    let others = got.iter().sum::<u64>() - got[session];
                    for other in (0..count as usize + elsewhere).filter(|&other| other != session) {
                        neighbours.note_session(
                            at(report),
                            (MacAddr::new(2, 0, 0, 0, 0, other as u8), 7),
                            "x",
                        );
                    }
                    let share = LinkShare {
                        own: got[session] as u32,
                        others: others as u32,
                        ip: 0,
                        is_sent: false,
                    };
                    neighbours.note(at(report), Rank(1), Some(share));
                    let limit = neighbours.limit(at(report), &view, (Duration::from_secs(1), LINK));
                    *wants = limit.map_or(LINK, |rate| rate.bits_per_second() / 1000);
                }
                let wants: Vec<u64> = sessions.iter().map(|&(_, wants)| wants).collect();
                if report > 20 {
                    let [least, most] = if elsewhere == 0 { [95, 101] } else { [92, 108] };
                    let sum = wants.iter().sum::<u64>() * 100 / LINK;
                    assert!(
                        (least..=most).contains(&sum),
                        "{count} and {elsewhere}, {report}: {wants:?}"
                    );
                    assert!(
                        wants
                            .iter()
                            .all(|&wants| wants * 100 >= LINK * least / count),
                        "{elsewhere}: {wants:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn frames_that_nobody_explains_get_no_room_and_those_of_a_session_an_even_part() {
        let (mut neighbours, mac) = (Neighbours::default(), MacAddr::new(2, 0, 0, 0, 0, 9));
        let share = LinkShare {
            own: 50_000,
            others: 50_000,
            ip: 10,
            is_sent: false,
        };
        (1..20).for_each(|report| neighbours.note(at(report), Rank(1), Some(share)));
        assert!(neighbours.are_suspected(at(20)) && neighbours.links[&Rank(1)].room < LINK / 40);
        neighbours.note_session(at(20), (mac, 7), "n9");
        (20..24).for_each(|report| neighbours.note(at(report), Rank(1), Some(share)));
        assert_eq!(neighbours.links[&Rank(1)].room, LINK - LINK * 97 / 200);
    }
}
