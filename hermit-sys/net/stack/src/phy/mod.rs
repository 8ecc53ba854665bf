//! The network device and the transmit queues.

pub(crate) mod device;
pub(crate) mod tx_queue;
