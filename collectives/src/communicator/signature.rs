//! Signature of a collective call (number, operation, root, length), by which ranks detect that
//! calls differ. Of a reduction it has the function and the type of the elements, too.

use crate::membership::codec::{BodyReader, BodyWriter};
use ethbcast_transport::wire::Rank;
use std::fmt;

/// A call that all ranks make together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Copies one rank's bytes to all.
    Broadcast,
    /// Holds every rank until all have called it.
    Barrier,
    /// Gives each rank a block, from one.
    Scatter,
    /// Collects a block from each rank, at one.
    Gather,
    /// Gives the blocks of all ranks to all.
    Allgather,
    /// Combines the elements of all ranks, at one.
    Reduce(Reduction),
    /// Combines the elements of all ranks, at all.
    Allreduce(Reduction),
}

impl Operation {
    pub(super) fn code(self) -> u8 {
        match self {
            Operation::Broadcast => 1,
            Operation::Barrier => 2,
            Operation::Scatter => 3,
            Operation::Gather => 4,
            Operation::Allgather => 5,
            Operation::Reduce(_) => 6,
            Operation::Allreduce(_) => 7,
        }
    }

    fn reduction(self) -> Option<Reduction> {
        match self {
            Operation::Reduce(reduction) | Operation::Allreduce(reduction) => Some(reduction),
            _ => None,
        }
    }

    fn from_wire(code: u8, function: u8, elements: u32) -> Option<Operation> {
        Some(match code {
            1 => Operation::Broadcast,
            2 => Operation::Barrier,
            3 => Operation::Scatter,
            4 => Operation::Gather,
            5 => Operation::Allgather,
            6 => Operation::Reduce(Reduction::from_wire(function, elements)?),
            7 => Operation::Allreduce(Reduction::from_wire(function, elements)?),
            _ => return None,
        })
    }
}

/// Function of two elements, one of each rank, and their type, as a reduction has them. Integers
/// overflow by wrapping. Numbers are in the processor's byte order, which is that of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum.
    Sum(Number),
    /// The smaller one. If a float is no number, which one depends on the ranks' order.
    Min(Number),
    /// The larger one, as for `Min`.
    Max(Number),
    /// The caller's own function, of elements of that many bytes. It must be commutative and
    /// associative, as far as the result matters.
    Own(u32),
}

/// Type of the numbers that a reduction combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "names of types say it")]
pub enum Number {
    I8 = 1,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

/// Combines numbers of a type, in place.
macro_rules! combine {
    ($type:ty, $into:ident, $from:ident, $function:expr) => {{
        let (into, _) = $into.as_chunks_mut::<{ size_of::<$type>() }>();
        let (from, _) = $from.as_chunks::<{ size_of::<$type>() }>();
        for (into, from) in into.iter_mut().zip(from) {
            let function: fn($type, $type) -> $type = $function;
            *into = function(<$type>::from_ne_bytes(*into), <$type>::from_ne_bytes(*from))
                .to_ne_bytes();
        }
    }};
}

macro_rules! combine_numbers {
    ($reduction:ident, $into:ident, $from:ident, $($number:ident $type:ty: $sum:expr,)*) => {
        match $reduction {
            $(Reduction::Sum(Number::$number) => combine!($type, $into, $from, $sum),
            Reduction::Min(Number::$number) => {
                combine!($type, $into, $from, |one, other| if other < one { other } else { one })
            }
            Reduction::Max(Number::$number) => {
                combine!($type, $into, $from, |one, other| if other > one { other } else { one })
            })*
            Reduction::Own(_) => {}
        }
    };
}

impl Number {
    /// All types.
    pub const ALL: [Number; 10] = [
        Number::I8,
        Number::I16,
        Number::I32,
        Number::I64,
        Number::U8,
        Number::U16,
        Number::U32,
        Number::U64,
        Number::F32,
        Number::F64,
    ];

    /// Returns the length of a number in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Number::I8 => "i8",
            Number::I16 => "i16",
            Number::I32 => "i32",
            Number::I64 => "i64",
            Number::U8 => "u8",
            Number::U16 => "u16",
            Number::U32 => "u32",
            Number::U64 => "u64",
            Number::F32 => "f32",
            Number::F64 => "f64",
        }
    }
}

/// Error: no reduction has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {function} of {number}: choose sum, min or max of {}", Number::ALL.map(Number::name).join(", "))]
pub struct UnknownReduction {
    function: String,
    number: String,
}

impl Reduction {
    /// Returns the reduction of these names, such as `sum` and `f64`.
    ///
    /// # Errors
    /// If there is no such function or type.
    pub fn named(function: &str, number: &str) -> Result<Reduction, UnknownReduction> {
        let found = Number::ALL.into_iter().find(|known| known.name() == number);
        let reduction = match function {
            "sum" => found.map(Reduction::Sum),
            "min" => found.map(Reduction::Min),
            "max" => found.map(Reduction::Max),
            _ => None,
        };
        reduction.ok_or_else(|| UnknownReduction {
            function: function.to_owned(),
            number: number.to_owned(),
        })
    }

    /// Returns the length of an element in bytes.
    pub const fn element_bytes(self) -> usize {
        match self {
            Reduction::Sum(number) | Reduction::Min(number) | Reduction::Max(number) => {
                number.bytes()
            }
            Reduction::Own(bytes) => bytes as usize,
        }
    }

    /// Combines the elements of `from` with those of `into`, in place. It does nothing for a
    /// caller's own function.
    pub fn combine(self, into: &mut [u8], from: &[u8]) {
        combine_numbers!(self, into, from,
            I8 i8: i8::wrapping_add,
            I16 i16: i16::wrapping_add,
            I32 i32: i32::wrapping_add,
            I64 i64: i64::wrapping_add,
            U8 u8: u8::wrapping_add,
            U16 u16: u16::wrapping_add,
            U32 u32: u32::wrapping_add,
            U64 u64: u64::wrapping_add,
            F32 f32: |one, other| one + other,
            F64 f64: |one, other| one + other,
        );
    }

    fn to_wire(self) -> (u8, u32) {
        match self {
            Reduction::Sum(number) => (1, number as u32),
            Reduction::Min(number) => (2, number as u32),
            Reduction::Max(number) => (3, number as u32),
            Reduction::Own(bytes) => (4, bytes),
        }
    }

    fn from_wire(function: u8, elements: u32) -> Option<Reduction> {
        let number = || {
            Number::ALL
                .into_iter()
                .find(|number| *number as u32 == elements)
        };
        Some(match function {
            1 => Reduction::Sum(number()?),
            2 => Reduction::Min(number()?),
            3 => Reduction::Max(number()?),
            4 => Reduction::Own(elements),
            _ => return None,
        })
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reduction::Sum(number) => write!(out, "sum of {}", number.name()),
            Reduction::Min(number) => write!(out, "min of {}", number.name()),
            Reduction::Max(number) => write!(out, "max of {}", number.name()),
            Reduction::Own(bytes) => write!(out, "own function of {bytes}-byte elements"),
        }
    }
}

/// One collective as a rank calls it. Calls with equal numbers must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// Number of collectives called before.
    pub number: u64,
    /// Operation.
    pub operation: Operation,
    /// Root; 0 for operations without one.
    pub root: Rank,
    /// Length of the message or of each block, in bytes.
    pub bytes: u64,
}

impl Signature {
    /// Length on the wire, in bytes: number, operation, a reduction's function, root, a reduction's
    /// type or length of elements, length.
    pub(super) const BYTES: usize = 24;

    pub(super) fn write(self, out: &mut BodyWriter) {
        let (function, elements) = self
            .operation
            .reduction()
            .map_or((0, 0), Reduction::to_wire);
        out.u64(self.number)
            .u8(self.operation.code())
            .u8(function)
            .u16(self.root.0)
            .u32(elements)
            .u64(self.bytes);
    }

    pub(super) fn write_or_zeros(signature: Option<Signature>, out: &mut BodyWriter) {
        match signature {
            Some(signature) => signature.write(out),
            None => _ = out.zeros(Signature::BYTES),
        }
    }

    pub(super) fn head(self, bytes: &[u8]) -> Vec<u8> {
        let mut out = BodyWriter::default();
        self.write(&mut out);
        out.bytes(bytes);
        out.into_bytes()
    }

    pub(super) fn read(from: &mut BodyReader<'_>) -> Option<Signature> {
        let (number, operation, function) = (from.u64()?, from.u8()?, from.u8()?);
        let (root, elements, bytes) = (from.u16()?, from.u32()?, from.u64()?);
        let operation = Operation::from_wire(operation, function, elements)?;
        Some(Signature {
            number,
            operation,
            root: Rank(root),
            bytes,
        })
    }

    pub(crate) fn split(wire: &[u8]) -> Option<(Signature, &[u8])> {
        let mut from = BodyReader::new(wire);
        Some((Signature::read(&mut from)?, from.rest()))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature {
            number,
            operation,
            root,
            bytes,
        } = self;
        match operation {
            Operation::Broadcast => {
                write!(out, "broadcast #{number} of {bytes} bytes from rank {root}")
            }
            Operation::Barrier => write!(out, "barrier #{number}"),
            Operation::Scatter => write!(
                out,
                "scatter #{number} of {bytes} bytes each from rank {root}"
            ),
            Operation::Gather => {
                write!(out, "gather #{number} of {bytes} bytes each to rank {root}")
            }
            Operation::Allgather => write!(out, "allgather #{number} of {bytes} bytes each"),
            Operation::Reduce(reduction) => write!(
                out,
                "reduce #{number} of {bytes} bytes ({reduction}) to rank {root}"
            ),
            Operation::Allreduce(reduction) => {
                write!(out, "allreduce #{number} of {bytes} bytes ({reduction})")
            }
        }
    }
}

#[cfg(test)]
mod signature_tests {
    use super::*;

    fn operations() -> Vec<Operation> {
        let reductions = Number::ALL.into_iter().flat_map(|number| {
            [Reduction::Sum, Reduction::Min, Reduction::Max].map(|function| function(number))
        });
        reductions
            .chain([Reduction::Own(24)])
            .flat_map(|reduction| {
                [
                    Operation::Reduce(reduction),
                    Operation::Allreduce(reduction),
                ]
            })
            .chain([
                Operation::Broadcast,
                Operation::Barrier,
                Operation::Scatter,
                Operation::Gather,
                Operation::Allgather,
            ])
            .collect()
    }

    #[test]
    fn every_signature_is_read_as_it_was_written() {
        for (number, operation) in operations().into_iter().enumerate() {
            let signature = Signature {
                number: number as u64,
                operation,
                root: Rank(0x0102),
                bytes: 1 << 40,
            };
            let wire = signature.head(b"data");
            assert_eq!(wire.len(), Signature::BYTES + 4);
            assert_eq!(Signature::split(&wire), Some((signature, &b"data"[..])));
        }
    }

    #[test]
    fn bytes_that_are_too_short_or_name_no_operation_are_no_signature() {
        let mut wire = Signature {
            number: 1,
            operation: Operation::Barrier,
            root: Rank(0),
            bytes: 0,
        }
        .head(&[]);
        assert_eq!(Signature::split(&wire[..23]), None);
        for operation in [0, 6, 7, 8, 255] {
            wire[8] = operation;
            assert_eq!(Signature::split(&wire), None, "{operation}");
        }
        (wire[8], wire[9]) = (7, 1);
        for number in [0, 11] {
            wire[15] = number;
            assert_eq!(Signature::split(&wire), None, "no type {number}");
        }
    }

    #[test]
    fn reductions_are_found_by_the_names_that_they_have() {
        for reduction in operations().into_iter().filter_map(Operation::reduction) {
            let text = reduction.to_string();
            let named = text
                .split_once(" of ")
                .map(|(function, number)| Reduction::named(function, number));
            match reduction {
                Reduction::Own(_) => assert!(matches!(named, Some(Err(_))), "{text}"),
                reduction => assert_eq!(named, Some(Ok(reduction)), "{text}"),
            }
        }
        let error = Reduction::named("mean", "f64").expect_err("there is none");
        assert!(error.to_string().contains("no mean of f64"), "{error}");
    }

    #[test]
    fn numbers_of_every_type_are_combined() {
        fn combined<const BYTES: usize>(
            reduction: Reduction,
            one: [u8; BYTES],
            other: [u8; BYTES],
        ) -> [u8; BYTES] {
            assert_eq!(reduction.element_bytes(), BYTES);
            let mut into = [one, other].concat();
            reduction.combine(&mut into, &[other, one].concat());
            assert_eq!(into[..BYTES], into[BYTES..], "{reduction}");
            into[..BYTES].try_into().expect("an element")
        }
        macro_rules! check {
            ($number:ident $type:ty, $one:expr, $other:expr, $sum:expr) => {
                let [one, other]: [$type; 2] = [$one, $other];
                let results = [Reduction::Sum, Reduction::Min, Reduction::Max].map(|function| {
                    let reduction = function(Number::$number);
                    <$type>::from_ne_bytes(combined(
                        reduction,
                        one.to_ne_bytes(),
                        other.to_ne_bytes(),
                    ))
                });
                assert_eq!(results, [$sum, one, other]);
            };
        }
        check!(I8 i8, -100, -50, 106);
        check!(I16 i16, -300, 4, -296);
        check!(I32 i32, i32::MIN, -1, i32::MAX);
        check!(I64 i64, -(1 << 40), 7, 7 - (1 << 40));
        check!(U8 u8, 6, 251, 1);
        check!(U16 u16, 3, 65_535, 2);
        check!(U32 u32, 1 << 31, 3 << 30, 1 << 30);
        check!(U64 u64, 1, u64::MAX, 0);
        check!(F32 f32, -0.5, 0.25, -0.25);
        check!(F64 f64, 1e-300, 1e300, 1e300);
    }
}
