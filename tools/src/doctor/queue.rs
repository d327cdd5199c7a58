//! Check of the queueing discipline: a forgotten shaper, or losses of an experiment.

use super::outside::json_of;
use super::{Fault, Findings, Fix, quoted};
use serde_json::Value;

const MIN_BITS_PER_SECOND: u64 = 100_000_000;

pub fn check(name: &str, findings: &mut Findings) {
    let all = match json_of("tc", &["-j", "qdisc", "show", "dev", name]) {
        Ok(all) => all,
        Err(why) => return findings.skip(format!("queues on the way out: {why}")),
    };
    for qdisc in all.as_array().into_iter().flatten() {
        if let Some(does) = holds_back(qdisc) {
            let fix = format!("tc qdisc del dev {} root", quoted(name));
            findings.add(Fault::Shaper, format!("a queue of {name} {does}"), Fix::Command(fix));
        }
        if qdisc["kind"] == "clsact" || qdisc["kind"] == "ingress" {
            findings.skip(format!("filters of tc: `tc filter show dev {name} ingress` and `egress` show them"));
        }
    }
}

/// Describes a discipline that does more than queue frames.
fn holds_back(qdisc: &Value) -> Option<String> {
    match qdisc["kind"].as_str()? {
        // tc counts bytes.
        "tbf" => {
            let bits = qdisc["options"]["rate"].as_u64()?.saturating_mul(8);
            (bits < MIN_BITS_PER_SECOND).then(|| format!("(tbf) lets {} Mbit/s pass", bits as f64 / 1e6))
        }
        "netem" => Some("(netem) delays or loses frames on purpose".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_narrow_shaper_and_a_trials_losses_are_told_from_usual_queues() {
        let tbf = |rate: u64| json!({ "kind": "tbf", "options": { "rate": rate } });
        assert_eq!(holds_back(&tbf(625_000)).as_deref(), Some("(tbf) lets 5 Mbit/s pass"));
        assert_eq!(holds_back(&tbf(12_500_000)), None);
        assert_eq!(holds_back(&json!({ "kind": "fq_codel", "options": {} })), None);
        assert!(holds_back(&json!({ "kind": "netem", "options": { "loss-random": { "loss": 0.05 } } })).is_some());
    }
}
