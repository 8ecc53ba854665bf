//! The size of full segments.

use crate::connection::Connection;

/// Minimum MSS (Linux's `TCP_MIN_SND_MSS`).
pub(crate) const MIN_MSS: u16 = 48;

/// Retransmission timeouts after which a black hole is suspected, and the MSS below which there is none
/// (`tcp_base_mss`).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
const MIN_PROBED_MSS: u16 = 512;

impl Connection {
    /// Changes the bytes of data and options in a full segment, when the path's MTU has.
    pub fn set_mss(&mut self, mss: u16) {
        self.sending.mss = mss.max(MIN_MSS);
        let data = self.data_mss();
        self.recovery.set_mss(data);
    }

    /// Sends smaller segments, because a router of the path takes no larger packets (RFC 1191 §6.3); larger
    /// ones are ignored.
    pub fn reduce_mss(&mut self, mss: u16) {
        if mss < self.sending.mss {
            self.set_mss(mss);
        }
    }

    /// A path that drops full segments without a word gets smaller ones after some timeouts (RFC 4821 §7.7 in
    /// spirit; Linux's `tcp_mtu_probing`).
    pub(crate) fn on_retransmission_timeout(&mut self) {
        let mss = self.sending.mss;
        if self.recovery.rtt().backoff() == BLACK_HOLE_TIMEOUTS && mss > MIN_PROBED_MSS {
            self.set_mss((mss / 2).max(MIN_PROBED_MSS));
        }
    }
}
