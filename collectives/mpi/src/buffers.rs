//! Bytes of an MPI call's buffers: used in place if contiguous, otherwise packed.

use crate::dynamic::{Symbol, Table, Word, done};
use crate::settings::Reason;
use crate::wire::Trouble;
use std::ffi::c_int;

#[derive(Clone, Copy)]
pub struct Elements<'a> {
    table: &'a Table,
    comm: Word,
    address: Word,
    count: i64,
    datatype: Word,
    type_bytes: i64,
    type_extent: i64,
    is_plain: bool,
}

impl<'a> Elements<'a> {
    /// Checks the arguments of a call; refuses those that the MPI would complain of.
    pub fn new(
        table: &'a Table,
        comm: Word,
        (address, count, datatype): (Word, i64, Word),
    ) -> Result<Elements<'a>, Reason> {
        let (mut type_bytes, mut type_extent, mut is_plain) = (0, 0, 0);
        if count < 0
            || (table.type_of)(datatype, &mut type_bytes, &mut type_extent, &mut is_plain) != 0
        {
            return Err(Reason::Arguments);
        }
        let is_plain = is_plain != 0;
        // Plain elements at address zero are no buffer.
        if is_plain && (table.is_bottom)(address) != 0 && count > 0 {
            return Err(Reason::Arguments);
        }
        Ok(Elements {
            table,
            comm,
            address,
            count,
            datatype,
            type_bytes,
            type_extent,
            is_plain,
        })
    }

    /// Returns the packed length in bytes; an error if it does not fit the MPI's integer.
    pub fn bytes(&self) -> Result<usize, Reason> {
        let bytes = self
            .count
            .checked_mul(self.type_bytes)
            .and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or(Reason::Arguments)
    }

    pub fn times(&self, times: usize) -> Result<Elements<'a>, Reason> {
        let count = i64::try_from(times)
            .ok()
            .and_then(|times| self.count.checked_mul(times));
        Ok(Elements {
            count: count.ok_or(Reason::Arguments)?,
            ..*self
        })
    }

    pub fn behind(&self, times: usize) -> Elements<'a> {
        let gone = (times as i64)
            .wrapping_mul(self.count)
            .wrapping_mul(self.type_extent);
        Elements {
            address: self.address.wrapping_add_signed(gone as isize),
            ..*self
        }
    }

    /// Returns the place of packed elements as the MPI's pack and unpack take it. MPICH's refuse
    /// `MPI_BOTTOM`: absolute addresses are counted from another one.
    fn place(&self) -> Result<PackedPlace, Trouble> {
        static ANCHOR: u8 = 0;
        if (self.table.is_bottom)(self.address) == 0 || self.count == 0 {
            return Ok(PackedPlace {
                address: self.address,
                count: self.count,
                datatype: self.datatype,
                made: None,
            });
        }
        let address = std::ptr::from_ref(&ANCHOR) as usize;
        let made = MadeType::new(self.count, self.datatype, (address as i64).wrapping_neg())
            .map_err(Trouble::Mpi)?;
        Ok(PackedPlace {
            address,
            count: 1,
            datatype: made.0,
            made: Some(made),
        })
    }

    pub fn read(&self) -> Result<Bytes<'a>, Trouble> {
        let length = self.length();
        if self.is_plain && length > 0 {
            // SAFETY: the program has passed an address, a count and a type to an MPI call that
            // reads them, and the type's elements are contiguous from the address on.
            return Ok(Bytes::There(unsafe {
                std::slice::from_raw_parts(self.address as *const u8, length)
            }));
        }
        let mut packed = vec![0; length];
        if length > 0 {
            let PackedPlace {
                address,
                count,
                datatype,
                made: _made,
            } = self.place()?;
            let code = (self.table.pack)(
                self.comm,
                datatype,
                count,
                address,
                packed.as_mut_ptr(),
                length as i64,
            );
            done(code).map_err(Trouble::Mpi)?;
        }
        Ok(Bytes::Packed(packed))
    }

    /// Lets `fill` write the bytes. If `reads`, it is given their previous content.
    pub fn write(
        &self,
        reads: bool,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let length = self.length();
        if self.is_plain && length > 0 {
            // SAFETY: as above, for a call that writes them; the program does not use the buffer
            // otherwise during the call.
            return fill(unsafe {
                std::slice::from_raw_parts_mut(self.address as *mut u8, length)
            });
        }
        let mut packed = match reads {
            true => self.read()?.into_vec(),
            false => vec![0; length],
        };
        fill(&mut packed)?;
        // At a broadcast's root the bytes came from there.
        if reads || length == 0 {
            return Ok(());
        }
        let PackedPlace {
            address,
            count,
            datatype,
            made: _made,
        } = self.place()?;
        let code = (self.table.unpack)(
            self.comm,
            datatype,
            count,
            address,
            packed.as_ptr(),
            length as i64,
        );
        done(code).map_err(Trouble::Mpi)
    }

    fn length(&self) -> usize {
        self.bytes().unwrap_or(0)
    }
}

struct PackedPlace {
    address: Word,
    count: i64,
    datatype: Word,
    made: Option<MadeType>,
}

/// A count and a data type for calls whose counts are ints.
pub struct Counted {
    pub count: c_int,
    datatype: Word,
    made: Option<MadeType>,
}

impl Counted {
    /// Makes one element of more than an int counts. If there is no such type, the count is one
    /// that the MPI refuses.
    pub fn new(count: i64, datatype: Word) -> Counted {
        match c_int::try_from(count) {
            Ok(count) => Counted {
                count,
                datatype,
                made: None,
            },
            Err(_) => match MadeType::new(count, datatype, 0) {
                Ok(made) => Counted {
                    count: 1,
                    datatype,
                    made: Some(made),
                },
                Err(_) => Counted {
                    count: -1,
                    datatype,
                    made: None,
                },
            },
        }
    }

    pub fn datatype(&self) -> Word {
        self.made.as_ref().map_or(self.datatype, |made| made.0)
    }
}

/// A data type made for one call: elements of another, one behind the other.
struct MadeType(Word);

impl MadeType {
    fn new(count: i64, datatype: Word, offset: i64) -> Result<MadeType, c_int> {
        type GetExtent = extern "C" fn(datatype: Word, lower: *mut i64, extent: *mut i64) -> c_int;
        type CreateHindexed =
            extern "C" fn(c_int, *const c_int, *const i64, Word, *mut Word) -> c_int;
        static GET_EXTENT: Symbol<GetExtent> = Symbol::new("PMPI_Type_get_extent\0");
        static CREATE_HINDEXED: Symbol<CreateHindexed> = Symbol::new("PMPI_Type_create_hindexed\0");
        static COMMIT: Symbol<extern "C" fn(*mut Word) -> c_int> =
            Symbol::new("PMPI_Type_commit\0");
        const IN_A_BLOCK: i64 = c_int::MAX as i64;
        let (Some(get_extent), Some(create), Some(commit)) =
            (GET_EXTENT.get(), CREATE_HINDEXED.get(), COMMIT.get())
        else {
            return Err(-1);
        };
        let (mut lower, mut extent, mut made) = (0, 0, MadeType(0));
        done(get_extent(datatype, &mut lower, &mut extent))?;
        let blocks = u64::try_from(count)
            .map_err(|_| -1)?
            .div_ceil(IN_A_BLOCK as u64) as i64;
        let lengths: Vec<c_int> = (0..blocks)
            .map(|at| (count - at * IN_A_BLOCK).min(IN_A_BLOCK) as c_int)
            .collect();
        let places: Vec<i64> = (0..blocks)
            .map(|at| offset.wrapping_add(extent.wrapping_mul(at * IN_A_BLOCK)))
            .collect();
        done(create(
            blocks as c_int,
            lengths.as_ptr(),
            places.as_ptr(),
            datatype,
            &mut made.0,
        ))?;
        done(commit(&mut made.0)).map(|()| made)
    }
}

impl Drop for MadeType {
    fn drop(&mut self) {
        static FREE: Symbol<extern "C" fn(*mut Word) -> c_int> = Symbol::new("PMPI_Type_free\0");
        // One that could not be made has no handle.
        if let Some(free) = FREE.get().filter(|_| self.0 != 0) {
            free(&mut self.0);
        }
    }
}

pub enum Bytes<'a> {
    There(&'a [u8]),
    Packed(Vec<u8>),
}

impl Bytes<'_> {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::There(bytes) => bytes,
            Bytes::Packed(bytes) => bytes,
        }
    }

    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Bytes::There(bytes) => bytes.to_vec(),
            Bytes::Packed(bytes) => bytes,
        }
    }
}

#[test]
fn more_bytes_than_an_integer_counts_are_for_the_mpi_to_judge() {
    let elements = |count| Elements {
        table: &crate::abi::TABLE,
        comm: 0,
        address: 4096,
        count,
        datatype: 0,
        type_bytes: 8,
        type_extent: 8,
        is_plain: true,
    };
    assert_eq!(elements(1 << 60).bytes(), Err(Reason::Arguments));
    assert_eq!(elements(1 << 58).times(64).err(), Some(Reason::Arguments));
    assert_eq!(elements(100).times(3).and_then(|all| all.bytes()), Ok(2400));
    assert_eq!(elements(2).behind(3).address, 4096 + 48);
}
