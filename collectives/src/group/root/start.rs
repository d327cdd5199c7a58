//! From invitation to view: who joins, who is turned away, and the plan for those who are there.

use super::{Phase, Root, RootEvent, RootFailure, STREAM};
use crate::group::gathering::{Answer, Candidate, Offer};
use crate::group::message::{Message, Refusal};
use crate::group::receiver::tuned;
use crate::group::roster::Roster;
use crate::group::view::{Member, View};
use crate::plan::{self, Plan, PlanError, Via};
use crate::topology::Topology;
use ethbcast_transport::MacAddr;
use ethbcast_transport::stream::{Identity, Outlet, Peer, Stream};
use ethbcast_transport::wire::HEADER_BYTES;

impl Root {
    /// Invites whoever listens.
    pub(super) fn announce(&mut self) {
        let station = &self.config.station;
        let message = Message::Announce {
            group: station.group.clone(),
            host: station.host.clone(),
            source: self.config.source.clone(),
            size: self.config.size,
            mtu_bytes: station.mtu_bytes,
        };
        self.send_to_group(&message);
    }

    pub(super) fn on_join(&mut self, source: MacAddr, join: &Message) {
        let Message::Join { nonce, group, host, .. } = join else { return };
        if *group != self.config.station.group {
            self.stats.strangers += 1;
            return;
        }
        let Phase::Gathering(gathering) = &mut self.phase else {
            if !self.heard_member(*nonce) {
                let text =
                    format!("the session of group {group} has started without {host}; run `ethbcast recv` before `ethbcast send`");
                self.send(source, &Message::Refuse { nonce: *nonce, why: Refusal::Late, text });
            }
            return;
        };
        let known_hosts = self.config.topology.as_ref().map(Topology::hosts);
        let station = &self.config.station;
        let offer = Offer { root: &station.host, mtu_bytes: station.mtu_bytes, size: self.config.size, known_hosts };
        let answer = gathering.on_join(self.now, source, join, offer, self.config.timing.join * 5);
        let receivers = gathering.candidates.len();
        match answer {
            Answer::Known => {}
            Answer::New => {
                log::info!("{host} ({source}) joined");
                self.events.push_back(RootEvent::Joined { host: host.clone(), receivers });
                if self.config.wanted.enough.is_some_and(|enough| receivers >= enough) {
                    self.start();
                }
            }
            Answer::Refused { why, text, first_time } => {
                self.send(source, &Message::Refuse { nonce: *nonce, why, text: text.clone() });
                if first_time {
                    self.events.push_back(RootEvent::Refused { host: host.clone(), text });
                }
            }
        }
    }

    /// A member that has not understood the view yet goes on asking to join; that is a sign of life. False for a stranger.
    fn heard_member(&mut self, nonce: u64) -> bool {
        let members = self.view.as_ref().map(|view| view.members.as_slice()).unwrap_or_default();
        let rank = members.iter().position(|member| member.nonce == nonce);
        if let Some(entry) = rank.and_then(|rank| self.roster.entry(rank as u16)) {
            entry.heard_at = self.now;
        }
        rank.is_some()
    }

    /// Makes ranks and plan of the candidates and sends the first view.
    fn start(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let candidates = gathering.in_rank_order();
        match self.first_view(&candidates) {
            Ok(view) => {
                log::info!("view 1: {} receivers via {}", candidates.len(), view.via);
                self.phase = Phase::Running { flowing: false };
                self.roster = Roster::new(self.now, 1..=candidates.len() as u16);
                self.stream = Some(self.origin(&view));
                self.status_due = Some(self.now + self.config.timing.status);
                self.publish(view);
            }
            Err(text) => {
                self.failure = Some(RootFailure::NoPlan(text.clone()));
                self.close(Message::Abort { text });
            }
        }
    }

    fn first_view(&self, candidates: &[Candidate]) -> Result<View, String> {
        let station = &self.config.station;
        let names: Vec<&str> =
            std::iter::once(station.host.as_str()).chain(candidates.iter().map(|candidate| candidate.host.as_str())).collect();
        let plan = self.plan(&names)?;
        let macs = std::iter::once((station.mac, 0)).chain(candidates.iter().map(|candidate| (candidate.mac, candidate.nonce)));
        let members = names.iter().zip(macs).enumerate().map(|(rank, (host, (mac, nonce)))| {
            let parent = plan.parent(rank);
            let order = parent.and_then(|parent| plan.children(parent).iter().position(|&child| child == rank));
            Member {
                host: (*host).to_owned(),
                mac,
                nonce,
                parent: parent.map(|parent| parent as u16),
                order: order.unwrap_or(0) as u16,
                present: true,
            }
        });
        Ok(View {
            epoch: 1,
            via: self.config.via,
            segment_frames: 1,
            policy: self.config.tuning.policy,
            payload_bytes: station.mtu_bytes - HEADER_BYTES as u16,
            size: self.config.size,
            members: members.collect(),
        })
    }

    fn plan(&self, names: &[&str]) -> Result<Plan, String> {
        let Some(topology) = self.config.topology.as_ref().filter(|_| self.config.via == Via::Chain) else {
            return self.plan_on_one_switch(names.len()).map_err(|error| error.to_string());
        };
        let hosts = names.iter().map(|name| find_host(topology, name)).collect::<Result<Vec<usize>, String>>()?;
        let plan = plan::chain(topology, hosts[0], &hosts).map_err(|error| error.to_string())?;
        let report = plan::check(topology, &plan, &hosts);
        if report.is_good() {
            Ok(plan)
        } else {
            Err(format!("the plan is not sound ({report}); please report this with the topology file"))
        }
    }

    /// Without a topology names do not matter: hosts are taken in the order of their ranks.
    fn plan_on_one_switch(&self, ranks: usize) -> Result<Plan, PlanError> {
        let chain = |rank: usize| rank.checked_sub(1);
        match self.config.via {
            Via::Cast => plan::cast(0, ranks),
            _ => Plan::from_parents(Via::Chain, 0, &(0..ranks).map(chain).collect::<Vec<_>>()),
        }
    }

    fn origin(&self, view: &View) -> Stream {
        let station = &self.config.station;
        let identity =
            Identity { session: self.config.session, stream: STREAM, rank: 0, mac: station.mac, ether_type: station.ether_type };
        let peer = |rank: u16| Peer { rank, mac: view.members[usize::from(rank)].mac };
        let outlet = match view.via {
            Via::Cast => Outlet::Cast { group: station.group_mac, listeners: view.children(0).into_iter().map(peer).collect() },
            _ => Outlet::Lanes(view.children(0).into_iter().map(peer).collect()),
        };
        let tuning = tuned(&self.config.tuning, view, 0);
        Stream::origin(identity, usize::from(view.payload_bytes), &outlet, tuning)
    }

    /// Starts, waits on or gives up, as patience and those who are there demand.
    pub(super) fn watch_gathering(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        for host in gathering.drop_silent(self.now, self.config.timing.dead) {
            self.events.push_back(RootEvent::Left { host });
        }
        let wanted = self.config.wanted;
        if self.now.since(self.began) < wanted.patience {
            return;
        }
        if gathering.candidates.len() >= wanted.at_least.max(1) {
            self.start();
            return;
        }
        let joined: Vec<String> = gathering.in_rank_order().into_iter().map(|candidate| candidate.host).collect();
        let refused = std::mem::take(&mut gathering.refused);
        let failure = RootFailure::TooFew { joined, refused, wanted: wanted.at_least, patience: wanted.patience };
        self.close(Message::Abort { text: format!("the sender gave up: {failure}") });
        self.failure = Some(failure);
    }
}

fn find_host(topology: &Topology, name: &str) -> Result<usize, String> {
    let help = "add it, or run it with --host NAME as it is spelt there";
    topology.host_named(name).ok_or_else(|| format!("the topology file names no host {name}; {help}"))
}
