//! Egress filter: which frames of a guest may leave, by the policy of `hermit_options::egress`.
//!
//! | module | |
//! | --- | --- |
//! | [`filter`] | which frames may leave: [`EgressFilter`], for backends that pass frames on |
//! | `headers` | what the filter reads of a frame |
//! | `answers` | peers whose datagrams the guest may answer |
//!
//! A frame for an open address passes. One for a closed address passes only if it opens nothing: a segment
//! other than the first SYN, an answer to a datagram, an ICMP error, or what configures the guest's network
//! (DHCP, ARP, neighbor discovery). What cannot be parsed is dropped.

mod answers;
pub mod filter;
mod headers;
#[cfg(test)]
pub(in crate::devices::net) mod test_frames;

pub use filter::EgressFilter;
