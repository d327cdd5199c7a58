//! Conversion of Python's keyword arguments to the library's options.

use crate::failure::Failure;
use ethbcast_collectives::NamedOptions;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyTuple};
use std::path::PathBuf;

/// Reads a call's keyword arguments; `None` stands for the library's default.
///
/// # Errors
/// If there is no such option, or its value is invalid.
pub fn named(given: Option<&Bound<'_, PyDict>>) -> PyResult<NamedOptions> {
    let mut options = NamedOptions::default();
    for (name, value) in given.into_iter().flatten() {
        let name: String = name.extract()?;
        let Some(option) = NamedOptions::names().find(|option| in_python(option) == name) else {
            let known: Vec<String> = NamedOptions::names().map(in_python).collect();
            let text = format!(
                "there is no argument {name}: use one of {}",
                known.join(", ")
            );
            return Err(PyTypeError::new_err(text));
        };
        if !value.is_none() {
            options
                .set(option, &text(option, &value)?)
                .map_err(Failure::from)?;
        }
    }
    Ok(options)
}

fn in_python(option: &str) -> String {
    option.replace('-', "_")
}

fn text(option: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().to_string());
    }
    if option == "ether-type" && value.is_instance_of::<PyInt>() {
        return Ok(format!("{:x}", value.extract::<u16>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(value.extract::<Vec<String>>()?.join(","));
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        let unreadable =
            |path| PyTypeError::new_err(format!("{option} is not valid UTF-8: {path:?}"));
        return path.into_os_string().into_string().map_err(unreadable);
    }
    Ok(value.str()?.to_string())
}
