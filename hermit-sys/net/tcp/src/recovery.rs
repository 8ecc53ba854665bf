//! Loss recovery and congestion: which data is in flight, lost or delivered, and how much more may be sent.
//!
//! Each range that was sent is in the scoreboard until it is acknowledged. An acknowledgement removes or
//! marks the delivered ranges there. RACK then marks as lost the ranges that were sent well before a
//! delivered one, and congestion control adapts the window.
//! [`Connection::next_segment`](crate::Connection::next_segment) retransmits lost ranges first, and sends new
//! data as far as window and pacing permit. One timer covers missing acknowledgements: it first sends tail
//! loss probes, and later declares a retransmission timeout. If it turns out that nothing was lost, the
//! reduction of the window is undone.
//!
//! | module | what |
//! | --- | --- |
//! | `scoreboard` | ranges that were sent, and their state |
//! | `on_ack`, `timer` | changes by an acknowledgement, or by the lack of one |
//! | `rack` | detection of lost ranges (RFC 8985) |
//! | `probe` | tail loss probes (RFC 8985 §7) |
//! | `reduction` | when the congestion window shrinks, and when that was wrong |
//! | `delivery` | the rate at which data is delivered, if the congestion control models the path |
//! | `usage` | whether the congestion window is used, so that it may grow |
//! | `pacing` | when the next burst leaves |
//! | `prr` | how fast the congestion window shrinks (RFC 6937) |

mod delivery;
mod on_ack;
mod pacing;
mod probe;
mod prr;
mod rack;
mod reduction;
mod scoreboard;
mod timer;
mod usage;

use delivery::DeliveryRate;
use hermit_base::try_alloc::TryBox;
use pacing::Pacer;
use probe::Probe;
use prr::Prr;
use rack::Rack;
use scoreboard::{Scoreboard, SentRange};
use usage::Usage;

use crate::buffers::Pool;
use crate::congestion::{Algorithm, CongestionControl, Control, MAX_WINDOW, Saved, Window};
use crate::rtt::{MS, RttEstimator};
use crate::segment::SackBlock;
use crate::seq::Seq;

/// Number of duplicate acknowledgements, or of segments after a gap, that show a loss (RFC 5681 §3.2, RFC
/// 8985 §6.2).
const DUPLICATE_THRESHOLD: u32 = 3;

/// State of the sender (RFC 5681 §3.2, RFC 6675 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No loss is known.
    Open,
    /// The window shrinks because of a mark, or of a loss that a probe has repaired, until `end` is
    /// acknowledged.
    Reduction { end: Seq },
    /// Losses are repaired, until `end` is acknowledged (fast recovery).
    Recovery { end: Seq },
    /// The retransmission timer has expired. The phase lasts until `end` is acknowledged.
    Loss { end: Seq },
}

/// State to be restored when a reduction turns out to be wrong because nothing was lost.
#[derive(Clone, Copy, Debug)]
struct Undo {
    window: Window,
    saved: Saved,
    /// Time of the first retransmission.
    retransmitted_at: Option<u64>,
    /// Bytes that were retransmitted and for which no D-SACK has come.
    retransmitted: u32,
    /// After the recovery, the reduction can be undone until this number is acknowledged.
    end: Seq,
}

/// Action of the sender's timer when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// A range may have to be retransmitted.
    Retransmit,
    /// A tail loss probe must be sent.
    Probe,
    /// The first segment must be retransmitted again.
    Repeat,
    /// The retransmission timeout has passed.
    Timeout,
}

/// An acknowledgement, as the sender needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// The acknowledgement number.
    pub(crate) ack: Seq,
    /// SACK blocks within the data that was sent.
    pub(crate) sack: &'a [SackBlock],
    /// The block that reports a duplicate.
    pub(crate) dsack: Option<SackBlock>,
    /// Time at which the echoed timestamp was sent, rounded down to milliseconds.
    pub(crate) echo_sent_at: Option<u64>,
    /// True if the segment has neither data nor a new window, so that it may be a duplicate (RFC 5681 §2).
    pub(crate) is_bare: bool,
    pub(crate) now: u64,
}

impl Acknowledgement<'_> {
    /// True if the echoed timestamp is older than `sent_at`: the acknowledgement answers an earlier
    /// transmission.
    fn is_of_before(&self, sent_at: u64) -> bool {
        self.echo_sent_at.is_some_and(|echo| echo / MS < sent_at / MS)
    }
}

/// The sender's state of loss recovery.
#[derive(Debug)]
pub(crate) struct Recovery {
    board: Scoreboard,
    rack: Rack,
    rtt: RttEstimator,
    window: Window,
    control: Control,
    phase: Phase,
    prr: Prr,
    undo: Option<TryBox<Undo>>,
    probe: Option<Probe>,
    has_sack: bool,
    duplicates: u32,
    /// True if a retransmission may be repeated before the timeout, since data was delivered after the last
    /// repetition.
    may_repeat: bool,
    /// Time at which the retransmission timer was last started, and the same for the timer of the probe.
    timer_start: u64,
    probe_timer_start: u64,
    /// Time at which RACK finds all ranges to be lost that were sent before a delivered one.
    reorder_deadline: Option<u64>,
    last_sent: u64,
    usage: Usage,
    /// Only for an algorithm that sets the window.
    delivery: Option<TryBox<DeliveryRate>>,
    pacer: Option<Pacer>,
    /// True if the window was reduced, and no segment has reported it yet (CWR, RFC 3168 §6.1.2).
    is_reduced: bool,
    /// Number of retransmission timeouts, for measurements.
    #[cfg(test)]
    pub(crate) timeouts: u32,
}

impl Recovery {
    /// State of a connection whose first byte of data has the number `una`.
    pub(crate) fn new(
        una: Seq,
        algorithm: Algorithm,
        mss: u32,
        has_sack: bool,
        rtt: RttEstimator,
        now: u64,
    ) -> Self {
        let mut window = Window::new(mss);
        if algorithm == Algorithm::Unlimited {
            window.size = MAX_WINDOW;
        }
        let (control, delivery) = control(algorithm, una, has_sack, (&window, &rtt), now);
        let pacer = control.pacing_rate().is_some().then(|| Pacer::new(mss));
        Self {
            board: Scoreboard::new(una),
            rack: Rack::new(una),
            rtt,
            window,
            control,
            phase: Phase::Open,
            prr: Prr::default(),
            undo: None,
            probe: None,
            has_sack,
            duplicates: 0,
            may_repeat: false,
            timer_start: now,
            probe_timer_start: now,
            reorder_deadline: None,
            last_sent: now,
            usage: Usage::new(una),
            delivery,
            pacer,
            is_reduced: false,
            #[cfg(test)]
            timeouts: 0,
        }
    }

    /// Changes the algorithm, unless the window is unlimited. The size of the window stays. If the algorithm
    /// is the same, its state stays, too.
    pub(crate) fn set_algorithm(&mut self, algorithm: Algorithm, now: u64) {
        let is_limited = !matches!(self.control, Control::Unlimited) && algorithm != Algorithm::Unlimited;
        if !is_limited || self.control.is(algorithm) {
            return;
        }
        let (window, rtt) = (&self.window, &self.rtt);
        (self.control, self.delivery) =
            control(algorithm, self.board.end(), self.has_sack, (window, rtt), now);
        self.undo = None;
        if self.control.pacing_rate().is_some() && self.pacer.is_none() {
            self.pacer = Some(Pacer::new(self.window.mss));
        }
    }

    /// Starts to pace data. An algorithm with a rate of its own is always paced. An unlimited window has no
    /// rate and is not paced.
    pub(crate) fn start_pacing(&mut self) {
        let is_limited = !matches!(self.control, Control::Unlimited);
        self.pacer = is_limited.then(|| Pacer::new(self.window.mss));
    }

    /// SND.UNA
    pub(crate) fn una(&self) -> Seq {
        self.board.start()
    }

    /// SND.NXT
    pub(crate) const fn nxt(&self) -> Seq {
        self.board.end()
    }

    /// Sets the number of the first byte of data, after the SYN was sent.
    pub(crate) fn start_at(&mut self, una: Seq) {
        self.board = Scoreboard::new(una);
        self.usage = Usage::new(una);
    }

    /// True if nothing is outstanding, and no loss is being repaired.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.board.size() == 0 && self.phase == Phase::Open && self.probe.is_none()
    }

    /// Skips `size` bytes that have reached the peer without a segment. Nothing may be outstanding.
    pub(crate) fn skip(&mut self, size: u32) {
        self.board.skip(size);
        self.usage = Usage::new(self.nxt());
        self.rack.skip_to(self.nxt());
    }

    /// Bytes in flight. Without SACK, each duplicate acknowledgement counts as a segment that has left the
    /// network.
    pub(crate) fn in_flight(&self) -> u32 {
        self.board.in_flight().saturating_sub(self.duplicates.saturating_mul(self.window.mss))
    }

    /// Bytes that the congestion window permits to be sent now.
    pub(crate) fn room(&self) -> u32 {
        self.window.size.saturating_sub(self.in_flight())
    }

    /// Bytes that were sent and are not acknowledged.
    pub(crate) const fn outstanding(&self) -> u32 {
        self.board.size()
    }

    pub(crate) const fn window(&self) -> &Window {
        &self.window
    }

    pub(crate) const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Changes the maximum segment size: the path's MTU has changed.
    pub(crate) const fn set_mss(&mut self, mss: u32) {
        self.window.mss = mss;
    }

    /// Doubles the timeout, because a SYN or the probe of a shut window was not answered.
    pub(crate) const fn back_off(&mut self) {
        self.rtt.back_off();
    }

    /// Ends the doubling of the timeout.
    pub(crate) const fn reset_backoff(&mut self) {
        self.rtt.reset_backoff();
    }

    /// True if the next new data must report that the window was reduced.
    pub(crate) const fn is_reduced(&self) -> bool {
        self.is_reduced
    }

    /// Records that a segment has reported the reduction.
    pub(crate) const fn reduction_announced(&mut self) {
        self.is_reduced = false;
    }

    /// Records that the congestion window holds data back.
    pub(crate) fn set_limited(&mut self) {
        self.note_usage(true);
    }

    fn note_usage(&mut self, is_limited: bool) {
        self.usage.note(is_limited, self.in_flight(), (self.una(), self.nxt()));
    }

    /// True if a range is lost and must be retransmitted.
    pub(crate) const fn has_lost(&self) -> bool {
        self.board.lost() > 0
    }

    /// Reserves memory for the range that is sent next; `false` without memory.
    pub(crate) fn reserve(&mut self, pool: &mut Pool) -> bool {
        self.board.reserve(pool)
    }

    /// Next range to be retransmitted, at most `max` bytes.
    pub(crate) fn next_lost(&mut self, max: u32) -> Option<(Seq, u32)> {
        let mss = self.window.mss;
        let range = self.board.first_lost()?;
        // Whole segments.
        let whole = max - max % mss.clamp(1, max);
        Some((range.start, range.size().min(whole)))
    }

    /// True if pacing permits that data is sent now.
    pub(crate) fn may_leave(&mut self, now: u64) -> bool {
        self.pacer.as_mut().is_none_or(|pacer| pacer.permits(now))
    }

    /// Time until which pacing holds data back.
    pub(crate) fn pacing_deadline(&self) -> Option<u64> {
        self.pacer.as_ref().and_then(Pacer::deadline)
    }

    fn pace(&mut self, size: u32, now: u64) {
        if let Some(mut pacer) = self.pacer {
            match self.control.pacing_rate() {
                Some(rate) => pacer.on_sent_at(size, rate, self.window.mss, now),
                None => pacer.on_sent(size, &self.window, self.in_flight(), &self.rtt, now),
            }
            self.pacer = Some(pacer);
        }
    }

    /// Stores the state of the delivery rate in the ranges of data that was sent. `in_flight` bytes were in
    /// flight before.
    fn stamp(&mut self, start: Seq, size: u32, in_flight: u32, now: u64) {
        let Some(delivery) = self.delivery.as_deref_mut() else { return };
        if in_flight == 0 {
            self.control.on_restart(&mut self.window, delivery.is_app_limited(), now);
        }
        self.board.stamp(start, start + size, delivery.on_sent(size, in_flight, now));
    }

    /// Handles a write of the owner after all earlier data has been sent. Until now the owner limited the
    /// rate, and not the congestion window.
    pub(crate) fn on_source_empty(&mut self) {
        if self.delivery.is_none() || self.room() == 0 || self.has_lost() {
            return;
        }
        let in_flight = self.in_flight();
        if let Some(delivery) = self.delivery.as_deref_mut() {
            delivery.set_app_limited(in_flight);
        }
    }

    /// Records that data was sent for the first time. `has_tail` is true if its last segment is not full.
    pub(crate) fn on_sent(&mut self, start: Seq, size: u32, has_tail: bool, now: u64) {
        if self.board.size() == 0 {
            self.timer_start = now;
        }
        let in_flight = self.delivery.is_some().then(|| self.in_flight());
        self.board.push((start, start + size), (self.window.mss, has_tail), now);
        if let Some(in_flight) = in_flight {
            self.stamp(start, size, in_flight, now);
        }
        (self.probe_timer_start, self.last_sent) = (now, now);
        self.prr.on_sent(size);
        self.pace(size, now);
        self.note_usage(self.room() < self.window.mss);
    }

    /// Records that data was retransmitted.
    pub(crate) fn on_retransmitted(&mut self, start: Seq, size: u32, now: u64) {
        if self.board.first().is_some_and(|first| first.start == start) {
            self.timer_start = now;
        }
        let in_flight = self.delivery.is_some().then(|| self.in_flight());
        self.board.retransmit((start, start + size), self.window.mss, now);
        if let Some(in_flight) = in_flight {
            self.stamp(start, size, in_flight, now);
        }
        (self.probe_timer_start, self.last_sent) = (now, now);
        self.prr.on_sent(size);
        self.pace(size, now);
        if let Some(undo) = self.undo.as_deref_mut() {
            undo.retransmitted_at.get_or_insert(now);
            undo.retransmitted = undo.retransmitted.saturating_add(size);
        }
    }

    /// Reduces the window before data is sent after a pause. A window that was not used for longer than the
    /// RTO is not valid any more (RFC 5681 §4.1). The window is halved for each RTO, as in Linux.
    pub(crate) fn restart_after_idle(&mut self, now: u64) {
        let (idle, rto) = (now.saturating_sub(self.last_sent), self.rtt.rto());
        if self.board.size() > 0 || idle <= rto || self.phase != Phase::Open {
            return;
        }
        self.control.on_idle(self.last_sent, now);
        if matches!(self.control, Control::Unlimited) || self.control.sets_window() {
            return;
        }
        let initial = Window::initial(self.window.mss);
        self.window.threshold = self.window.threshold.max(self.window.size / 4 * 3);
        let halvings = u32::try_from(idle / rto.max(1)).unwrap_or(31).min(31);
        self.window.size = (self.window.size >> halvings).max(initial.min(self.window.size));
        self.last_sent = now;
    }

    /// Reports the first range, which was marked as lost, to the algorithm that sets the window.
    fn note_first_lost(&mut self, now: u64) {
        if let Some(first) = self.board.first().copied() {
            note_lost(&mut self.delivery, &mut self.control, &self.window, &first, now);
        }
    }

    /// Drops all state, since nothing will be sent any more.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.board.clear(pool);
        (self.reorder_deadline, self.probe) = (None, None);
    }
}

/// Creates the state of an algorithm, with the estimator that it needs. `nxt` is the number of the next byte
/// to be sent. If there is no memory, creates that of CUBIC.
fn control(
    algorithm: Algorithm,
    nxt: Seq,
    has_sack: bool,
    (window, rtt): (&Window, &RttEstimator),
    now: u64,
) -> (Control, Option<TryBox<DeliveryRate>>) {
    let control = Control::new(algorithm, nxt, window, rtt, now);
    if !control.sets_window() {
        return (control, None);
    }
    match TryBox::try_new(DeliveryRate::new(has_sack, now)) {
        Ok(delivery) => (control, Some(delivery)),
        Err(_) => (Control::new(Algorithm::Cubic, nxt, window, rtt, now), None),
    }
}

/// Reports a range that was marked as lost to the algorithm that sets the window.
fn note_lost(
    delivery: &mut Option<TryBox<DeliveryRate>>,
    control: &mut Control,
    window: &Window,
    range: &SentRange,
    now: u64,
) {
    if let Some(delivery) = delivery {
        control.on_lost(window, &delivery.on_lost(range, now));
    }
}
