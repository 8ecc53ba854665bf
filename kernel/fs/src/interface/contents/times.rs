//! The times of an inode.
//!
//! Reading the clock is not enough to set the times. Two CPUs may read the clock in one order and lock the
//! inode in the other order, so a change must not move the times back a little. Writes within the same tick
//! keep the time of the first write, and only the first read after a change sets the time of the last read.
//! The fast paths rely on this: they are used only if no time would change.

use crate::interface::{SetTime, Time};

/// A tick that never occurs: real ticks are smaller.
const NEVER: u64 = u64::MAX;

/// Times of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    pub(crate) btime: Time,
    /// True if the next read changes the time of the last read. Only the first read after a change does so,
    /// as with Linux's `relatime`.
    pub(crate) is_unread: bool,
    /// The [tick](crate::System::tick) of the last write, if another write at the same tick would not change
    /// the times. Otherwise [`NEVER`].
    pub(crate) written_at: u64,
}

impl Times {
    /// Returns the times of a new inode.
    pub(crate) const fn new(now: Time) -> Self {
        Self { atime: now, mtime: now, ctime: now, btime: now, is_unread: true, written_at: NEVER }
    }

    /// Returns the time to record for a change. `now` was read before the inode was locked, so another change
    /// may have recorded a later time meanwhile. Then this recorded time is returned again, so that times do
    /// not go back. But if the recorded time is more than about a second later, the clock was set back, and
    /// `now` is returned.
    #[inline]
    fn time_of_change(&self, now: Time) -> Time {
        let is_overtaken = match self.ctime.seconds.wrapping_sub(now.seconds) {
            0 => now.nanoseconds < self.ctime.nanoseconds,
            1 => true,
            _ => false,
        };
        if is_overtaken { self.ctime } else { now }
    }

    /// Records a change of the contents.
    #[inline(always)]
    pub(crate) fn modified(&mut self, now: Time) {
        let now = self.time_of_change(now);
        self.mtime = now;
        self.ctime = now;
        self.is_unread = self.atime <= now;
    }

    /// Records a change of the inode, but not of its contents.
    #[inline(always)]
    pub(crate) fn changed(&mut self, now: Time) {
        let now = self.time_of_change(now);
        self.ctime = now;
        self.is_unread |= self.atime <= now;
    }

    /// Sets the times of a file from an archive to the time of the file's last change.
    pub(crate) fn unpacked(&mut self, modified: Time) {
        (self.mtime, self.atime) = (modified, modified);
        self.update_is_unread();
    }

    /// Records a write at the given tick and time.
    #[inline]
    pub(crate) fn written(&mut self, tick: u64, now: Time) {
        self.modified(now);
        self.written_at = tick;
    }

    /// Records a read. The next write must record its own, later time, so `written_at` is reset.
    pub(crate) fn read(&mut self, now: Time) {
        self.atime = now;
        self.written_at = NEVER;
        self.update_is_unread();
    }

    pub(crate) fn set(&mut self, atime: Option<SetTime>, mtime: Option<SetTime>, now: Time) {
        let now = self.time_of_change(now);
        let value = |time| match time {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        self.atime = atime.map_or(self.atime, value);
        self.mtime = mtime.map_or(self.mtime, value);
        self.ctime = now;
        self.written_at = NEVER;
        self.update_is_unread();
    }

    fn update_is_unread(&mut self) {
        self.is_unread = self.atime <= self.mtime || self.atime <= self.ctime;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Times;
    use crate::interface::{SetTime, Time};

    const fn time(seconds: i64, nanoseconds: u32) -> Time {
        Time { seconds, nanoseconds }
    }

    #[test]
    fn times_do_not_step_back_between_two_writers() {
        let mut times = Times::new(time(5, 0));
        let mut modified = |now| {
            times.modified(now);
            times.mtime
        };
        assert_eq!((modified(time(6, 7)), modified(time(6, 5))), (time(6, 7), time(6, 7)));
        times.changed(time(6, 6));
        assert_eq!(times.ctime, time(6, 7));
        times.set(None, None, time(6, 6));
        assert_eq!(times.ctime, time(6, 7));
        // The difference is so large that the clock must have been set back.
        times.modified(time(2, 0));
        assert_eq!(times.mtime, time(2, 0));
        // The next change replaces a time that a program has set, even one in the future.
        times.set(None, Some(SetTime::To(time(100, 0))), time(3, 0));
        times.modified(time(3, 1));
        assert_eq!(times.mtime, time(3, 1));
    }
}
