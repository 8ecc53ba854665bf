//! The topics of the suite, and the tables of their figures.

use std::fmt;

/// A topic, which can be selected on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Topic {
    /// Throughput of one connection
    Throughput,
    /// Round-trip time of a message
    Latency,
    /// Rate of new connections
    Connections,
    /// Rate of HTTP requests
    Http,
    /// Time from the start of the VMM to the first replies
    Start,
    /// Time from request to answer on an otherwise idle machine: blocking, on tokio and on smol
    Idle,
    /// Rate and latency of requests to axum on tokio: the suite `web`
    #[value(hide = true)]
    Web,
}

/// A table: figures with one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    ToServer,
    FromServer,
    Latency,
    Rates,
    Start,
    Idle,
    WebRates,
    WebLatency,
    LossyFromServer,
    LossyToServer,
    Completion,
    Fairness,
}

impl Table {
    pub(super) const ALL: [Self; 12] = [
        Self::ToServer,
        Self::FromServer,
        Self::Latency,
        Self::Rates,
        Self::Start,
        Self::Idle,
        Self::WebRates,
        Self::WebLatency,
        Self::LossyFromServer,
        Self::LossyToServer,
        Self::Completion,
        Self::Fairness,
    ];

    /// Returns true if the figures are those of a lossy path (`--loss`).
    pub(super) fn is_of_lossy_path(self) -> bool {
        matches!(self, Self::LossyFromServer | Self::LossyToServer | Self::Completion | Self::Fairness)
    }

    /// Returns true if larger figures are better.
    pub(super) fn is_larger_better(self) -> bool {
        !matches!(self, Self::Latency | Self::Start | Self::Idle | Self::WebLatency | Self::Completion)
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
            Self::Idle => "idle machine (us)",
            Self::WebRates => "requests per second",
            Self::WebLatency => "response time (us)",
            Self::LossyFromServer => "lossy path, guest to host (MB/s)",
            Self::LossyToServer => "lossy path, host to guest (MB/s)",
            Self::Completion => "completion time (ms)",
            Self::Fairness => "fairness (Jain's index)",
        })
    }
}
