//! Entries of `links`: a switch's name, or a table with properties of the cable.

use crate::parse_rate;
use crate::topology::draft::DraftLink;
use crate::topology::error::TopologyProblem;
use toml::Value;

const MAX_CABLES: i64 = 64;

pub(super) fn read(value: &Value, line: usize) -> Result<DraftLink, TopologyProblem> {
    let refuse = |text: String| Err(TopologyProblem::LinkForm(text));
    let table = match value {
        Value::String(to) => return Ok(DraftLink::new(to.clone(), Some(line))),
        Value::Table(table) => table,
        other => return refuse(format!("found {}", other.type_str())),
    };
    if let Some(key) = table.keys().find(|key| !["to", "rate", "cables"].contains(&key.as_str())) {
        return refuse(format!("unknown key `{key}`"));
    }
    let Some(to) = table.get("to").and_then(Value::as_str) else { return refuse("`to` names no switch".to_owned()) };
    let cables = match table.get("cables").map(Value::as_integer) {
        None => 1,
        Some(Some(cables @ 1..=MAX_CABLES)) => cables as u64,
        Some(_) => return refuse(format!("`cables` is no number from 1 to {MAX_CABLES}")),
    };
    let rate = table.get("rate").map(rate).transpose()?.map(|rate| rate * cables);
    Ok(DraftLink { to: to.to_owned(), line: Some(line), rate })
}

pub(super) fn rate(value: &Value) -> Result<u64, TopologyProblem> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.is_str() {
        return parse_rate(&text).map_err(TopologyProblem::Rate);
    }
    Err(TopologyProblem::Rate(format!("`{text}` has no unit; write it as \"{text}mbit\" if that is what it means")))
}
