//! Choice of the broadcast tree at a transfer's start, and again when receivers are lost. Unicast
//! hops may later be replaced by broadcast frames (a cast).

use crate::Route;
use crate::membership::ack_tree::AckTree;
use crate::session::root::config::{NoPlan, RootConfig};
use crate::session::throttle::{DEPTH, Rate};
use crate::session::view::View;
use ethbcast_planning::model::{
    Broadcast, Calibration, Choice, Situation, choose_among, given, price,
};
use ethbcast_planning::plan::{self, Plan, USUAL, Via};
use ethbcast_planning::topology::{ASSUMED_RATE_BITS_PER_SECOND, Topology, nodeset};
use ethbcast_transport::Policy;
use ethbcast_transport::wire::Rank;
use std::fmt;
use std::iter::successors;
use std::time::Duration;

/// Maximum number of members for which a plan is made while the session waits. At this number it
/// takes about 10 ms, and grows with its cube.
const MAX_RANKS_AGAIN: usize = 1024;

const SLOW_FACTOR: u64 = 3 * USUAL;
const MIN_HOSTS_PER_SLOW_HOST: usize = 4;
const SURE_SPREAD: f64 = 0.5;

/// Spread of costs that were not measured.
const UNMEASURED: f64 = 9.0;

#[derive(Clone)]
pub struct Planner {
    topology: Topology,
    hosts: Vec<usize>,
    calibration: Calibration,
    frame_payload_bytes: u64,
    size_bytes: Option<u64>,
    certain: bool,
    may_cast: bool,
    learnt: Option<String>,
    measured: Option<Calibration>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Planner")
    }
}

impl Planner {
    /// Creates a planner for the members `names`, the root's first, with the network of each if a
    /// router is between them. Fails if the topology lacks one, or says that one cannot talk to the
    /// root.
    pub fn new(
        config: &RootConfig,
        names: &[&str],
        networks: Option<&[u32]>,
        calibration: Option<Calibration>,
    ) -> Result<Planner, NoPlan> {
        let frame_payload_bytes = u64::from(config.station.payload_bytes());
        let assumed = || {
            let assumed = Calibration::assumed(ASSUMED_RATE_BITS_PER_SECOND, frame_payload_bytes);
            assumed.with_spread(UNMEASURED).expect("it is a share")
        };
        let (topology, hosts) = locate(config, names, networks)?;
        check_silent(&topology, &hosts)?;
        let is_given = config.calibration.is_some();
        let measured = calibration.clone().filter(|_| !is_given);
        let learnt = config.learnt.iter().find(|learnt| learnt.is_of(names));
        let (calibration, learnt) = match learnt.filter(|_| !is_given) {
            Some(learnt) => (learnt.correct(config, calibration), Some(&learnt.when)),
            None => (calibration, None),
        };
        let learnt = learnt.filter(|_| calibration.is_some()).cloned();
        let mut planner = Planner {
            calibration: calibration.unwrap_or_else(assumed),
            frame_payload_bytes,
            // As in a plan that is made beforehand: the hash lists add less than the model's error.
            size_bytes: config.size,
            certain: config.topology.is_some() || !matches!(config.route, Route::Saved(_)),
            may_cast: can_acknowledge(&topology, &hosts, config.tuning.policy),
            learnt,
            measured,
            topology,
            hosts,
        };
        // What was measured, on the path of one host, is not sure enough to refuse it.
        let situation = planner.situation(&planner.hosts);
        situation.check_injections(false)?;
        planner.calibration = limited(planner.calibration, config);
        Ok(planner)
    }

    fn situation<'a>(&'a self, members: &'a [usize]) -> Situation<'a> {
        Situation {
            topology: &self.topology,
            root_host: members[0],
            members,
            size_bytes: self.size_bytes,
            frame_payload_bytes: self.frame_payload_bytes,
            calibration: &self.calibration,
        }
    }

    pub fn choose(&self, config: &RootConfig, names: &[&str]) -> Result<Choice, NoPlan> {
        let situation = self.situation(&self.hosts);
        let mut choice = match &config.route {
            Route::Auto => cheapest(config, &situation, self.may_cast)?,
            Route::Via(via) => given(price(*via, &situation)?.plan, None, &situation),
            Route::Saved(saved) => given(
                saved.for_members(names, 1)?,
                Some(saved.segment_bytes()),
                &situation,
            ),
        };
        if config.routed.is_some() && choice.plan.via() == Via::Cast {
            return Err(NoPlan::NoCast);
        }
        if choice.plan.via() == Via::Cast && !self.may_cast {
            return Err(NoPlan::SilentCast);
        }
        // A saved plan may share links, as its author decided.
        self.judge(
            &choice.plan,
            &self.hosts,
            matches!(config.route, Route::Saved(_)),
        )?;
        if let Some(when) = &self.learnt {
            choice.reason += &format!("; learnt {when}");
        }
        Ok(choice)
    }

    /// Returns the costs that were measured just before the start, without those of earlier times.
    pub fn measured(&self) -> Option<&Calibration> {
        self.measured.as_ref()
    }

    pub fn frame_time(&self) -> Duration {
        Duration::from_nanos(self.calibration.gap_ns(self.frame_payload_bytes) as u64)
    }

    /// Returns the receivers that are known to be far slower than the others, each with its rate
    /// and the usual one in bits per second; none if they are many, or the measurements differ.
    pub fn slow_receivers(&self) -> Vec<(Rank, [f64; 2])> {
        let speeds = self
            .situation(&self.hosts)
            .speeds()
            .filter(|_| self.calibration.spread() <= SURE_SPREAD);
        let Some(speeds) = speeds else {
            return Vec::new();
        };
        let usual = self.frame_payload_bytes as f64 * 8e9
            / self.calibration.gap_ns(self.frame_payload_bytes);
        let slowness = |&host: &usize| speeds.receiving(host);
        let slow: Vec<(Rank, [f64; 2])> = (0..)
            .zip(self.hosts.iter().map(slowness))
            .skip(1)
            .filter(|&(_, slowness)| slowness >= SLOW_FACTOR)
            .map(|(rank, slowness)| (Rank(rank), [usual * USUAL as f64 / slowness as f64, usual]))
            .collect();
        if slow.len() * MIN_HOSTS_PER_SLOW_HOST < self.hosts.len() {
            slow
        } else {
            Vec::new()
        }
    }

    /// Returns the frames of a cast that arrive in a second by measurement; `None` if that is not
    /// sure. Of a policed cast about every second frame is lost.
    pub fn cast_rate(&self) -> Option<f64> {
        let most = self.link_rate()?;
        match self.calibration.broadcast() {
            Broadcast::Untried => None,
            Broadcast::FullRate => Some(most),
            Broadcast::Slower(rate) => Some(most.min(rate as f64)),
            Broadcast::Policed(rate) => Some(most.min(rate as f64 / 2.0)),
        }
    }

    pub fn link_rate(&self) -> Option<f64> {
        let is_sure = self.calibration.spread() <= SURE_SPREAD;
        is_sure.then(|| 1e9 / self.calibration.gap_ns(self.frame_payload_bytes))
    }

    /// Whether the receivers of a cast can acknowledge it.
    pub fn may_cast(&self) -> bool {
        self.may_cast
    }

    pub fn can_again(&self, ranks: usize) -> bool {
        self.certain && ranks <= MAX_RANKS_AGAIN
    }

    /// Plans for `ranks` only, the root's first, with the same algorithm. The plan numbers hosts by
    /// position in `ranks`. `None` if it would not be sound.
    pub fn again(&self, via: Via, ranks: &[Rank]) -> Option<Plan> {
        let hosts = self.hosts_of(ranks)?;
        // The best tree takes longer to find than a session can wait.
        let via = if via == Via::BinaryBest {
            Via::Binary
        } else {
            via
        };
        let plan = price(via, &self.situation(&hosts)).ok()?.plan;
        self.judge(&plan, &hosts, false).ok().map(|()| plan)
    }

    fn hosts_of(&self, ranks: &[Rank]) -> Option<Vec<usize>> {
        let host = |rank: &Rank| self.hosts.get(rank.index()).copied();
        ranks.iter().map(host).collect()
    }

    /// Returns the planner for the rest of the content, in a network as it proved to be.
    /// `gap_nanos` is the time of a full frame on a usual cable. The topology names hosts by
    /// [`host_name`].
    pub fn in_network(
        &self,
        topology: Topology,
        gap_nanos: f64,
        left_frames: u64,
    ) -> Option<Planner> {
        let host = |rank: usize| topology.host_named(&host_name(rank));
        let hosts = (0..self.hosts.len()).map(host).collect::<Option<_>>()?;
        let rate = (self.frame_bits() * 1e9 / gap_nanos.max(1.0)).max(1.0);
        Some(Planner {
            calibration: Calibration::assumed(rate as u64, self.frame_payload_bytes),
            size_bytes: Some(left_frames.max(1) * self.frame_payload_bytes),
            topology,
            hosts,
            ..self.clone()
        })
    }

    /// Returns the bits of a full frame, with all that a cable carries around it.
    pub fn frame_bits(&self) -> f64 {
        // At 1 Gbit/s a bit takes a nanosecond.
        Calibration::assumed(1_000_000_000, self.frame_payload_bytes)
            .gap_ns(self.frame_payload_bytes)
    }

    /// Returns the predicted seconds of the view's tree; `None` if it has several, or none.
    pub fn seconds(&self, view: &View) -> Option<f64> {
        let ranks: Vec<Rank> = view.ranks().collect();
        let [tree] = view.trees()[..] else {
            return None;
        };
        let place = |parent: Rank| ranks.iter().position(|&rank| rank == parent);
        let parents: Vec<Option<usize>> = ranks
            .iter()
            .map(|&rank| tree.parent(rank).and_then(place))
            .collect();
        let plan = Plan::from_parents(view.via, 0, &parents).ok()?;
        let hosts = self.hosts_of(&ranks)?;
        let segment_bytes = u64::from(view.segment_frames) * self.frame_payload_bytes;
        let priced = given(plan, Some(segment_bytes), &self.situation(&hosts));
        Some(priced.predicted_seconds)
    }

    /// Returns the tree among `ranks`, the root's first, of least predicted time, with its seconds.
    pub fn best_tree(&self, ranks: &[Rank]) -> Option<(Plan, f64)> {
        let hosts = self.hosts_of(ranks)?;
        let is_tree = |via: Via| matches!(via, Via::Chain | Via::Binary | Via::Kary(_));
        let choice = choose_among(&self.situation(&hosts), is_tree).ok()?;
        let judged = self.judge(&choice.plan, &hosts, false);
        judged
            .ok()
            .map(|()| (choice.plan, choice.predicted_seconds))
    }

    /// Plans a chain among `ranks`, the root's first: along the switches if they are known, else in
    /// this order. Where pairs cannot talk and no chain avoids them, it is the tree that does, for
    /// as many as a plan may be made for; of more, [`Planner::reconnect`] mends the chain.
    pub fn chain(&self, ranks: &[Rank]) -> Plan {
        let avoiding = || {
            let may_be = ranks.len() <= MAX_RANKS_AGAIN && !self.topology.is_complete();
            may_be.then(|| self.again(Via::Latency, ranks)).flatten()
        };
        let chain = self.again(Via::Chain, ranks);
        chain.or_else(avoiding).unwrap_or_else(|| {
            let parents: Vec<Option<usize>> =
                (0..ranks.len()).map(|rank| rank.checked_sub(1)).collect();
            Plan::from_parents(Via::Chain, 0, &parents).expect("a line of ranks is a tree")
        })
    }

    /// Makes the root the parent of each receiver whose parent has become one that it cannot talk
    /// to. Returns whether there was one.
    pub fn reconnect(&self, view: &mut View) -> bool {
        let host = |rank: Rank| self.hosts.get(rank.index());
        let can_talk = |one: Rank, other: Rank| {
            let hosts = host(one).zip(host(other));
            hosts.is_none_or(|(&one, &other)| self.topology.can_talk(one, other))
        };
        !self.topology.is_complete() && view.reconnect(can_talk)
    }

    fn judge(&self, plan: &Plan, hosts: &[usize], may_contend: bool) -> Result<(), NoPlan> {
        let report = plan::check(&self.topology, plan, hosts);
        let may_contend = may_contend || !plan.via().is_contention_free();
        if report.is_spanning() && (may_contend || report.is_contention_free()) {
            return Ok(());
        }
        Err(NoPlan::Unsound(Box::new(report)))
    }
}

/// Returns the name of a member in a topology that is made of ranks: its own may not be valid.
pub fn host_name(rank: usize) -> String {
    format!("rank{rank}")
}

/// Share of a measurement above which a sender that waited for its processor did not measure the
/// network.
const MAX_WAITED: f64 = 0.5;
/// Factor over the rate of the interface above which a measured rate is wrong.
const MAX_OVER_INTERFACE: f64 = 1.1;
/// Spread of costs that contradict what else is known.
const DOUBT: f64 = 1.0;

/// Returns the measurement as unsure if this host waited for its processor for that `waited` share
/// of it, or its interface is slower than what was measured.
pub fn doubted(calibration: Calibration, config: &RootConfig, waited: f64) -> Calibration {
    let bits = f64::from(config.station.mtu_bytes) * 8.0;
    let rate = bits * 1e9 / calibration.gap_ns(config.station.payload_bytes().into());
    let is_too_fast = |most: u64| rate > most as f64 * MAX_OVER_INTERFACE;
    let why = if config.interface_rate.is_some_and(is_too_fast) {
        "the interface is slower"
    } else if waited > MAX_WAITED {
        "this host waited for a processor"
    } else {
        return calibration;
    };
    log::warn!("{rate:.0} bit/s measured is not sure: {why}");
    let spread = calibration.spread().max(DOUBT);
    calibration
        .clone()
        .with_spread(spread)
        .unwrap_or(calibration)
}

fn check_silent(topology: &Topology, hosts: &[usize]) -> Result<(), NoPlan> {
    let name = |&host: &usize| &topology.hosts()[host];
    let silent = hosts.iter().skip(1);
    let silent = silent.filter(|&&host| !topology.can_talk(hosts[0], host));
    match silent.map(name).collect::<Vec<&String>>() {
        silent if silent.is_empty() => Ok(()),
        silent => Err(NoPlan::Silent {
            hosts: nodeset::fold(&silent),
            root: name(&hosts[0]).clone(),
        }),
    }
}

/// Whether the receivers of a cast can talk to those to which they acknowledge.
fn can_acknowledge(topology: &Topology, hosts: &[usize], policy: Policy) -> bool {
    if topology.is_complete() || hosts.len() < 2 {
        return true;
    }
    let tree = AckTree::new(hosts.len() - 1, policy);
    (1..hosts.len()).all(|rank| {
        let parent = |rank: usize| tree.parent(rank - 1).map_or(0, |parent| parent + 1);
        // A parent may die, and its own takes over.
        let mut above = successors(Some(parent(rank)), |&at| (at > 0).then(|| parent(at)));
        above.all(|at| topology.can_talk(hosts[rank], hosts[at]))
    })
}

/// Returns the topology and the position of each rank in it. Without a topology the hosts of each
/// network are on one switch in rank order, by their own names if a topology may have them: a
/// calibration knows them.
fn locate(
    config: &RootConfig,
    names: &[&str],
    networks: Option<&[u32]>,
) -> Result<(Topology, Vec<usize>), NoPlan> {
    let Some(topology) = &config.topology else {
        let named = |names: Vec<String>| match networks {
            Some(networks) => {
                Topology::behind_router(names.into_iter().zip(networks.iter().copied()))
            }
            None => Topology::single_switch(names),
        };
        let own = names.iter().map(|&name| name.to_owned()).collect();
        let by_rank = || (0..names.len()).map(host_name).collect();
        return Ok((
            named(own).or_else(|_| named(by_rank()))?,
            (0..names.len()).collect(),
        ));
    };
    let find = |name: &&str| {
        topology
            .host_named(name)
            .ok_or_else(|| NoPlan::UnknownHost {
                host: (*name).to_owned(),
            })
    };
    Ok((
        topology.clone(),
        names.iter().map(find).collect::<Result<_, _>>()?,
    ))
}

/// Returns the plan of least predicted time. If receivers may join late, block algorithms are
/// excluded, because they have one stream for each member at the start. An untested cast is
/// excluded where the user leaves the algorithm to the program, except for a short burst; and one
/// whose receivers cannot acknowledge it. Block algorithms, whose plan is never made again, are
/// excluded if two members cannot talk.
fn cheapest(config: &RootConfig, situation: &Situation, may_cast: bool) -> Result<Choice, NoPlan> {
    let is_tried = situation.calibration.broadcast() != Broadcast::Untried;
    let may_cast = may_cast
        && config.routed.is_none()
        && (is_tried || !config.probe || config.is_short_burst());
    let is_whole = situation.topology.silent_pair(situation.members).is_none();
    Ok(choose_among(situation, |via| match via {
        Via::Cast => may_cast,
        via => !via.is_in_blocks() || is_whole && !config.late,
    })?)
}

fn limited(calibration: Calibration, config: &RootConfig) -> Calibration {
    let Some(limit) = config.rate.and_then(Rate::limit) else {
        return calibration;
    };
    let burst_ns = DEPTH.as_nanos() as u64;
    calibration.limited_to(limit, u64::from(config.station.payload_bytes()), burst_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use crate::session::root::config::{Learnt, Proved, size_class};
    use crate::session::view::{self, MemberRole};
    use ethbcast_planning::model::{HostCost, WayTimes};
    use ethbcast_transport::MacAddr;

    #[test]
    fn a_calibrations_hosts_count_without_a_topology() {
        let names = ["n0", "n1", "n2", "n3"];
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = RootConfig {
            size: Some(8 << 20),
            route: Route::Via(Via::Chain),
            ..RootConfig::new(station, 1, "f")
        };
        let planned = |slow: Option<u64>| {
            let costs = slow.map(|injection_ns| HostCost {
                name: "n1".to_owned(),
                injection_ns,
            });
            let measured = Calibration::assumed(100_000_000, 1468)
                .with_hosts("n0", costs.into_iter().collect());
            let planner = Planner::new(&config, &names, None, measured.ok()).expect("one switch");
            planner.choose(&config, &names).expect("a plan")
        };
        let [even, slow] = [None, Some(600_000)].map(planned);
        assert_eq!(even.plan.parent(1), Some(0));
        assert_eq!(
            (slow.plan.parent(2), slow.plan.parent(1)),
            (Some(0), Some(3)),
            "n1 is last"
        );
        let times = slow.predicted_seconds / even.predicted_seconds;
        assert!(
            (4.0..6.0).contains(&times) && slow.reason.contains("host n1"),
            "{times}: {}",
            slow.reason
        );
        // Nor does one host keep the others of many waiting.
        let served_apart = |receivers: u32| {
            let names: Vec<String> = (0..=receivers).map(|host| format!("n{host}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let costs = vec![HostCost {
                name: "n1".to_owned(),
                injection_ns: 600_000,
            }];
            let measured = Calibration::assumed(100_000_000, 1468)
                .with_hosts("n0", costs)
                .ok();
            Planner::new(&config, &names, None, measured)
                .expect("one switch")
                .slow_receivers()
        };
        assert_eq!(served_apart(3), [], "they are too few to say what is usual");
        let [(Rank(1), [slow, usual])] = served_apart(7)[..] else {
            panic!("{:?}", served_apart(7))
        };
        assert!(
            (4.5..5.5).contains(&(usual / slow)) && (9.0e7..1.0e8).contains(&usual),
            "{slow} of {usual}"
        );
        // A name that is invalid in topologies prevents no plan.
        let odd = ["n0", "two words", "n2", "n3"];
        assert!(Planner::new(&config, &odd, None, None).is_ok());
    }

    fn measured(rate: u64, spread: f64) -> Calibration {
        let measured = Calibration::assumed(rate, 1468).with_broadcast(Broadcast::FullRate);
        let measured = measured.and_then(|measured| measured.with_spread(spread));
        measured.expect("it is sound")
    }

    fn learnt(hosts: &[&str]) -> Learnt {
        Learnt {
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            costs: Some(measured(100_000_000, 0.0)),
            proved: Proved::default(),
            ways: Vec::new(),
            when: "2 days ago".to_owned(),
        }
    }

    const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

    fn after(
        learnt: Vec<Learnt>,
        given: Option<Calibration>,
        calibration: Option<Calibration>,
    ) -> Choice {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = RootConfig {
            size: Some(8 << 20),
            calibration: given,
            learnt,
            ..RootConfig::new(station, 1, "f")
        };
        let planner = Planner::new(&config, &NAMES, None, calibration).expect("one switch");
        planner.choose(&config, &NAMES).expect("a plan")
    }

    #[test]
    fn what_was_learnt_corrects_the_model_among_the_same_hosts_only() {
        let slow = HostCost {
            name: "n1".to_owned(),
            injection_ns: 600_000,
        };
        let policed = |hosts: &[&str]| Learnt {
            proved: Proved {
                loss: Some(0.01),
                broadcast: Some(Broadcast::Policed(100)),
                slow: vec![slow.clone()],
                ..Proved::default()
            },
            ..learnt(hosts)
        };
        let now = || measured(100_000_000, 0.0);
        let same = after(vec![policed(&NAMES)], None, Some(now()));
        assert_ne!(same.plan.via(), Via::Cast);
        assert!(
            same.reason.ends_with("; learnt 2 days ago"),
            "{}",
            same.reason
        );
        assert_eq!(same.calibration().loss(), 0.01);
        assert_eq!(same.plan.children(1), [0; 0], "n1 is slow");
        let more: Vec<&str> = NAMES.into_iter().chain(["n5"]).collect();
        for other in [
            after(vec![policed(&NAMES[..4])], None, Some(now())),
            after(vec![policed(&more)], None, Some(now())),
            after(vec![policed(&NAMES)], Some(now()), Some(now())),
        ] {
            assert_eq!(other.plan.via(), Via::Cast, "{}", other.reason);
            assert!(!other.reason.contains("learnt"), "{}", other.reason);
        }
        // A measurement of now that saw a loss, and compared hosts, counts.
        let cost = HostCost {
            name: "n2".to_owned(),
            injection_ns: 700_000,
        };
        let seen = now()
            .with_loss(0.2)
            .and_then(|now| now.with_hosts("n0", vec![cost]));
        let seen = after(vec![policed(&NAMES)], None, Some(seen.expect("sound")));
        let costs = seen.calibration();
        assert_eq!((costs.loss(), costs.hosts()[0].name.as_str()), (0.2, "n2"));
    }

    #[test]
    fn costs_of_now_count_unless_they_are_so_unsure_that_earlier_ones_may_be_as_true() {
        let gap_us = |now: Option<Calibration>| {
            let choice = after(vec![learnt(&NAMES)], None, now);
            (choice.calibration().gap_ns(1468) / 1e3).round() as u64
        };
        assert_eq!(gap_us(Some(measured(90_000_000, 0.1))), 135);
        assert_eq!(gap_us(Some(measured(90_000_000, 0.3))), 121);
        assert_eq!(gap_us(Some(measured(10_000_000, 0.3))), 1211);
        // Without a measurement, that of then counts, and is less sure.
        assert_eq!(gap_us(None), 121);
        let alone = after(vec![learnt(&NAMES)], None, None);
        assert!(alone.is_known() && alone.calibration().spread() > 0.0);
        // Without any costs, nothing is known.
        let nothing = Learnt {
            costs: None,
            ..learnt(&NAMES)
        };
        let nothing = after(vec![nothing], None, None);
        assert!(!nothing.is_known() && !nothing.reason.contains("learnt"));
    }

    #[test]
    fn a_measurement_that_contradicts_the_interface_or_its_own_processor_is_unsure() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        for (interface_rate, waited, spread) in [
            (None, 0.0, 0.1),
            (Some(1_000_000_000), 0.4, 0.1),
            (Some(100_000_000), 0.0, 0.1),
            (Some(10_000_000), 0.0, 1.0),
            (None, 0.6, 1.0),
        ] {
            let config = RootConfig {
                interface_rate,
                ..RootConfig::new(station.clone(), 1, "f")
            };
            let doubted = doubted(measured(100_000_000, 0.1), &config, waited);
            assert_eq!(doubted.spread(), spread, "{interface_rate:?} {waited}");
        }
        let unsure = measured(100_000_000, 2.0);
        let config = RootConfig::new(station, 1, "f");
        assert_eq!(doubted(unsure, &config, 1.0).spread(), 2.0);
    }

    #[test]
    fn a_way_that_took_longer_costs_more_for_contents_of_such_a_size_only() {
        let slow = WayTimes {
            via: Via::Cast,
            times: 16.0,
        };
        let by_class = |bytes: u64| {
            let learnt = Learnt {
                ways: vec![(size_class(bytes), slow)],
                ..learnt(&NAMES)
            };
            let choice = after(vec![learnt], None, Some(measured(100_000_000, 0.0)));
            choice.plan.via() == Via::Cast
        };
        assert!(!by_class(8 << 20) && !by_class(15 << 20));
        assert!(by_class(1 << 20) && by_class(64 << 20) && by_class(0));
    }

    /// Regression: only the parent counted, which may die.
    #[test]
    fn a_cast_needs_receivers_that_can_talk_to_all_above_them_in_the_ack_tree() {
        let hosts: Vec<usize> = (0..=400).collect();
        let policy = Policy::HolesAllowed;
        let tree = AckTree::new(400, policy);
        let above = |rank: usize| tree.parent(rank - 1).map(|position| position + 1);
        let (rank, grandparent) = (1..=400)
            .find_map(|rank| Some((rank, above(above(rank)?)?)))
            .expect("a tree of three levels");
        let can = |one: usize, other: usize| {
            let text = format!(
                "schema = 1\nswitch = [{{name='a', hosts='n[0-400]'}}]\n\
                 pair = [{{hosts=['n{one}', 'n{other}'], talk=false}}]\n"
            );
            let topology = Topology::parse(&text, "pairs").expect("a topology");
            can_acknowledge(&topology, &hosts, policy)
        };
        assert!(!can(rank, grandparent) && !can(rank, above(rank).expect("it has one")));
        assert!(can(rank, rank - 1));
    }

    #[test]
    fn receivers_that_cannot_talk_to_the_sender_are_named() {
        let names = ["n0", "n1", "n2", "n3"];
        let plan = |pair: &str, route: Route| {
            let text =
                format!("schema = 1\nswitch = [{{name='a', hosts='n[0-3]'}}]\n[[pair]]\n{pair}\n");
            let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
            let config = RootConfig {
                size: Some(8 << 20),
                route,
                topology: Topology::parse(&text, "partial").ok(),
                ..RootConfig::new(station, 1, "f")
            };
            let planner = Planner::new(&config, &names, None, None)?;
            planner
                .choose(&config, &names)
                .map(|choice| (choice.plan, planner))
        };
        let refused = plan("hosts = ['n0', 'n[1,3]']\ntalk = false", Route::Auto);
        let text = refused
            .map(|(plan, _)| plan)
            .expect_err("n0 is the sender")
            .to_string();
        assert!(text.contains("n[1,3] cannot talk to n0 directly"), "{text}");
        let pair = "hosts = ['n1', 'n[2-3]']\ntalk = false";
        let (chain, planner) = plan(pair, Route::Auto).expect("a tree");
        assert!(
            chain
                .edges()
                .all(|(from, to)| from * to == 0 || from * to > 3),
            "{chain:?}"
        );
        let again = planner.chain(&[Rank(0), Rank(1), Rank(2)]);
        assert!(
            again.edges().all(|edge| edge != (1, 2) && edge != (2, 1)),
            "{again:?}"
        );
        // n2 has gone: the chain would lead from n1 to n3.
        let (_, planner) = plan("hosts = ['n1', 'n3']\ntalk = false", Route::Auto).expect("a tree");
        let mut view = View {
            via: Via::Chain,
            ..view::tests::chain(4)
        };
        assert!(!planner.reconnect(&mut view), "n2 is between them");
        view.members[2].standing = MemberRole::Gone;
        assert!(planner.reconnect(&mut view));
        view.name_parents();
        let place = |rank: usize| (view.members[rank].parent, view.members[rank].order);
        assert_eq!(
            [1, 3].map(place),
            [(Some(Rank::ROOT), 0), (Some(Rank::ROOT), 1)]
        );
        let mut cast = View {
            via: Via::Cast,
            ..view.clone()
        };
        assert!(!planner.reconnect(&mut cast), "it has no tree");
        assert!(plan(pair, Route::Via(Via::ChainUnaware)).is_err());
        assert!(
            plan(pair, Route::Via(Via::Cast)).is_ok(),
            "they acknowledge to the sender"
        );
    }

    #[test]
    fn short_content_goes_unmeasured_in_full_frames() {
        let names: Vec<String> = (0..8).map(|rank| format!("n{rank}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let choice = |bytes, probe| {
            let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
            let config = RootConfig {
                size: Some(bytes),
                probe,
                ..RootConfig::new(station, 1, "f")
            };
            let planner = Planner::new(&config, &names, None, None).expect("one switch");
            planner.choose(&config, &names).expect("a plan")
        };
        assert_eq!(choice(20_000, true).plan.via(), Via::Cast);
        let longer = choice(64 << 10, true);
        assert_ne!(longer.plan.via(), Via::Cast);
        assert!(
            longer.segment_bytes >= 1468 && !longer.is_known(),
            "{}",
            longer.reason
        );
        assert!(
            longer.reason.contains("no rates are known"),
            "{}",
            longer.reason
        );
        assert_eq!(choice(4 << 20, true).plan.via(), Via::Chain);
    }

    #[test]
    fn a_chain_enters_each_network_once_whatever_its_hosts_are_called() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let config = RootConfig {
            routed: Some(24),
            route: Route::Via(Via::Chain),
            ..RootConfig::new(station, 1, "f")
        };
        let networks = [7, 9, 1, 7, 9, 1];
        for names in [
            ["n0", "n1", "n2", "n3", "n4", "n5"],
            ["n0", "n1@a", "n2@b", "two words", "", "n5@c"],
        ] {
            let planner = Planner::new(&config, &names, Some(&networks), None)
                .expect("networks behind a router");
            let plan = planner.choose(&config, &names).expect("a plan").plan;
            let enters = |&rank: &usize| {
                plan.parent(rank)
                    .is_some_and(|from| networks[from] != networks[rank])
            };
            assert_eq!((1..6).filter(enters).count(), 2, "{plan:?}");
        }
    }

    #[test]
    fn nothing_is_cast_where_no_frame_reaches_several_hosts() {
        let names = ["n0", "n1", "n2", "n3"];
        let choice = |routed, route: Route, bytes| {
            let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
            let config = RootConfig {
                routed,
                route,
                size: Some(bytes),
                ..RootConfig::new(station, 1, "f")
            };
            let measured = Calibration::assumed(1_000_000_000, 1468)
                .with_broadcast(Broadcast::FullRate)
                .ok();
            let planner = Planner::new(&config, &names, None, measured).expect("one switch");
            planner
                .choose(&config, &names)
                .map(|choice| choice.plan.via())
        };
        for bytes in [1000, 20_000, 1 << 20, 1 << 30] {
            let via = choice(Some(24), Route::Auto, bytes).expect("a plan");
            assert_ne!(via, Via::Cast, "{bytes} bytes");
        }
        assert_eq!(choice(None, Route::Auto, 20_000).ok(), Some(Via::Cast));
        let text = choice(Some(24), Route::Via(Via::Cast), 1000)
            .expect_err("no cast")
            .to_string();
        assert!(text.ends_with("another way with via"), "{text}");
        assert_eq!(
            choice(Some(24), Route::Via(Via::Chain), 1000).ok(),
            Some(Via::Chain)
        );
    }

    #[test]
    fn block_routes_are_not_used_where_receivers_may_come_late() {
        let names = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
        let in_blocks = |late: bool| {
            let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
            let config = RootConfig {
                late,
                size: Some(1 << 20),
                ..RootConfig::new(station, 1, "file")
            };
            let measured = Calibration::assumed(100_000_000, 1468).with_cast_max(100);
            let planner = Planner::new(&config, &names, None, measured.ok()).expect("one switch");
            let choice = planner.choose(&config, &names).expect("a plan");
            choice
                .candidates
                .iter()
                .any(|candidate| candidate.via.is_in_blocks())
        };
        assert!(in_blocks(false) && !in_blocks(true));
    }
}
