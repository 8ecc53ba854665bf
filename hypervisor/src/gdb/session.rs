//! One gdb's connection, from first to last packet.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError};

use super::guest::Guest;
use super::wait::Wait;
use crate::engine::EngineError;

/// A gdb that does not take an answer for so long is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The packet that says yes.
const DONE: &[u8] = b"$OK#9a";

/// The order of what a session waits for.
const FROM_GDB: u64 = 0;
const FROM_PROCESSORS: u64 = 1;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// gdb does not want the guest any more, or there is no guest any more.
    Detached,
    /// The machine is to end.
    Killed,
}

/// Why a session ended against gdb's will.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The connection.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// gdb has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// A packet that is none, or a processor that cannot be debugged.
    #[error(transparent)]
    Protocol(#[from] GdbStubError<EngineError, io::Error>),
}

/// What gdb says.
#[derive(Debug)]
struct Input {
    stream: TcpStream,
    bytes: VecDeque<u8>,
    wait: Wait,
}

impl Input {
    /// Waits until gdb says something or the guest does something.
    fn wait(&mut self, guest: &Guest) -> Result<(), SessionError> {
        match self.wait.next()? {
            FROM_GDB => {
                let mut bytes = [0; 4096];
                let size = self.stream.read(&mut bytes)?;
                if size == 0 {
                    return Err(SessionError::Closed);
                }
                self.bytes.extend(bytes.iter().take(size));
            }
            FROM_PROCESSORS => guest.calm(),
            // The machine has ended, as the guest says from now on.
            _ => {}
        }
        Ok(())
    }
}

/// Serves a gdb whose guest is paused.
pub(super) fn run(stream: TcpStream, guest: &mut Guest) -> Result<Outcome, SessionError> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let reader = stream.try_clone()?;
    let wait = Wait::new(&[&reader, guest.stirred(), guest.machine().ended()])?;
    let mut input = Input { stream: reader, bytes: VecDeque::new(), wait };
    let mut state = GdbStub::new(stream).run_state_machine(guest)?;
    loop {
        state = match state {
            GdbStubStateMachine::Idle(gdb) => {
                if let Some(byte) = input.bytes.pop_front() {
                    gdb.incoming_data(guest, byte)?
                } else if guest.machine().end().is_some() {
                    return Ok(Outcome::Detached);
                } else {
                    input.wait(guest)?;
                    gdb.into()
                }
            }
            GdbStubStateMachine::Running(gdb) => {
                if let Some(byte) = input.bytes.pop_front() {
                    gdb.incoming_data(guest, byte)?
                } else if let Some(news) = guest.news() {
                    gdb.report_stop(guest, news)?
                } else {
                    input.wait(guest)?;
                    gdb.into()
                }
            }
            GdbStubStateMachine::CtrlCInterrupt(gdb) => {
                let reason = guest.interrupt();
                gdb.interrupt_handled(guest, reason)?
            }
            GdbStubStateMachine::Disconnected(mut gdb) => {
                return Ok(match gdb.get_reason() {
                    DisconnectReason::Kill => {
                        // The crate does not answer, but gdb waits for it.
                        let _: io::Result<()> = gdb.borrow_conn().write_all(DONE);
                        Outcome::Killed
                    }
                    _ => Outcome::Detached,
                });
            }
        };
    }
}
