//! The report that a root prints at its end.

use serde_json::Value;

#[derive(Debug)]
pub struct Report(Option<Value>);

impl Report {
    pub fn read(stdout: &str) -> Self {
        // A root that failed earlier prints an object without receivers.
        Self(serde_json::from_str(stdout).ok().filter(|report: &Value| report["receivers"].is_array()))
    }

    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub fn rows(&self) -> Vec<(String, String)> {
        let rows = self.0.as_ref().and_then(|report| report["receivers"].as_array()).cloned().unwrap_or_default();
        let word = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| (word(row, "host"), word(row, "status"))).collect()
    }

    pub fn statuses(&self, host: &str) -> Vec<String> {
        self.rows().into_iter().filter(|(of, _)| is_name_of(of, host)).map(|(_, status)| status).collect()
    }

    pub fn leaves_out(&self, host: &str) -> bool {
        let list = self.0.as_ref().and_then(|report| report["left_out"].as_array());
        list.is_some_and(|list| list.iter().any(|away| away["host"].as_str().is_some_and(|of| is_name_of(of, host))))
    }

    pub fn content(&self) -> Option<(u64, String)> {
        let report = self.0.as_ref()?;
        Some((report["bytes"].as_u64()?, report["blake3"].as_str()?.to_owned()))
    }
}

/// Whether `name` means `host`: two hosts of one name are listed with their addresses,
/// `n1@02:eb:00:00:00:01`.
fn is_name_of(name: &str, host: &str) -> bool {
    name.strip_prefix(host).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
}
