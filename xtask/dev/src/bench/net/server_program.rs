//! The programs that are measured as servers.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::idle::RUNTIMES;

/// A program that is a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerProgram {
    NetBench,
    Httpd,
    Web,
    IdleLatency,
}

impl ServerProgram {
    /// Returns the program's default port.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::NetBench => 7777,
            Self::Httpd | Self::Web => 8080,
            Self::IdleLatency => 7780,
        }
    }

    /// Returns the ports that uhyve forwards to a guest behind ports.
    pub(super) fn ports(self) -> RangeInclusive<u16> {
        let others = if self == Self::IdleLatency { RUNTIMES.len() } else { 0 };
        self.port()..=self.port() + u16::try_from(others).unwrap_or(0)
    }

    /// Returns the name of the program's example and of its files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NetBench => "net_bench",
            Self::Httpd => "httpd",
            Self::Web => "web",
            Self::IdleLatency => "idle_latency",
        }
    }

    /// Returns the program's arguments.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::NetBench | Self::IdleLatency => &["server"],
            Self::Httpd | Self::Web => &[],
        }
    }

    /// Returns the file of this program among `files`, the files of the plan.
    pub(super) fn of(self, files: &[PathBuf]) -> Result<&Path> {
        let mut files = files.iter().map(PathBuf::as_path);
        let file = files.find(|file| file.file_name().is_some_and(|name| name == self.name()));
        file.with_context(|| format!("there is no {}", self.name()))
    }
}
