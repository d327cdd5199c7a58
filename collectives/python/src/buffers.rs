//! Memory of Python's objects, taken by the buffer protocol: no bytes are copied.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use std::ops::Range;

/// The memory of an object, which stays where it is, and as long as it is, until this is dropped.
///
/// As everywhere in Python, who changes it meanwhile from another thread gets bytes of both.
pub struct Buffer(PyUntypedBuffer);

impl Buffer {
    /// Memory to read from: bytes, a `bytearray`, an array.
    ///
    /// # Errors
    /// If the object has no memory to show, has gaps in it, or holds Python's own objects.
    pub fn to_read(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Buffer> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            let text = format!(
                "{what} is not contiguous: pass numpy.ascontiguousarray(...) of it, or a slice without gaps in C order"
            );
            return Err(PyBufferError::new_err(text));
        }
        if has_objects(buffer.format().to_bytes()) {
            let text = format!("{what} holds Python objects, which mean nothing elsewhere: pass numbers, or pickle it");
            return Err(PyTypeError::new_err(text));
        }
        Ok(Buffer(buffer))
    }

    /// Memory to write to.
    ///
    /// # Errors
    /// As [`to_read`](Buffer::to_read), and if it is read-only.
    pub fn to_write(object: &Bound<'_, PyAny>, what: &str) -> PyResult<WritableBuffer> {
        let buffer = Buffer::to_read(object, what)?;
        if buffer.0.readonly() {
            let text = format!("{what} is read-only: pass a bytearray or an array that can be written to");
            return Err(PyBufferError::new_err(text));
        }
        Ok(WritableBuffer(buffer))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the protocol holds the memory for as long as the buffer is there, and it is contiguous; that nobody
        // writes to it meanwhile is asked of the caller, who could not say it in Python.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }

    fn addresses(&self) -> Range<usize> {
        let begin = self.0.buf_ptr() as usize;
        begin..begin + self.0.len_bytes()
    }
}

/// Memory that can be written to.
pub struct WritableBuffer(Buffer);

impl WritableBuffer {
    /// Its bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let WritableBuffer(Buffer(buffer)) = self;
        if buffer.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: as above; it is not read-only, and callers that take two buffers have compared them.
        unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), buffer.len_bytes()) }
    }

    /// Fails if another buffer, which is to be read, is partly the same memory.
    ///
    /// # Errors
    /// If it is.
    pub fn check_apart(&self, other: &Buffer, what: &str) -> PyResult<()> {
        let (own, other) = (self.0.addresses(), other.addresses());
        if own.start.max(other.start) < own.end.min(other.end) {
            return Err(PyBufferError::new_err(format!("{what} are the same memory in part: pass a copy of one")));
        }
        Ok(())
    }
}

/// Whether a format (the module `struct`, PEP 3118) has pointers to objects in it; names of fields stand in colons.
fn has_objects(format: &[u8]) -> bool {
    let mut is_name = false;
    format.iter().any(|&letter| {
        is_name ^= letter == b':';
        !is_name && letter == b'O'
    })
}
