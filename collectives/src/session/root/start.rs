//! From invitation to view: who joins, who is turned away, and the plan for those who are there.

use super::{Phase, Root, RootEvent, RootFailure};
use crate::membership::ack_tree::AckTree;
use crate::membership::control::ControlQueue;
use crate::session::blocks::{Streams, most_block_frames};
use crate::session::gathering::{Answer, Candidate, Offer};
use crate::session::message::{Message, Refusal};
use crate::session::roster::Roster;
use crate::session::view::{MAX_PUSH_FRAMES, Member, View};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::HEADER_BYTES;
use ethbcast_transport::{MacAddr, Policy};

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
        if !self.is_open_to(*nonce) {
            if !self.heard_member(*nonce) {
                let text =
                    format!("the session of group {group} has started without {host}; run `ethbcast recv` before `ethbcast send`");
                self.send(source, &Message::Refuse { nonce: *nonce, why: Refusal::Late, text });
            }
            return;
        }
        let Phase::Gathering(gathering) = &mut self.phase else { return };
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
                    self.probe_or_start();
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

    /// Whether it is not too late for the receiver with this nonce: while the network is probed, the number wanted is there.
    fn is_open_to(&self, nonce: u64) -> bool {
        let Phase::Gathering(gathering) = &self.phase else { return false };
        let full = self.prober.is_some() && self.config.wanted.enough.is_some();
        !full || gathering.candidates.iter().any(|candidate| candidate.nonce == nonce)
    }

    /// A member that has not understood the view yet goes on asking to join; that is a sign of life. False for a stranger.
    fn heard_member(&mut self, nonce: u64) -> bool {
        let members = self.view.as_ref().map(|view| view.members.as_slice()).unwrap_or_default();
        let rank = members.iter().position(|member| member.nonce == nonce);
        if let Some(rank) = rank {
            self.roster.hear(self.now, rank as u16);
        }
        rank.is_some()
    }

    /// Makes ranks and plan of the candidates and sends the first view.
    pub(super) fn start(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let candidates = gathering.in_rank_order();
        match self.first_view(&candidates) {
            Ok((_, choice)) if self.config.dry_run => {
                self.choice = Some(choice);
                self.phase = Phase::Ended;
                self.outbox = ControlQueue::default();
            }
            Ok((view, choice)) => {
                log::info!("view 1: {} receivers via {}", candidates.len(), view.via);
                self.choice = Some(choice);
                self.phase = Phase::Running { flowing: false };
                self.roster = Roster::new(self.now, candidates.len() as u16, &self.config.timing);
                self.streams = Some(Streams::new(self.place(), &view, &self.config.tuning));
                self.status_due = Some(self.now + self.config.timing.status);
                self.publish(view);
            }
            Err(text) => {
                self.failure = Some(RootFailure::NoPlan(text.clone()));
                self.close(Message::Abort { text });
            }
        }
    }

    fn first_view(&self, candidates: &[Candidate]) -> Result<(View, Choice), String> {
        let station = &self.config.station;
        let names: Vec<&str> =
            std::iter::once(station.host.as_str()).chain(candidates.iter().map(|candidate| candidate.host.as_str())).collect();
        let mut choice = self.choose(&names)?;
        log::info!("{}", choice.reason);
        let plan = &choice.plan;
        let policy = self.config.tuning.policy;
        let push_frames = self.config.tuning.push_frames.filter(|_| policy == Policy::InOrderOnly);
        let macs = std::iter::once((station.mac, 0)).chain(candidates.iter().map(|candidate| (candidate.mac, candidate.nonce)));
        let members = names.iter().zip(macs).enumerate().map(|(rank, (host, (mac, nonce)))| {
            let (parent, order) = place(plan, policy, rank);
            Member {
                host: (*host).to_owned(),
                mac,
                nonce,
                parent: parent.map(|parent| parent as u16),
                order: order as u16,
                present: true,
            }
        });
        let payload_bytes = station.mtu_bytes - HEADER_BYTES as u16;
        let segment_frames = self.segment_frames(&choice, payload_bytes, names.len());
        let view = View {
            epoch: 1,
            via: plan.via(),
            segment_frames,
            policy,
            push_frames: push_frames.map(|frames| frames.clamp(1, MAX_PUSH_FRAMES.into()) as u8),
            payload_bytes,
            size: self.config.size,
            members: members.collect(),
        };
        // What is reported is what is done.
        choice.segment_bytes = choice.segment_bytes.min(u64::from(segment_frames) * u64::from(payload_bytes));
        Ok((view, choice))
    }

    fn segment_frames(&self, choice: &Choice, payload_bytes: u16, ranks: usize) -> u32 {
        let frames = choice.segment_bytes.div_ceil(u64::from(payload_bytes));
        let in_blocks = choice.plan.via().is_in_blocks();
        let most = if in_blocks { most_block_frames(&self.config.tuning, ranks) } else { u64::from(u32::MAX) };
        frames.clamp(1, most) as u32
    }

    /// Starts, waits on or gives up, as patience and those who are there demand.
    pub(super) fn watch_gathering(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if self.prober.is_some() {
            return;
        }
        for host in gathering.drop_silent(self.now, self.config.timing.dead) {
            self.events.push_back(RootEvent::Left { host });
        }
        let wanted = self.config.wanted;
        if self.now.since(self.began) < wanted.patience {
            return;
        }
        if gathering.candidates.len() >= wanted.at_least.max(1) {
            self.probe_or_start();
            return;
        }
        let joined: Vec<String> = gathering.in_rank_order().into_iter().map(|candidate| candidate.host).collect();
        let refused = std::mem::take(&mut gathering.refused);
        let failure = RootFailure::TooFew { joined, refused, wanted: wanted.at_least, patience: wanted.patience };
        self.close(Message::Abort { text: format!("the sender gave up: {failure}") });
        self.failure = Some(failure);
    }
}

/// A member's parent in the view and its place among its siblings: in a cast those of the ack tree, else the plan's.
fn place(plan: &Plan, policy: Policy, rank: usize) -> (Option<usize>, usize) {
    if let (Via::Cast, Some(position)) = (plan.via(), rank.checked_sub(1)) {
        let tree = AckTree::new(plan.ranks() - 1, policy);
        return (Some(tree.parent(position).map_or(0, |parent| parent + 1)), tree.order(position));
    }
    let parent = plan.parent(rank);
    let order = parent.and_then(|parent| plan.children(parent).iter().position(|&child| child == rank));
    (parent, order.unwrap_or(0))
}
