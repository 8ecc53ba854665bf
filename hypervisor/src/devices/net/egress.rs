//! Egress filter: applies the policy of `hermit_options::egress` to the frames that a guest sends.
//!
//! | module | |
//! | --- | --- |
//! | [`filter`] | the decision about a frame: [`EgressFilter`], for backends that pass frames on |
//! | `headers` | parser of the headers that the filter needs |
//! | `answers` | peers whose datagrams the guest may answer |
//!
//! An address is open if the policy permits connections to it, and closed otherwise. A frame to an open
//! address passes. A frame to a closed address passes only if it opens no connection. Such frames are TCP
//! segments other than the first SYN, answers to datagrams, ICMP errors, and frames that configure the
//! guest's network (DHCP, ARP, neighbor discovery). A frame that cannot be parsed is dropped.

mod answers;
pub mod filter;
mod headers;
#[cfg(test)]
pub(in crate::devices::net) mod test_frames;

pub use filter::EgressFilter;
