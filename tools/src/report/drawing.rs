//! Axes, lines, texts and numbers of the charts in the HTML report.
//!
//! Pictures are stretched to the available width and contain no text: the labels are elements of
//! the page, positioned in per cent. Names may come from the network or an untrusted file: the
//! renderer escapes them, and characters that mislead are replaced here.

use super::kept::{Kept, PlanRecord, Receiver, Run};
use crate::units;
use crate::units::quoted;
use ethbcast_collectives::membership::is_shown;
use ethbcast_planning::draw::{self, Overlay, canvas};
use ethbcast_planning::plan::{self, CableEnd, CheckReport, Plan, Via};
use ethbcast_planning::topology::Topology;
use maud::{Markup, PreEscaped, html};
use std::collections::HashMap;

pub const WIDTH: f64 = 1000.0;
const MAX_STEPS: f64 = 5.0;
/// Position of the last label on a horizontal axis, as a fraction; further ones would exceed the
/// page.
const LAST_ACROSS: f64 = 0.97;

#[derive(Clone, Debug)]
pub struct Scale {
    end: f64,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    pub fn of_time(end: f64) -> Scale {
        let end = if end.is_finite() && end > 0.0 {
            end
        } else {
            1.0
        };
        let (unit, name) = match end {
            end if end < 0.5 => (1e-3, "ms"),
            end if end < 600.0 => (1.0, "s"),
            _ => (60.0, "min"),
        };
        Scale {
            end,
            ticks: ticks(end / unit, name, LAST_ACROSS)
                .map(|(at, text)| (at * unit, text))
                .collect(),
        }
    }

    pub fn of_bytes(end: u64) -> Scale {
        let end = end.max(1) as f64;
        let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let power = ((end.log2() / 10.0) as usize).min(units.len() - 1);
        let unit = 1024f64.powi(power as i32);
        Scale {
            end,
            ticks: ticks(end / unit, units[power], 1.0)
                .map(|(at, text)| (at * unit, text))
                .collect(),
        }
    }

    pub fn part(&self, value: f64) -> f64 {
        if value.is_finite() {
            (value / self.end).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    pub fn percent(&self, value: f64) -> String {
        format!("{:.2}%", self.part(value) * 100.0)
    }

    pub fn across(&self) -> Markup {
        html! {
            div.across aria-hidden="true" {
                @for (at, text) in &self.ticks {
                    span style={ "left:" (self.percent(*at)) } { (text) }
                }
            }
        }
    }

    pub fn upwards(&self) -> Markup {
        html! {
            div.upwards aria-hidden="true" {
                @for (at, text) in &self.ticks {
                    span style={ "bottom:" (self.percent(*at)) } { (text) }
                }
            }
        }
    }

    pub fn grid_across(&self, height: f64) -> String {
        self.ticks
            .iter()
            .map(|(at, _)| format!("M{:.0} 0V{height:.0}", self.part(*at) * WIDTH))
            .collect()
    }

    pub fn grid_upwards(&self, height: f64) -> String {
        self.ticks
            .iter()
            .map(|(at, _)| format!("M0 {:.0}H{WIDTH:.0}", (1.0 - self.part(*at)) * height))
            .collect()
    }
}

fn ticks(end: f64, unit: &str, last: f64) -> impl Iterator<Item = (f64, String)> {
    let rough = end / MAX_STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|&step| step >= rough)
        .unwrap_or(rough);
    let digits = if step / power == 2.5 { 1.0 } else { 0.0 };
    let decimals = (digits - step.log10().floor()).max(0.0) as usize;
    let count = (end * last / step).floor() as usize;
    (0..=count)
        .map(move |at| at as f64 * step)
        .map(move |at| (at, format!("{at:.decimals$} {unit}")))
}

/// Returns the path of a line, whose points are fractions of width and height, for a picture of
/// this height.
pub fn line(points: &[(f64, f64)], height: f64) -> String {
    let place = |&(x, y): &(f64, f64)| {
        (
            (x * WIDTH).round() as i64,
            ((1.0 - y) * height).round() as i64,
        )
    };
    canvas::path(&points.iter().map(place).collect::<Vec<_>>())
}

pub fn area(points: &[(f64, f64)], height: f64) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let all: Vec<(f64, f64)> = [&[(first.0, 0.0)], points, &[(last.0, 0.0)]].concat();
    line(&all, height) + "Z"
}

/// Length at which a text is cut; no regular name or sentence is as long.
const MAX_CHARACTERS: usize = 400;

pub fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(MAX_CHARACTERS)
        .map(|letter| if is_seen(letter) { letter } else { '\u{FFFD}' })
        .collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        shown.push('…');
    }
    shown
}

/// Whether a character is harmless in a page: shown anywhere, not invisible, and not forbidden by
/// XML.
fn is_seen(letter: char) -> bool {
    let is_invisible = matches!(letter, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}');
    is_shown(letter) && !is_invisible && !matches!(letter, '\u{FFFE}' | '\u{FFFF}')
}

pub fn time(seconds: f64) -> String {
    if !(-1.0..1e9).contains(&seconds) {
        return "?".to_owned();
    }
    if seconds >= 600.0 {
        let whole = seconds.round() as u64;
        return format!("{} min {:02} s", whole / 60, whole % 60);
    }
    if seconds >= 1.0 || seconds <= 0.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{:.1} ms", seconds * 1000.0)
    }
}

pub fn rate(bytes: u64, seconds: f64) -> String {
    if seconds > 0.0 {
        units::rate(bytes as f64 * 8.0 / seconds)
    } else {
        "-".to_owned()
    }
}

pub fn command_line(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Number of hosts above which the drawing is too large to be useful.
const MAX_HOSTS: usize = 400;

struct Drawn {
    topology: Topology,
    plan: Plan,
    hosts: Vec<usize>,
    judged: CheckReport,
}

impl Drawn {
    fn of(run: &Run) -> Option<Drawn> {
        let record = run.plan.as_ref()?;
        let (topology, hosts) = network(run, record)?;
        let plan = tree(record)?;
        let judged = plan::check_message(&topology, &plan, &hosts);
        judged.is_spanning().then_some(Drawn {
            topology,
            plan,
            hosts,
            judged,
        })
    }
}

pub fn network(run: &Run, record: &PlanRecord) -> Option<(Topology, Vec<usize>)> {
    let Some(text) = &run.topology else {
        return Some((
            one_switch(&record.hosts)?,
            (0..record.hosts.len()).collect(),
        ));
    };
    let topology = Topology::parse(text, "the report").ok()?;
    let hosts = record
        .hosts
        .iter()
        .map(|host| topology.host_named(host))
        .collect::<Option<_>>()?;
    Some((topology, hosts))
}

fn one_switch(names: &[String]) -> Option<Topology> {
    let by_rank = || (0..names.len()).map(|rank| format!("rank{rank}"));
    Topology::single_switch(names.iter().cloned())
        .or_else(|_| Topology::single_switch(by_rank()))
        .ok()
}

fn tree(record: &PlanRecord) -> Option<Plan> {
    let via: Via = record.via.parse().ok()?;
    let ranks: HashMap<&str, usize> = record
        .hosts
        .iter()
        .enumerate()
        .map(|(rank, host)| (host.as_str(), rank))
        .collect();
    let tree = |half: usize| {
        let mut children = vec![Vec::new(); record.hosts.len()];
        for edge in record.edges.iter().filter(|edge| edge.half == half) {
            children[*ranks.get(edge.from.as_str())?].push(*ranks.get(edge.to.as_str())?);
        }
        Plan::from_children(via, 0, &children).ok()
    };
    if via == Via::TwoTree {
        tree(0)?.paired(tree(1)?).ok()
    } else {
        tree(0)
    }
}

/// Returns the cable with most copies of the bytes by the plan, and how many it carried.
pub fn worst_cable(kept: &Kept) -> Option<(String, f64)> {
    let run = kept.run.as_ref()?;
    let drawn = Drawn::of(run)?;
    let carried = carried(kept, &run.plan.as_ref()?.hosts, &drawn.plan);
    let (worst, edges) = (drawn.judged.worst?, drawn.judged.worst_edges);
    let share = edges.iter().map(|&(_, to)| carried[to]).sum::<f64>() / edges.len().max(1) as f64;
    // Without a topology switches have no names.
    let from = match run.topology {
        Some(_) => format!("{} to {}", worst.from, worst.to),
        None => {
            let host = if matches!(worst.from, CableEnd::Host(_)) {
                &worst.from
            } else {
                &worst.to
            };
            format!("the cable of {}", host.name())
        }
    };
    Some((from, worst.flows as f64 * share))
}

/// Returns the part of the bytes that came to each rank: less than all to a receiver that failed,
/// unless one behind it has more.
fn carried(kept: &Kept, hosts: &[String], plan: &Plan) -> Vec<f64> {
    let part = |one: &Receiver| (one.bytes as f64 / kept.bytes.max(1) as f64).min(1.0);
    let failed: HashMap<&str, f64> = kept
        .failed()
        .map(|one| (one.host.as_str(), part(one)))
        .collect();
    let mut carried: Vec<f64> = hosts
        .iter()
        .map(|host| failed.get(host.as_str()).map_or(1.0, |&part| part))
        .collect();
    for tree in plan.trees() {
        for rank in 0..carried.len() {
            let (mut at, part) = (rank, carried[rank]);
            while let Some(parent) = tree.parent(at).filter(|&parent| carried[parent] < part) {
                carried[parent] = part;
                at = parent;
            }
        }
    }
    carried
}

pub fn section(run: &Run) -> Markup {
    let Some(drawn) = Drawn::of(run) else {
        return html! {};
    };
    let ranks = drawn.plan.ranks();
    let title = format!(
        "{} from {} to {} others",
        drawn.plan.via(),
        drawn.topology.hosts()[drawn.hosts[0]],
        ranks - 1
    );
    let loads = &drawn.judged.loads;
    let overlay = Overlay {
        title: &title,
        plan: Some(&drawn.plan),
        host_of_rank: &drawn.hosts,
        loads,
    };
    html! {
        section {
            h2 { "The plan over the switches" }
            p.note {
                @if run.topology.is_none() { "No topology was named: all hosts are drawn on one switch. " }
                "What each cable carries is by the plan, in copies of the bytes."
            }
            @if ranks > MAX_HOSTS {
                p { (title) ": too many hosts to draw; `ethbcast plan --svg` draws it." }
            } @else {
                div.plan {
                    div.wide { (PreEscaped(draw::svg_in_page(&drawn.topology, &overlay))) }
                    ul.legend {
                        @for (sign, text) in draw::svg_legend(&drawn.topology, &overlay) {
                            li { (PreEscaped(sign)) span { (text) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_say_their_unit() {
        assert_eq!(labels(&Scale::of_time(3.2)), ["0 s", "1 s", "2 s", "3 s"]);
        assert_eq!(
            labels(&Scale::of_time(0.08)),
            ["0 ms", "20 ms", "40 ms", "60 ms"]
        );
        assert_eq!(
            labels(&Scale::of_time(1800.0)),
            ["0 min", "10 min", "20 min"]
        );
        assert_eq!(
            labels(&Scale::of_bytes(64 << 20)),
            ["0 MiB", "20 MiB", "40 MiB", "60 MiB"]
        );
        assert_eq!(
            labels(&Scale::of_bytes(1536 << 20)),
            ["0.0 GiB", "0.5 GiB", "1.0 GiB", "1.5 GiB"]
        );
    }

    #[test]
    fn no_number_breaks_an_axis() {
        for end in [0.0, -1.0, 1e-300, f64::MAX, f64::NAN, f64::INFINITY] {
            let scale = Scale::of_time(end);
            assert!(labels(&scale).len() < 20, "{end}");
            assert!(
                (0.0..=1.0).contains(&scale.part(f64::NAN))
                    && (0.0..=1.0).contains(&scale.part(1e308))
            );
        }
        assert!(
            [0, 1, u64::MAX]
                .into_iter()
                .all(|end| labels(&Scale::of_bytes(end)).len() < 20)
        );
    }

    #[test]
    fn a_straight_line_has_two_points() {
        let points: Vec<(f64, f64)> = (0..=100)
            .map(|at| (f64::from(at) / 100.0, f64::from(at) / 100.0))
            .collect();
        assert_eq!(line(&points, 100.0), "M0 100L1000 0");
        assert_eq!(area(&points, 100.0), "M0 100L1000 0L1000 100Z");
    }

    #[test]
    fn invisible_characters_are_replaced() {
        assert_eq!(
            shown("n1\u{202E}\u{7}\n<b>"),
            "n1\u{FFFD}\u{FFFD}\u{FFFD}<b>"
        );
        assert_eq!(shown(&"x".repeat(500)).chars().count(), MAX_CHARACTERS + 1);
    }

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words = ["ethbcast", "send", "--hosts", "n[1-3]", "it's", ""].map(str::to_owned);
        assert_eq!(
            command_line(&words),
            r"ethbcast send --hosts 'n[1-3]' 'it'\''s' ''"
        );
    }

    #[test]
    fn times_are_as_exact_as_they_matter() {
        assert_eq!(
            [0.0, 0.0125, 3.2041, 754.4].map(time),
            ["0.00 s", "12.5 ms", "3.20 s", "12 min 34 s"]
        );
    }
}
