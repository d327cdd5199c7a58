//! What a root has printed at its end.

use serde_json::Value;

/// The root's JSON, if it printed any.
#[derive(Debug)]
pub struct Report(Option<Value>);

impl Report {
    /// Reads it.
    pub fn read(stdout: &str) -> Self {
        // One that has failed before there was an outcome gives the reason in an object without receivers.
        Self(serde_json::from_str(stdout).ok().filter(|report: &Value| report["receivers"].is_array()))
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Every receiver it lists, with what became of it.
    pub fn rows(&self) -> Vec<(String, String)> {
        let rows = self.0.as_ref().and_then(|report| report["receivers"].as_array()).cloned().unwrap_or_default();
        let word = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| (word(row, "host"), word(row, "status"))).collect()
    }

    /// What became of a host, once for each time it was a member.
    pub fn statuses(&self, host: &str) -> Vec<String> {
        self.rows().into_iter().filter(|(of, _)| is_name_of(of, host)).map(|(_, status)| status).collect()
    }

    /// Whether it says why a host is no member.
    pub fn leaves_out(&self, host: &str) -> bool {
        let list = self.0.as_ref().and_then(|report| report["left_out"].as_array());
        list.is_some_and(|list| list.iter().any(|away| away["host"].as_str().is_some_and(|of| is_name_of(of, host))))
    }

    /// How many bytes were sent, and their digest.
    pub fn content(&self) -> Option<(u64, String)> {
        let report = self.0.as_ref()?;
        Some((report["bytes"].as_u64()?, report["blake3"].as_str()?.to_owned()))
    }
}

/// Whether a root calls a host so: of two of one name it names the address too, `n1@02:eb:00:00:00:01`.
fn is_name_of(name: &str, host: &str) -> bool {
    name.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}
