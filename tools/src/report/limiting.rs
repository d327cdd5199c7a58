//! What limited a transfer: the part that something speaks for, most certain first.

use super::kept::Kept;
use super::plan_picture;
use super::text::shown;
use ethbcast_planning::topology::nodeset;

/// More than this share of frames sent again is no accident.
const MUCH_LOSS: f64 = 0.01;

/// A time that is longer than predicted by no more than this part of it is explained by the plan.
const AS_PREDICTED: f64 = 0.1;

/// The part that limited it, to be read after "limited by".
pub fn part(kept: &Kept) -> String {
    let is_as_predicted = kept.predicted_seconds.is_some_and(|seconds| kept.seconds <= seconds * (1.0 + AS_PREDICTED));
    let seen = if is_as_predicted { of_the_network(kept) } else { of_the_network(kept).or_else(|| of_hosts(kept)) };
    seen.unwrap_or_else(|| by_the_plan(kept))
}

/// A part of the network that something speaks for.
fn of_the_network(kept: &Kept) -> Option<String> {
    if kept.rerouted {
        return Some(format!("switches that threw away what was sent to all: it went on via {}", shown(&kept.via)));
    }
    let cable = kept.contention.as_ref()?.first()?;
    let (from, to) = (shown(&cable.from), shown(&cable.to));
    Some(format!("the cable {from}–{to}, over which the plan has {} hosts send at a time", cable.senders))
}

/// A host, or what frames suffered on the way to it.
fn of_hosts(kept: &Kept) -> Option<String> {
    let failed: Vec<&str> = kept.failed().map(|one| one.host.as_str()).collect();
    if !failed.is_empty() {
        return Some(format!("{}: failed on the way, and the others waited for it", shown(&nodeset::fold(&failed))));
    }
    let run = kept.run.as_ref()?;
    if !run.aside.is_empty() {
        return Some(format!("{}, served beside the others from then on", shown(&nodeset::fold(&run.aside))));
    }
    let lost = kept.frames.data_resent as f64 / kept.frames.data_sent.max(1) as f64;
    if lost > MUCH_LOSS {
        return Some(format!("loss: {} sent {:.1} % of its frames again", shown(&run.root), lost * 100.0));
    }
    let slow = run.held_up_by.as_ref();
    slow.map(|host| format!("{}, which took frames more slowly than they came", shown(host)))
}

/// What the plan itself goes by where nothing got in its way.
fn by_the_plan(kept: &Kept) -> String {
    let slow = kept.run.as_ref().and_then(|run| run.slow_cable.as_ref());
    if let Some(cable) = slow {
        return format!("{}, slower than the others by the topology", shown(cable));
    }
    let worst = kept.run.as_ref().and_then(plan_picture::worst_cable);
    match worst {
        Some(cable) => format!("the links themselves: the busiest, {}", shown(&cable)),
        None if kept.via == "cast" => "the links themselves: each carries every frame once".to_owned(),
        None => "nothing that was seen".to_owned(),
    }
}
