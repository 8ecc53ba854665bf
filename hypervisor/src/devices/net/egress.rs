//! Egress filter: decides which frames of a guest may leave, by the policy of `hermit_options::egress`.
//!
//! | module | |
//! | --- | --- |
//! | [`filter`] | the decision about a frame: [`EgressFilter`], for backends that pass frames on |
//! | `headers` | parser of the headers that the filter needs |
//! | `answers` | peers whose datagrams the guest may answer |
//!
//! A frame to an open address passes. A frame to a closed address passes only if it opens no connection: a
//! segment other than the first SYN, an answer to a datagram, an ICMP error, or a frame that configures the
//! guest's network (DHCP, ARP, neighbor discovery). A frame that cannot be parsed is dropped.

mod answers;
pub mod filter;
mod headers;
#[cfg(test)]
pub(in crate::devices::net) mod test_frames;

pub use filter::EgressFilter;
