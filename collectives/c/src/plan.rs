//! C interface to network topologies and the broadcast trees made for them.

use crate::raw::{self, text, there};
use crate::status::{Failure, Status, call};
use ethbcast_planning::plan::{self, Via, check, make};
use ethbcast_planning::topology;
use std::ffi::{CString, c_char};
use std::sync::Arc;

/// A tree of switches with hosts.
pub struct Topology {
    tree: topology::Topology,
    hosts: Vec<CString>,
}

/// A plan: who sends to whom. A rank is a host's number in the topology.
pub struct Plan {
    plan: plan::Plan,
    is_contention_free: bool,
}

/// Reads a topology: ethbcast's own file, Slurm's topology.conf or topology.yaml, a folder of LLDP
/// outputs, or the name of a test bed. Free it with ethbcast_topology_free.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_topology_load(
    path: *const c_char,
    topology: Option<&mut *mut Topology>,
) -> Status {
    call(|| {
        let place = there(topology, "place for the topology")?;
        *place = std::ptr::null_mut();
        let tree = topology::Topology::load(text(path, "topology's path")?)
            .map_err(Failure::usage)?
            .topology;
        let hosts = tree
            .hosts()
            .iter()
            .map(|host| CString::new(host.as_str()).unwrap_or_default())
            .collect();
        *place = raw::keep(Topology { tree, hosts });
        Ok(())
    })
}

/// Frees a topology; null is allowed, and one that is freed is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_topology_free(topology: *mut Topology) {
    drop(raw::free(topology, "topology"));
}

/// Returns the number of hosts; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_topology_hosts(topology: *const Topology) -> usize {
    raw::handle_or_none(topology).map_or(0, |topology| topology.hosts.len())
}

/// The name of a host, as long as the topology is there; null if there is no such host.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_topology_host(topology: *const Topology, host: usize) -> *const c_char {
    let topology = raw::handle_or_none(topology);
    let name = topology
        .as_ref()
        .and_then(|topology| topology.hosts.get(host));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Plans a broadcast over all hosts of a topology: `via` is chain, binary, kary=K, cast and so on,
/// `root` the name of a host. Free it with ethbcast_plan_free.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_make(
    topology: *const Topology,
    via: *const c_char,
    root: *const c_char,
    plan: Option<&mut *mut Plan>,
) -> Status {
    call(|| {
        let place = there(plan, "place for the plan")?;
        *place = std::ptr::null_mut();
        let topology = raw::handle(topology, "topology")?;
        let topology = &topology.tree;
        let via: Via = text(via, "way")?.parse().map_err(Failure::usage)?;
        let name = text(root, "root's name")?;
        let unknown = || {
            Failure::usage(format_args!(
                "the topology has no host {name}: name one of its own as root"
            ))
        };
        let root_host = topology.host_named(name).ok_or_else(unknown)?;
        let members: Vec<usize> = (0..topology.hosts().len()).collect();
        let made = make(via, topology, root_host, &members, &Default::default())
            .map_err(Failure::usage)?;
        let is_contention_free = check(topology, &made, &members).is_contention_free();
        *place = raw::keep(Plan {
            plan: made,
            is_contention_free,
        });
        Ok(())
    })
}

/// Frees a plan; null is allowed, and one that is freed is left alone.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_free(plan: *mut Plan) {
    drop(raw::free(plan, "plan"));
}

/// Returns the parent of a rank; -1 for the root, for null and if there is no such rank.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_parent(plan: *const Plan, rank: usize) -> i64 {
    of_rank(plan, rank)
        .and_then(|plan| plan.plan.parent(rank))
        .map_or(-1, |parent| parent as i64)
}

/// Returns the number of children of a rank, which `child` lists in order; 0 for null and if there
/// is no such rank.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_children(plan: *const Plan, rank: usize) -> usize {
    of_rank(plan, rank).map_or(0, |plan| plan.plan.children(rank).len())
}

/// One of the ranks that a rank sends to; -1 if there is none of that number.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_child(plan: *const Plan, rank: usize, number: usize) -> i64 {
    let child = of_rank(plan, rank).and_then(|plan| plan.plan.children(rank).get(number).copied());
    child.map_or(-1, |child| child as i64)
}

fn of_rank(plan: *const Plan, rank: usize) -> Option<Arc<Plan>> {
    raw::handle_or_none(plan).filter(|plan| rank < plan.plan.ranks())
}

/// The most hops from the root to any rank; 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_height(plan: *const Plan) -> usize {
    raw::handle_or_none(plan).map_or(0, |plan| plan.plan.height())
}

/// Whether no two senders compete for a cable in one direction, as an independent check finds;
/// false for null.
#[unsafe(no_mangle)]
pub extern "C" fn ethbcast_plan_is_contention_free(plan: *const Plan) -> bool {
    raw::handle_or_none(plan).is_some_and(|plan| plan.is_contention_free)
}
