//! Communicators as in MPI: numbered processes (ranks), messages and collectives (EQA §1).
//!
//! **Assembly.** All processes are equal and are configured with the group's name and size. Each
//! sends CALLs until all have received the CALLs of all and have the identical list; a rank is a
//! place in the list ([`Member::begin`], [`Member::joined`]).
//!
//! **Messages** go from rank to rank by push and pull ([`Member::send`], [`Member::recv`]), as
//! [`ethbcast_transport::messages`] has them.
//!
//! **Collectives** ([`Broadcast`], [`Barrier`], [`Scatter`], [`Gather`], [`Allgather`], [`Reduce`],
//! [`Allreduce`]) are values that their caller advances. All ranks must call equal ones in one
//! order. Each is numbered and has a [`Signature`]. Members compare signatures in all they send each
//! other, so that differing calls are found, named and fail on all ranks instead of waiting forever.
//!
//! **Presence.** Members send keepalives. A silent one is gone, and collectives fail on all others.
//! One that has sent BYE has left, which harms only ranks that need further data of it.
//!
//! **Keys.** With a key ranks hear nobody without it; `seals` has the secrets.
//!
//! **Subgroups.** Some ranks of a group make another by a name alone ([`Member::subgroup`]), and so
//! do other processes of their hosts, by a [`Description`] of the group ([`Member::within`]).
//!
//! **Shrinking.** After a rank has died or left, the survivors go on without it ([`Shrink`]).
//!
//! Like every protocol part a [`Member`] is a state machine without socket, clock, thread or random
//! source. [`Communicator`] is one on a real interface, with blocking calls; only its folder,
//! `live`, uses such things.

mod assembly;
mod body;
mod collective;
mod config;
mod description;
mod error;
mod live;
mod member;
mod network;
mod roster;
mod seals;
mod signature;

pub use crate::membership::{MAX_GROUP_BYTES, MIN_MTU_BYTES, OtherBuild, Station};
pub use crate::preset::Preset;
pub(crate) use body::is_well_formed;
pub use collective::{
    Allgather, Allreduce, Barrier, Broadcast, Call, CallProgress, Combine, Gather, Patience,
    Reduce, Scatter, Shrink,
};
pub use config::{Config, MAX_HOST_BYTES, MAX_RANKS};
pub use description::Description;
pub use error::{CommunicatorError, Culprit, Named};
pub use live::{Communicator, Error, Meanwhile, Options};
pub use member::{Member, MemberMemory, MemberStats};
pub use signature::{Number, Operation, Reduction, Signature, UnknownReduction};

#[doc(hidden)]
pub mod kind {
    //! Frame types of a communicator's control messages: the numbers 40 to 43 in the frame header
    //! ([`Kind`]).

    use ethbcast_transport::wire::Kind;

    /// A process of a group without a root looks for the others, or replies to one that does.
    pub const CALL: Kind = Kind(40);
    /// Keepalive of a member, with its state.
    pub const ALIVE: Kind = Kind(41);
    pub const BYE: Kind = Kind(42);
    /// Statement of a member that shrinks the group to the surviving ranks.
    pub const SHRINK: Kind = Kind(43);
}
