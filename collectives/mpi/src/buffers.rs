//! Bytes of an MPI call's buffers: used in place if contiguous, otherwise packed.

use crate::dynamic::{FLOAT, SIGNED, Symbol, Table, UNSIGNED, Word, done};
use crate::settings::Reason;
use crate::wire::Trouble;
use ethbcast_collectives::communicator::Number;
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
        // Plain elements at address zero are no buffer, nor is the sign for a call in place.
        let is_sign = (table.is_bottom)(address) != 0 || (table.is_in_place)(address) != 0;
        if is_plain && is_sign && count > 0 {
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

    /// Returns the type of the elements if all of them are numbers of one that ethbcast combines,
    /// one behind the other.
    pub fn numbers(&self) -> Option<Number> {
        let number =
            |signed, unsigned, float: Option<Number>| match (self.table.numbers)(self.datatype) {
                SIGNED => Some(signed),
                UNSIGNED => Some(unsigned),
                FLOAT => float,
                _ => None,
            };
        match self.type_bytes {
            _ if !self.is_plain => None,
            1 => number(Number::I8, Number::U8, None),
            2 => number(Number::I16, Number::U16, None),
            4 => number(Number::I32, Number::U32, Some(Number::F32)),
            8 => number(Number::I64, Number::U64, Some(Number::F64)),
            _ => None,
        }
    }

    /// Whether the buffers have a byte in common, of plain elements.
    pub fn overlaps(&self, other: &Elements<'_>) -> bool {
        let range = |one: &Elements<'_>| one.address..one.address.saturating_add(one.length());
        let (one, other) = (range(self), range(other));
        one.start < other.end && other.start < one.end
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

/// Makes a call of elements that it combines one by one, in parts whose counts are ints, until one
/// fails. `call` is given the bytes before a part, of elements of this extent, and its count.
pub fn in_parts(count: i64, extent: i64, mut call: impl FnMut(isize, c_int) -> c_int) -> c_int {
    let mut done = 0;
    loop {
        // A negative count is for the MPI to refuse.
        let part = (count - done).clamp(-1, c_int::MAX.into());
        let code = call(done.wrapping_mul(extent) as isize, part as c_int);
        done += part;
        if code != 0 || done >= count {
            return code;
        }
    }
}

/// Returns the extent of a data type in bytes.
pub fn extent(datatype: Word) -> Result<i64, c_int> {
    type GetExtent = extern "C" fn(datatype: Word, lower: *mut i64, extent: *mut i64) -> c_int;
    static GET_EXTENT: Symbol<GetExtent> = Symbol::new("PMPI_Type_get_extent\0");
    let (mut lower, mut extent) = (0, 0);
    let get_extent = GET_EXTENT.get().ok_or(-1)?;
    done(get_extent(datatype, &mut lower, &mut extent)).map(|()| extent)
}

/// A data type made for one call: elements of another, one behind the other.
struct MadeType(Word);

impl MadeType {
    fn new(count: i64, datatype: Word, offset: i64) -> Result<MadeType, c_int> {
        type CreateHindexed =
            extern "C" fn(c_int, *const c_int, *const i64, Word, *mut Word) -> c_int;
        static CREATE_HINDEXED: Symbol<CreateHindexed> = Symbol::new("PMPI_Type_create_hindexed\0");
        static COMMIT: Symbol<extern "C" fn(*mut Word) -> c_int> =
            Symbol::new("PMPI_Type_commit\0");
        const IN_A_BLOCK: i64 = c_int::MAX as i64;
        let (Some(create), Some(commit)) = (CREATE_HINDEXED.get(), COMMIT.get()) else {
            return Err(-1);
        };
        let (extent, mut made) = (extent(datatype)?, MadeType(0));
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
    let of_eight = |count| elements(count).overlaps(&elements(2).behind(4));
    assert_eq!([8, 9, 10, 20].map(of_eight), [false, true, true, true]);
}

#[test]
fn more_elements_than_an_integer_counts_are_combined_in_parts() {
    const MOST: i64 = c_int::MAX as i64;
    let parts = |count, fails_at: usize| {
        let mut parts = Vec::new();
        let code = in_parts(count, 8, |before, count| {
            parts.push((before, count));
            c_int::from(parts.len() == fails_at)
        });
        (code, parts)
    };
    assert_eq!(parts(0, 9), (0, vec![(0, 0)]));
    assert_eq!(parts(-7, 9), (0, vec![(0, -1)]));
    assert_eq!(parts(MOST, 9), (0, vec![(0, c_int::MAX)]));
    let all = [
        (0, c_int::MAX),
        (8 * MOST as isize, c_int::MAX),
        (16 * MOST as isize, 5),
    ];
    assert_eq!(parts(2 * MOST + 5, 9), (0, all.to_vec()));
    assert_eq!(parts(2 * MOST + 5, 2), (1, all[..2].to_vec()));
}
