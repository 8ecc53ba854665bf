//! A virtual machine has one program: `spawn` fails, so there are neither children nor their streams.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::{Child as StdChild, ExitStatus, Stdio};
use std::task::{Context, Poll};

use crate::io::{AsyncRead, AsyncWrite, ReadBuf};
use crate::process::kill::Kill;
use crate::process::SpawnedChild;

#[derive(Debug)]
pub(crate) enum Child {}

pub(crate) fn build_child(_child: StdChild) -> io::Result<SpawnedChild> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Child {
    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match *self {}
    }
}

impl Kill for Child {
    fn kill(&mut self) -> io::Result<()> {
        match *self {}
    }
}

impl Future for Child {
    type Output = io::Result<ExitStatus>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum ChildStdio {}

pub(crate) type ChildStdin = ChildStdio;
pub(crate) type ChildStdout = ChildStdio;
pub(crate) type ChildStderr = ChildStdio;

impl ChildStdio {
    pub(super) fn into_stdio(self) -> io::Result<Stdio> {
        match self {}
    }
}

impl AsyncRead for ChildStdio {
    fn poll_read(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for ChildStdio {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

pub(super) fn stdio<T>(_io: T) -> io::Result<ChildStdio> {
    Err(io::ErrorKind::Unsupported.into())
}
