//! What is measured.

use std::fmt;

/// A kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Topic {
    /// How much goes through one connection
    Throughput,
    /// How long a message takes there and back
    Latency,
    /// How many connections are made
    Connections,
    /// How many HTTP requests are answered
    Http,
    /// How long it takes from the start of the monitor to the first answers
    Start,
}

/// Figures of one unit that belong into one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    ToServer,
    FromServer,
    Latency,
    Rates,
    Start,
}

impl Table {
    pub(super) const ALL: [Self; 5] =
        [Self::ToServer, Self::FromServer, Self::Latency, Self::Rates, Self::Start];

    /// Larger figures are better.
    pub(super) fn grows(self) -> bool {
        matches!(self, Self::ToServer | Self::FromServer | Self::Rates)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ToServer => "host to guest (MB/s)",
            Self::FromServer => "guest to host (MB/s)",
            Self::Latency => "round-trip time (us)",
            Self::Rates => "per second",
            Self::Start => "from exec (ms)",
        })
    }
}
