//! Memory of Python objects, used without a copy: by the buffer protocol, or by DLPack.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_SetName};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

/// Memory of an object, which stays in place and alive until this is dropped.
///
/// A concurrent change from another thread gives a mixture of old and new
/// bytes.
pub struct Buffer(Access);

enum Access {
    Buffer(PyUntypedBuffer),
    /// An array whose type the buffer protocol does not have, as bytes.
    Viewed(PyUntypedBuffer),
    Tensor(Tensor),
}

impl Access {
    /// Accesses an object's memory: an array whose type the buffer protocol does not have, such as
    /// bfloat16, as bytes; a tensor by DLPack.
    fn to(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Access> {
        let refused = match PyUntypedBuffer::get(object) {
            Ok(buffer) => return Ok(Access::Buffer(buffer)),
            Err(refused) => refused,
        };
        if object.hasattr("__array_interface__")? {
            if !object
                .getattr("flags")?
                .getattr("c_contiguous")?
                .is_truthy()?
            {
                return Err(not_contiguous(what));
            }
            let bytes = object
                .call_method1("reshape", (-1,))?
                .call_method1("view", ("u1",))?;
            return PyUntypedBuffer::get(&bytes).map(Access::Viewed);
        }
        if object.hasattr("__dlpack__")? {
            let tensor = Tensor::of(object, what)?;
            return tensor
                .map(Access::Tensor)
                .ok_or_else(|| not_contiguous(what));
        }
        Err(refused)
    }

    fn is_readonly(&self) -> bool {
        matches!(self, Access::Buffer(buffer) | Access::Viewed(buffer) if buffer.readonly())
    }

    fn place(&self) -> (*mut u8, usize) {
        match self {
            Access::Buffer(buffer) | Access::Viewed(buffer) => {
                (buffer.buf_ptr().cast(), buffer.len_bytes())
            }
            Access::Tensor(tensor) => tensor.place(),
        }
    }
}

fn not_contiguous(what: &str) -> PyErr {
    let text = format!(
        "{what} is not contiguous: pass numpy.ascontiguousarray(...) of it, or a slice without gaps in C order"
    );
    PyBufferError::new_err(text)
}

impl Buffer {
    /// Returns memory for reading: bytes, a `bytearray`, an array.
    ///
    /// # Errors
    /// If the object exposes no memory, has gaps in it, or holds Python objects.
    pub fn to_read(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Buffer> {
        let access = Access::to(object, what)?;
        if let Access::Buffer(buffer) = &access {
            if !buffer.is_c_contiguous() {
                return Err(not_contiguous(what));
            }
            if has_objects(buffer.format().to_bytes()) {
                let text = format!(
                    "{what} holds Python objects, which mean nothing elsewhere: pass numbers, or pickle it"
                );
                return Err(PyTypeError::new_err(text));
            }
        }
        Ok(Buffer(access))
    }

    /// Returns memory for writing. Fails as [`to_read`](Buffer::to_read) does, and if the memory is
    /// read-only.
    pub fn to_write(object: &Bound<'_, PyAny>, what: &str) -> PyResult<WritableBuffer> {
        let buffer = Buffer::to_read(object, what)?;
        if buffer.0.is_readonly() {
            let text =
                format!("{what} is read-only: pass a bytearray or an array that can be written to");
            return Err(PyBufferError::new_err(text));
        }
        Ok(WritableBuffer(buffer))
    }

    pub fn bytes(&self) -> &[u8] {
        let (begin, length) = self.0.place();
        if length == 0 {
            return &[];
        }
        // SAFETY: the protocol keeps the memory for as long as the buffer exists, and it is
        // contiguous. Callers must not write to it meanwhile, which Python cannot express.
        unsafe { std::slice::from_raw_parts(begin, length) }
    }

    fn addresses(&self) -> Range<usize> {
        let (begin, length) = self.0.place();
        begin as usize..begin as usize + length
    }
}

pub struct WritableBuffer(Buffer);

impl WritableBuffer {
    pub fn bytes(&mut self) -> &mut [u8] {
        let (begin, length) = self.0.0.place();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: as above; it is not read-only, and callers that take two buffers have compared
        // them.
        unsafe { std::slice::from_raw_parts_mut(begin, length) }
    }

    /// Fails if another buffer, for reading, overlaps this one.
    pub fn check_apart(&self, other: &Buffer, what: &str) -> PyResult<()> {
        let (own, other) = (self.0.addresses(), other.addresses());
        if own.start.max(other.start) < own.end.min(other.end) {
            return Err(PyBufferError::new_err(format!(
                "{what} are the same memory in part: pass a copy of one"
            )));
        }
        Ok(())
    }
}

impl WritableBuffer {
    /// Returns the name of the type of its numbers, such as `f64`, as far as Python has it.
    pub fn number(&self) -> Option<String> {
        let Access::Buffer(buffer) = &self.0.0 else {
            return None;
        };
        let format = buffer.format().to_bytes();
        let native = if cfg!(target_endian = "little") {
            b'<'
        } else {
            b'>'
        };
        let letter = match format {
            [letter] => letter,
            [order, letter] if matches!(order, b'@' | b'=') || *order == native => letter,
            _ => return None,
        };
        let kind = match letter {
            b'b' | b'h' | b'i' | b'l' | b'q' | b'n' => 'i',
            b'B' | b'H' | b'I' | b'L' | b'Q' | b'N' => 'u',
            b'f' | b'd' => 'f',
            _ => return None,
        };
        Some(format!("{kind}{}", 8 * buffer.item_size()))
    }
}

impl AsRef<[u8]> for WritableBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsMut<[u8]> for WritableBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes()
    }
}

/// Whether a format (the module `struct`, PEP 3118) contains pointers to objects. Field names are
/// enclosed in colons.
fn has_objects(format: &[u8]) -> bool {
    let mut is_name = false;
    format.iter().any(|&letter| {
        is_name ^= letter == b':';
        !is_name && letter == b'O'
    })
}

/// Name of a capsule with a tensor that no package has taken, and of one that has been taken.
const OFFERED: &CStr = c"dltensor";
const TAKEN: &CStr = c"used_dltensor";
/// Devices whose memory the processors can access: their own, and what CUDA and ROCm have pinned.
const ACCESSIBLE: [c_int; 3] = [1, 3, 11];

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device_type: c_int,
    device_id: c_int,
    dimensions: c_int,
    type_code: u8,
    type_bits: u8,
    type_lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor, which is kept by its package until this is dropped.
struct Tensor(NonNull<DLManagedTensor>);

// SAFETY: it is only read, and its memory may be used by any thread, as that of a buffer.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes an object's tensor; `None` if it has gaps.
    ///
    /// # Errors
    /// If it is on a device whose memory cannot be accessed, or does not give it.
    fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Tensor>> {
        let (device, _): (c_int, c_int) = object.call_method0("__dlpack_device__")?.extract()?;
        if !ACCESSIBLE.contains(&device) {
            let text = format!(
                "{what} is on a device that only its package can read: pass a copy, such as x.cpu()"
            );
            return Err(PyTypeError::new_err(text));
        }
        let capsule = object.call_method0("__dlpack__")?;
        // SAFETY: a live object; the name is checked, and of another kind of object null comes
        // back.
        let offered = unsafe { PyCapsule_GetPointer(capsule.as_ptr(), OFFERED.as_ptr()) };
        let Some(managed) = NonNull::new(offered.cast()) else {
            return Err(PyErr::fetch(object.py()));
        };
        // SAFETY: it is the capsule of before, and the name lives for ever. The caller that renames
        // it owns it.
        if unsafe { PyCapsule_SetName(capsule.as_ptr(), TAKEN.as_ptr()) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let tensor = Tensor(managed);
        Ok(tensor.is_contiguous().then_some(tensor))
    }

    fn tensor(&self) -> &DLTensor {
        // SAFETY: it came from a capsule of this name, and was not deleted.
        unsafe { &self.0.as_ref().tensor }
    }

    fn sizes(&self, of: *const i64) -> &[i64] {
        let dimensions = usize::try_from(self.tensor().dimensions).unwrap_or(0);
        if dimensions == 0 || of.is_null() {
            return &[];
        }
        // SAFETY: shape and strides have as many numbers as there are dimensions.
        unsafe { slice::from_raw_parts(of, dimensions) }
    }

    fn is_contiguous(&self) -> bool {
        let (shape, strides) = (
            self.sizes(self.tensor().shape),
            self.sizes(self.tensor().strides),
        );
        let mut wanted = 1;
        let fits = |(&size, &stride): (&i64, &i64)| {
            let fits = size <= 1 || stride == wanted;
            wanted *= size;
            fits
        };
        shape.contains(&0) || shape.iter().zip(strides).rev().all(fits)
    }

    fn place(&self) -> (*mut u8, usize) {
        let tensor = self.tensor();
        let elements: usize = self
            .sizes(tensor.shape)
            .iter()
            .map(|&size| usize::try_from(size).unwrap_or(0))
            .product();
        let bits = elements * usize::from(tensor.type_bits) * usize::from(tensor.type_lanes);
        (
            tensor
                .data
                .cast::<u8>()
                .wrapping_add(tensor.byte_offset as usize),
            bits.div_ceil(8),
        )
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: it is there until its deleter is called, here and once.
        if let Some(delete) = unsafe { self.0.as_ref() }.deleter {
            // Packages may release Python objects.
            // SAFETY: as above.
            Python::attach(|_| unsafe { delete(self.0.as_ptr()) });
        }
    }
}
