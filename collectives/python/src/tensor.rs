//! Tensors of packages such as PyTorch, whose memory is used without a copy (DLPack).
#![allow(unsafe_code)]

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{PyCapsule_GetPointer, PyCapsule_SetName};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;
use std::slice;

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
pub struct Tensor(NonNull<DLManagedTensor>);

// SAFETY: it is only read, and its memory may be used by any thread, as that of a buffer.
unsafe impl Send for Tensor {}
// SAFETY: as above.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Takes an object's tensor; `None` if it has gaps.
    ///
    /// # Errors
    /// If it is on a device whose memory cannot be accessed, or does not give it.
    pub fn of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Tensor>> {
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

    pub fn place(&self) -> (*mut u8, usize) {
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
