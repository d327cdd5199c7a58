//! `ethbcast plan` shows a broadcast tree: senders, receivers, cables, predicted time. For a saved
//! plan it shows the load on a topology's cables.

mod settings;

use crate::args::PlanArgs;
use crate::exit::{Code, WithCode};
use crate::{exit, topo, units};
use ethbcast_planning::plan::file::{Contention, SavedPlan};
use ethbcast_planning::plan::{CableLoad, Plan};
use ethbcast_planning::{draw, duration};
use serde_json::{Value, json};
use settings::{Judged, PlanSettings, Ways};

pub fn run(args: PlanArgs) -> anyhow::Result<()> {
    let settings = PlanSettings::resolve(&args)?;
    if settings.ways == Ways::All {
        let plans = Judged::all(&settings)?;
        let text = if args.json { all_as_json(&settings, &plans) } else { table(&settings, &plans) };
        return exit::report(&text);
    }
    let judged = Judged::one(&settings)?;
    if let Some(path) = &args.out {
        topo::write(path, &saved(&settings, &judged).to_toml())?;
    }
    let text = match (args.json, args.drawing.dot || args.drawing.svg) {
        (true, _) => as_json(&settings, &judged).to_string(),
        (false, true) => topo::drawn(&settings.topology, &judged.overlay(&settings), args.drawing),
        (false, false) => as_text(&settings, &judged),
    };
    exit::report(text.trim_end())?;
    if let Some(saved) = settings.saved.as_ref().filter(|_| !args.allow_contention) {
        drop(saved.admit(&settings.topology, Contention::Refused).code(Code::Usage)?);
    }
    Ok(())
}

fn saved(settings: &PlanSettings, judged: &Judged) -> SavedPlan {
    let names: Vec<&str> = (0..judged.plan.ranks()).map(|rank| settings.name(rank)).collect();
    SavedPlan::from_plan(&judged.plan, &names, judged.estimate.segment_bytes, settings.size_bytes)
}

pub fn as_text(settings: &PlanSettings, judged: &Judged) -> String {
    let estimate = &judged.estimate;
    let chosen = judged.reason.as_ref().map_or(String::new(), |reason| format!("chosen: {reason}\n"));
    let slow = estimate.slow_cable.as_ref().map_or(String::new(), |slow| {
        let even = duration(slow.even_seconds);
        format!("slowed down by {}; if all were like the usual cable: {even} predicted\n", slow.cable)
    });
    format!(
        "{}\n\
         height {}, degree {}; {} in segments of {} bytes: {} predicted{}\n{}\n{slow}{chosen}\n{}",
        judged.title,
        estimate.height,
        estimate.degree,
        size(settings),
        estimate.segment_bytes,
        duration(estimate.predicted_seconds),
        assumption(settings),
        busiest(judged),
        draw::text(&settings.topology, &judged.overlay(settings))
    )
}

pub fn table(settings: &PlanSettings, plans: &[Judged]) -> String {
    let title = format!(
        "{} from {} to {} others on {}{}\n",
        size(settings),
        settings.name(0),
        settings.members.len() - 1,
        settings.name,
        assumption(settings)
    );
    let head = format!(
        "\n{:<19} {:>6} {:>6} {:>5} {:>9} {:>13} {:>10}  worst cable",
        "via", "height", "degree", "flows", "contended", "segment bytes", "predicted"
    );
    let row = |judged: &Judged| {
        let estimate = &judged.estimate;
        format!(
            "\n{:<19} {:>6} {:>6} {:>5} {:>9} {:>13} {:>10}  {}",
            estimate.via,
            estimate.height,
            estimate.degree,
            judged.worst_flows(),
            if is_contended(judged) { "yes" } else { "no" },
            estimate.segment_bytes,
            duration(estimate.predicted_seconds),
            judged.worst().map_or("-".to_owned(), cable),
        )
    };
    title + &head + &plans.iter().map(row).collect::<String>()
}

pub fn as_json(settings: &PlanSettings, judged: &Judged) -> Value {
    let edges = edges(&judged.plan, |rank| settings.name(rank).to_owned());
    json!({
        "via": judged.estimate.via.to_string(),
        "root": settings.name(judged.plan.root()),
        "height": judged.estimate.height,
        "degree": judged.estimate.degree,
        "edges": edges,
        "contention": {
            "worst_cable": judged.worst().map(cable),
            "flows": judged.worst_flows(),
            "cables": judged.report.contended().into_iter().map(contended).collect::<Vec<Value>>(),
        },
        "segment_bytes": judged.estimate.segment_bytes,
        "slow_cable": judged.estimate.slow_cable.as_ref().map(|slow| slow.cable.as_str()),
        "predicted_seconds": judged.estimate.predicted_seconds,
    })
}

/// Returns the edges of a plan; with two trees those of the second have `"half": 1`.
pub fn edges(plan: &Plan, name: impl Fn(usize) -> String) -> Vec<Value> {
    let mut edges = Vec::new();
    for (half, tree) in plan.trees().into_iter().enumerate() {
        let numbered = |from: usize| tree.children(from).iter().enumerate().map(move |(order, &to)| (from, to, order));
        for (from, to, order) in (0..tree.ranks()).flat_map(numbered) {
            let mut edge = json!({ "from": name(from), "to": name(to), "order": order });
            if half > 0 {
                edge["half"] = json!(half);
            }
            edges.push(edge);
        }
    }
    edges
}

pub fn all_as_json(settings: &PlanSettings, plans: &[Judged]) -> String {
    let plans: Vec<Value> = plans.iter().map(|judged| as_json(settings, judged)).collect();
    json!({ "plans": plans }).to_string()
}

fn size(settings: &PlanSettings) -> String {
    settings.size_bytes.map_or("a stream of unknown length".to_owned(), units::bytes)
}

fn assumption(settings: &PlanSettings) -> String {
    if settings.is_measured {
        return String::new();
    }
    let rate = units::rate(settings.assumed_rate as f64);
    format!(" (on assumed cables of {rate}: measure yours with `ethbcast probe`)")
}

fn busiest(judged: &Judged) -> String {
    match judged.worst() {
        None if judged.plan.ranks() == 1 => "nobody to send to".to_owned(),
        None => "no cable carries anything twice: the switches copy".to_owned(),
        Some(worst) if worst.is_contended() => format!("contention: {}", judged.report.contention()),
        Some(worst) => format!("no contention: {worst}"),
    }
}

fn is_contended(judged: &Judged) -> bool {
    judged.worst().is_some_and(CableLoad::is_contended)
}

fn contended(load: &CableLoad) -> Value {
    json!({ "cable": cable(load), "flows": load.flows, "senders": load.senders })
}

fn cable(load: &CableLoad) -> String {
    format!("{} -> {}", load.from.name(), load.to.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{DrawingArgs, PlanArgs};

    fn settings(topology: &str, root: &str, via: &str) -> PlanSettings {
        let args = PlanArgs {
            topology: topology.into(),
            root: Some(root.to_owned()),
            size: Some(64 << 10),
            check: None,
            allow_contention: false,
            via: via.to_owned(),
            calibration: None,
            mtu: 1500,
            drawing: DrawingArgs::default(),
            json: false,
            out: None,
        };
        PlanSettings::resolve(&args).expect("good arguments")
    }

    #[test]
    fn a_plan_is_printed_and_drawn() {
        let settings = settings("fig9-2", "n0", "chain");
        let text = as_text(&settings, &Judged::one(&settings).expect("a plan"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "chain from n0 to 31 others on fig9-2");
        assert!(lines[1].starts_with("height 31, degree 1; 64.00 KiB in segments of 384 bytes: "), "{text}");
        assert_eq!(lines[2], "no contention: the busiest cable, host n0 to switch s0, carries 1 flow from 1 sender");
        assert_eq!(lines[6..8], ["├── n0 (root)  ↑1 ↓0  → n1", "├── n1  ↑1 ↓1  → n2"]);
        assert_eq!(lines[22], "└── s1  ↑0 ↓1");
    }

    #[test]
    fn the_objects_have_the_promised_keys() {
        let settings = settings("fig9-5", "n3", "chain-unaware");
        let plan = as_json(&settings, &Judged::one(&settings).expect("a plan"));
        let keys: Vec<&str> = plan.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "contention",
                "degree",
                "edges",
                "height",
                "predicted_seconds",
                "root",
                "segment_bytes",
                "slow_cable",
                "via"
            ]
        );
        assert_eq!((&plan["via"], &plan["root"], &plan["height"]), (&json!("chain-unaware"), &json!("n3"), &json!(31)));
        // Rank 0 is the root: the chain is n3, n0, n1, n2, n4, ….
        assert_eq!(plan["edges"][0], json!({ "from": "n3", "to": "n0", "order": 0 }));
        assert_eq!(plan["edges"].as_array().map(Vec::len), Some(31));
        let contention = &plan["contention"];
        assert_eq!((&contention["worst_cable"], &contention["flows"]), (&json!("s1 -> s0"), &json!(8)));
        assert_eq!(contention["cables"][0], json!({ "cable": "s1 -> s0", "flows": 8, "senders": 8 }));
        assert_eq!(contention["cables"].as_array().map(Vec::len), Some(6));
    }

    #[test]
    fn orders_count_from_0_among_the_senders_sends() {
        let settings = settings("fig9-1", "n0", "flat");
        let plan = as_json(&settings, &Judged::one(&settings).expect("a plan"));
        assert_eq!(plan["edges"][14], json!({ "from": "n0", "to": "n15", "order": 14 }));
        assert_eq!(plan["contention"], json!({ "worst_cable": "n0 -> s0", "flows": 15, "cables": [] }));
    }

    #[test]
    fn all_ways_are_compared_by_rising_time() {
        let settings = settings("fig9-5", "n0", "all");
        let plans = Judged::all(&settings).expect("plans");
        assert_eq!(plans.len(), ethbcast_planning::plan::Via::every().count());
        assert!(plans.is_sorted_by_key(|judged| judged.estimate.predicted_seconds));
        let table = table(&settings, &plans);
        let cast = table.lines().find(|line| line.starts_with("cast ")).expect("cast");
        assert!(cast.ends_with("  -") && cast.contains(" no "), "{table}");
        assert!(table.lines().any(|line| line.starts_with("chain-unaware ") && line.contains(" yes ")), "{table}");
        let all: Value = serde_json::from_str(&all_as_json(&settings, &plans)).expect("JSON");
        assert_eq!(all["plans"].as_array().map(Vec::len), Some(plans.len()));
        assert_eq!(all["plans"][0]["contention"]["worst_cable"], Value::Null);
    }

    #[test]
    fn a_message_in_blocks_loads_cables_by_its_bytes() {
        // On the ring n0, n1, …, n31 of fig9-5, each block crosses s0 → s1 at most eight times.
        let settings = settings("fig9-5", "n0", "scatter-allgather");
        let judged = Judged::one(&settings).expect("a plan");
        assert_eq!(judged.worst_flows(), 8);
        assert!(is_contended(&judged));
    }
}
