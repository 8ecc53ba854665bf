//! A model of one direction of a network path: random loss, a bottleneck with a queue, delay, jitter and
//! reordering.
//!
//! The model has no clock. The caller passes the times at which frames arrive, in nanoseconds since any
//! point. The times at which frames leave depend only on these arrival times and on a seed.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Denominator of the rates of loss and reordering.
const MILLION: u64 = 1_000_000;

/// Parameters of one direction of a path. The default passes each frame on at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bench::net) struct Impairments {
    /// Frames of a million that are lost at random before the queue.
    pub(in crate::bench::net) loss_ppm: u64,
    /// Rate of the bottleneck in bits per second. `None` means no limit.
    pub(in crate::bench::net) rate: Option<u64>,
    /// Size of the bottleneck's queue in bytes, including the frame that is being transmitted. A frame that
    /// does not fit is dropped.
    pub(in crate::bench::net) queue_bytes: u64,
    /// Time from the bottleneck to the end of the path, in nanoseconds.
    pub(in crate::bench::net) delay_ns: u64,
    /// Maximum additional delay, in nanoseconds. The additional delay is random, with a uniform distribution.
    /// It does not reorder frames.
    pub(in crate::bench::net) jitter_ns: u64,
    /// Frames of a million that are held back, while later frames overtake them.
    pub(in crate::bench::net) reordering_ppm: u64,
    /// Time for which a frame is held back, in nanoseconds.
    pub(in crate::bench::net) reordering_ns: u64,
}

/// Fate of a frame that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It leaves the path later.
    Accepted,
    /// It is lost at random.
    Lost,
    /// It finds the queue full.
    Dropped,
}

/// One direction of a path, and the frames on it.
#[derive(Debug)]
pub(super) struct Emulator<Frame> {
    impairments: Impairments,
    random: Rng,
    queue: Bottleneck,
    /// Time at which the last frame that was not held back leaves the path.
    last_departure: u64,
    /// Number of frames that were accepted.
    accepted: u64,
    frames: BinaryHeap<Reverse<Departure<Frame>>>,
}

impl<Frame> Emulator<Frame> {
    /// Returns an empty path. Paths with the same seed and impairments treat their n-th frames alike.
    pub(super) fn new(impairments: Impairments, seed: u64) -> Self {
        Self {
            impairments,
            random: Rng::with_seed(seed),
            queue: Bottleneck::default(),
            last_departure: 0,
            accepted: 0,
            frames: BinaryHeap::new(),
        }
    }

    /// Puts a frame of `size` bytes on the path at the time `now`, and returns the frame's fate. `now` must
    /// not be before the time of an earlier call.
    pub(super) fn arrive(&mut self, now: u64, size: u64, frame: Frame) -> Fate {
        let Impairments { loss_ppm, rate, queue_bytes, delay_ns, jitter_ns, reordering_ppm, reordering_ns } =
            self.impairments;
        // Each frame uses three random numbers even if fewer are needed, so that the fate of the n-th frame
        // does not depend on earlier frames.
        let [loss, jitter, order] = [(); 3].map(|()| self.random.u64(..));
        if scale(loss, MILLION) < loss_ppm {
            return Fate::Lost;
        }
        let Some(transmitted) = self.queue.transmit(now, size, rate, queue_bytes) else {
            return Fate::Dropped;
        };
        let time = transmitted + delay_ns + scale(jitter, jitter_ns);
        let time = if scale(order, MILLION) < reordering_ppm {
            time + reordering_ns
        } else {
            self.last_departure = time.max(self.last_departure);
            self.last_departure
        };
        self.frames.push(Reverse(Departure { time, number: self.accepted, frame }));
        self.accepted += 1;
        Fate::Accepted
    }

    /// Returns the time at which the next frame leaves.
    pub(super) fn next_departure(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse(departure)| departure.time)
    }

    /// Removes and returns the next frame that has left the path by the time `now`.
    pub(super) fn depart(&mut self, now: u64) -> Option<Frame> {
        self.next_departure().filter(|&time| time <= now)?;
        self.frames.pop().map(|Reverse(departure)| departure.frame)
    }
}

/// The bottleneck: frames are transmitted one after the other.
#[derive(Debug, Default)]
struct Bottleneck {
    /// Time at which the transmission of each frame ends, and its size in bytes.
    frames: VecDeque<(u64, u64)>,
    bytes: u64,
    busy_until: u64,
}

impl Bottleneck {
    /// Returns the time at which the transmission of a frame ends. Returns `None` if the queue has no room
    /// for the frame.
    fn transmit(&mut self, now: u64, size: u64, rate: Option<u64>, room: u64) -> Option<u64> {
        let Some(rate) = rate else { return Some(now) };
        while let Some((_, size)) = self.frames.pop_front_if(|(end, _)| *end <= now) {
            self.bytes -= size;
        }
        if self.bytes + size > room {
            return None;
        }
        self.bytes += size;
        self.busy_until = self.busy_until.max(now) + (size * 8).saturating_mul(SECOND) / rate;
        self.frames.push_back((self.busy_until, size));
        Some(self.busy_until)
    }
}

/// Maps a random number of 64 bits to a number below `bound`. Returns 0 if `bound` is 0.
fn scale(random: u64, bound: u64) -> u64 {
    u64::try_from((u128::from(random) * u128::from(bound)) >> 64).unwrap_or(u64::MAX)
}

/// A frame on the path. Frames are ordered by the time at which they leave, and frames with the same time by
/// their arrival.
#[derive(Debug)]
struct Departure<Frame> {
    time: u64,
    number: u64,
    frame: Frame,
}

impl<Frame> Ord for Departure<Frame> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl<Frame> PartialOrd for Departure<Frame> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<Frame> PartialEq for Departure<Frame> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<Frame> Eq for Departure<Frame> {}

#[cfg(test)]
mod tests {
    use super::{Emulator, Fate, Impairments};

    /// A path of 100 Mbit/s: a frame of 1,250 bytes takes 100 µs.
    const PATH: Impairments = Impairments {
        loss_ppm: 0,
        rate: Some(100_000_000),
        queue_bytes: 2_500,
        delay_ns: 5_000_000,
        jitter_ns: 0,
        reordering_ppm: 0,
        reordering_ns: 0,
    };

    /// Removes all frames from the path. Returns each frame with the time at which it leaves.
    fn departures(path: &mut Emulator<u64>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        while let Some(time) = path.next_departure() {
            assert_eq!(path.depart(time - 1), None);
            all.extend(path.depart(time).map(|frame| (time, frame)));
        }
        all
    }

    /// Sends `count` frames of 1,250 bytes, one every 100 µs. Returns the frames that leave the path, with
    /// their times.
    fn stream(impairments: Impairments, seed: u64, count: u64) -> Vec<(u64, u64)> {
        let mut path = Emulator::new(impairments, seed);
        for frame in 0..count {
            let _: Fate = path.arrive(frame * 100_000, 1_250, frame);
        }
        departures(&mut path)
    }

    #[test]
    fn path_without_impairments_passes_frames_on_at_once() {
        let mut path = Emulator::new(Impairments::default(), 1);
        assert_eq!(path.arrive(7, 1_500, 'a'), Fate::Accepted);
        assert_eq!(path.arrive(7, 1_500, 'b'), Fate::Accepted);
        assert_eq!((path.depart(7), path.depart(7), path.depart(7)), (Some('a'), Some('b'), None));
    }

    #[test]
    fn bottleneck_transmits_one_frame_after_the_other() {
        let mut path = Emulator::new(PATH, 1);
        assert_eq!(path.arrive(0, 1_250, 1), Fate::Accepted);
        assert_eq!(path.arrive(0, 1_250, 2), Fate::Accepted);
        // The first frame is still being transmitted.
        assert_eq!(path.arrive(99_999, 1_250, 3), Fate::Dropped);
        assert_eq!(path.arrive(100_000, 1_250, 4), Fate::Accepted);
        // The bottleneck has been idle since the time 300 µs.
        assert_eq!(path.arrive(1_000_000, 125, 5), Fate::Accepted);
        let expected = [(5_100_000, 1), (5_200_000, 2), (5_300_000, 4), (6_010_000, 5)];
        assert_eq!(departures(&mut path), expected);
    }

    #[test]
    fn lost_frames_take_no_room_in_the_queue() {
        let mut path = Emulator::new(Impairments { loss_ppm: 1_000_000, ..PATH }, 1);
        for frame in 0..10 {
            assert_eq!(path.arrive(0, 1_250, frame), Fate::Lost);
        }
        assert_eq!(path.next_departure(), None);
    }

    #[test]
    fn loss_is_as_frequent_as_asked_and_repeats_with_the_seed() {
        let lossy = Impairments { loss_ppm: 30_000, ..PATH };
        let (one, again, other) =
            (stream(lossy, 1, 100_000), stream(lossy, 1, 100_000), stream(lossy, 2, 100_000));
        assert_eq!(one, again);
        assert_ne!(one, other);
        // The standard deviation is 54 frames.
        assert!((96_700..97_300).contains(&one.len()), "{}", one.len());
    }

    #[test]
    fn loss_of_a_frame_does_not_depend_on_other_impairments() {
        let frames = |impairments| stream(impairments, 3, 1_000).into_iter().map(|(_, frame)| frame);
        let lossy = Impairments { loss_ppm: 100_000, ..PATH };
        let jittery =
            Impairments { jitter_ns: 1_000_000, reordering_ppm: 100_000, reordering_ns: 300_000, ..lossy };
        let mut reordered: Vec<u64> = frames(jittery).collect();
        assert!(!reordered.is_sorted());
        reordered.sort_unstable();
        assert!(frames(lossy).eq(reordered));
    }

    #[test]
    fn jitter_delays_frames_and_keeps_their_order() {
        let all = stream(Impairments { jitter_ns: 2_000_000, ..PATH }, 1, 1_000);
        assert!(all.iter().map(|(_, frame)| frame).is_sorted());
        let delays: Vec<u64> = all.iter().map(|(time, frame)| time - frame * 100_000 - 5_100_000).collect();
        let (min, max) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(*min < 1_000_000 && (1_900_000..2_000_000).contains(max), "{min} {max}");
    }

    #[test]
    fn frames_held_back_are_overtaken_by_those_within_the_time() {
        let reordering = Impairments { reordering_ppm: 10_000, reordering_ns: 1_050_000, ..PATH };
        let all = stream(reordering, 1, 10_000);
        assert_eq!(all.len(), 10_000);
        let late: Vec<(u64, u64)> =
            all.into_iter().filter(|(time, frame)| *time != frame * 100_000 + 5_100_000).collect();
        assert!((60..140).contains(&late.len()), "{}", late.len());
        assert!(late.iter().all(|(time, frame)| *time == frame * 100_000 + 6_150_000));
    }
}
