//! Repair requests for bytes of the stream: the asking end and the answering end, the same at root
//! and receivers.

mod answering;
mod asking;

pub(super) use answering::Answering;
pub(super) use asking::Asking;
