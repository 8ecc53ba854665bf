//! Maximum segment size, and detection of MTU black holes.

use crate::connection::Connection;

/// Minimum MSS (Linux's `TCP_MIN_SND_MSS`).
pub(crate) const MIN_MSS: u16 = 48;

/// Number of retransmission timeouts after which a black hole is suspected, and minimum MSS that is then set
/// (`tcp_base_mss`).
const BLACK_HOLE_TIMEOUTS: u32 = 2;
const MIN_PROBED_MSS: u16 = 512;

impl Connection {
    /// Changes the bytes of data and options in a full segment, after the path's MTU has changed.
    pub fn set_mss(&mut self, mss: u16) {
        self.sending.mss = mss.max(MIN_MSS);
        let data = self.data_mss();
        self.recovery.set_mss(data);
    }

    /// Reduces the size of segments, because a router of the path does not forward larger packets (RFC 1191
    /// §6.3). A larger size is ignored.
    pub fn reduce_mss(&mut self, mss: u16) {
        if mss < self.sending.mss {
            self.set_mss(mss);
        }
    }

    /// Reduces the size of segments after a few timeouts, because the path may drop full segments silently
    /// (similar to RFC 4821 §7.7; Linux's `tcp_mtu_probing`).
    pub(crate) fn on_retransmission_timeout(&mut self) {
        let mss = self.sending.mss;
        if self.recovery.rtt().backoff() == BLACK_HOLE_TIMEOUTS && mss > MIN_PROBED_MSS {
            self.set_mss((mss / 2).max(MIN_PROBED_MSS));
        }
    }
}
