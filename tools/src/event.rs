//! Common fields of the objects of `--json-stream`.

use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the events. Events and fields may be added; none is removed or changed.
const VERSION: u64 = 1;

/// Creates an event with the present time and its own fields.
pub fn event(name: &str, mut fields: Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    fields["version"] = json!(VERSION);
    fields["event"] = json!(name);
    fields["at"] = json!(now.as_millis() as f64 / 1000.0);
    fields
}

/// Creates the last event, which contains the object of `--json`.
pub fn done(report: &Value) -> Value {
    event("done", json!({ "report": report }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_event_says_what_it_is_when_it_was_and_of_which_version() {
        let event = done(&json!({ "schema": 1 }));
        assert_eq!((&event["version"], &event["event"]), (&json!(1), &json!("done")));
        assert_eq!(event["report"], json!({ "schema": 1 }));
        let at = UNIX_EPOCH + Duration::from_secs_f64(event["at"].as_f64().expect("a number"));
        assert!(at.elapsed().is_ok_and(|age| age < Duration::from_secs(60)), "{event}");
    }
}
