//! What other programs say: iproute2's and nftables' own words are truer than a copy of how they ask the kernel.

use serde_json::Value;
use std::process::{Command, Stdio};

/// What a program prints; why there is nothing, if there is not.
pub fn text_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("`{program}` does not run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{program} {}`: {}", arguments.join(" "), said.lines().next().unwrap_or("it failed")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The same, as JSON.
pub fn json_of(program: &str, arguments: &[&str]) -> Result<Value, String> {
    let text = text_of(program, arguments)?;
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).map_err(|error| format!("`{program}` writes no JSON: {error}"))
}
