//! Random numbers for the keys of a transfer.

use super::report::Error;
use crate::keys::{ExchangePair, Keys, Secret};
use crate::session::keyring::{ReceiverKeys, RootKeys};
use ethbcast_transport::packet::random_secret;
use ethbcast_transport::wire::PayloadHash;
use std::sync::Arc;

/// Draws a root's keys for one session, whose contents it encrypts or not. Fails if the keys are a receiver's.
pub fn root_keys(keys: &Arc<Keys>, encrypts: bool) -> Result<RootKeys, Error> {
    if !keys.may_send() {
        return Err(Error::MayNotSend);
    }
    let (random, exchange) = (*secret()?.expose(), ExchangePair::new(secret()?));
    Ok(RootKeys { keys: keys.clone(), random, exchange, group: secret()?, hash: payload_hash(), encrypts })
}

pub fn receiver_keys(keys: &Arc<Keys>) -> Result<ReceiverKeys, Error> {
    Ok(ReceiverKeys { keys: keys.clone(), exchange: ExchangePair::new(secret()?) })
}

pub fn secret() -> Result<Secret, Error> {
    random_secret().map(|bytes| Secret::new(*bytes)).map_err(Error::Random)
}

/// Returns the hash that this processor computes faster; all hosts of its sessions use it.
fn payload_hash() -> PayloadHash {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    let has_products = std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_products = std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    let has_products = false;
    if has_products { PayloadHash::Polyval } else { PayloadHash::Poly1305 }
}
