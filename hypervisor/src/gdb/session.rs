//! A session: one connection of a gdb, from the first packet to the end.

use std::collections::VecDeque;
use std::io;

use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError};

use super::connection::{GdbSocket, Replies};
use super::debug_target::{DebugTarget, Vcpus};
use super::epoll::PollSet;
use crate::engine::EngineError;
use crate::vcpu::manager::VcpuManager;

/// Maximum size of a packet in bytes, which is reported to gdb (`PacketSize`). A longer packet ends the
/// session.
const MAX_PACKET: usize = 4096;

/// Packet `OK`.
const OK_PACKET: &[u8] = b"$OK#9a";

/// Indices of the files in the poll set of a session.
const CONNECTION: u64 = 0;
const STOP_EVENT: u64 = 1;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// gdb has detached, or the VM has shut down.
    Detached,
    /// gdb has killed the guest.
    Killed,
}

/// Why a session failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// Error of the connection.
    #[error(transparent)]
    Host(#[from] io::Error),
    /// gdb has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// Invalid packet, or a vCPU that cannot be debugged.
    #[error(transparent)]
    Protocol(#[from] GdbStubError<EngineError, io::Error>),
}

/// Input of a session: bytes from gdb, and events of the VM.
pub(super) trait SessionInput<V> {
    /// Returns the next byte that has arrived from gdb; `None` if there is none.
    fn next_byte(&mut self) -> Option<u8>;

    /// Waits for bytes from gdb, or for an event of the VM.
    fn wait(&mut self, target: &DebugTarget<V>) -> Result<(), SessionError>;
}

/// Input from a connection.
#[derive(Debug)]
struct SocketInput<'a> {
    socket: &'a GdbSocket,
    bytes: VecDeque<u8>,
    poll_set: PollSet,
}

impl SessionInput<VcpuManager> for SocketInput<'_> {
    fn next_byte(&mut self) -> Option<u8> {
        self.bytes.pop_front()
    }

    fn wait(&mut self, target: &DebugTarget) -> Result<(), SessionError> {
        match self.poll_set.wait()? {
            CONNECTION => {
                let mut bytes = [0; 4096];
                let size = self.socket.receive(&mut bytes)?;
                if size == 0 {
                    return Err(SessionError::Closed);
                }
                self.bytes.extend(bytes.iter().take(size));
            }
            STOP_EVENT => target.clear_stop_event(),
            // The VM has shut down, which the caller checks.
            _ => {}
        }
        Ok(())
    }
}

/// Serves a connected gdb. Pauses the target first.
pub(super) fn run(socket: &GdbSocket, target: &mut DebugTarget) -> Result<SessionEnd, SessionError> {
    let poll_set = PollSet::new(&[socket, target.stop_event(), target.vm().shutdown_event()])?;
    serve(Replies::new(socket), &mut SocketInput { socket, bytes: VecDeque::new(), poll_set }, target)
}

/// Handles packets of `input` and stops of the target, and writes replies to `connection`, until the session
/// ends.
pub(super) fn serve<V: Vcpus>(
    connection: impl Connection<Error = io::Error>,
    input: &mut impl SessionInput<V>,
    target: &mut DebugTarget<V>,
) -> Result<SessionEnd, SessionError> {
    let mut packet = [0; MAX_PACKET];
    let stub = GdbStub::builder(connection).with_packet_buffer(&mut packet).build();
    let mut state = stub.map_err(io::Error::other)?.run_state_machine(target)?;
    loop {
        state = match state {
            GdbStubStateMachine::Idle(mut gdb) => {
                if let Some(byte) = input.next_byte() {
                    gdb.incoming_data(target, byte)?
                } else if target.vm().shutdown_cause().is_some() {
                    return Ok(SessionEnd::Detached);
                } else {
                    gdb.borrow_conn().flush()?;
                    input.wait(target)?;
                    gdb.into()
                }
            }
            GdbStubStateMachine::Running(mut gdb) => {
                if let Some(byte) = input.next_byte() {
                    gdb.incoming_data(target, byte)?
                } else if let Some(reply) = target.next_stop_reply() {
                    gdb.report_stop(target, reply)?
                } else {
                    // gdbstub does not flush the acknowledgement of a packet that resumes the guest.
                    gdb.borrow_conn().flush()?;
                    input.wait(target)?;
                    gdb.into()
                }
            }
            GdbStubStateMachine::CtrlCInterrupt(gdb) => {
                let reply = target.interrupt();
                gdb.interrupt_handled(target, reply)?
            }
            GdbStubStateMachine::Disconnected(mut gdb) => {
                return Ok(match gdb.get_reason() {
                    DisconnectReason::Kill => {
                        // gdbstub does not reply to `vKill`, but gdb waits for a reply.
                        let connection = gdb.borrow_conn();
                        let _: io::Result<()> =
                            connection.write_all(OK_PACKET).and_then(|()| connection.flush());
                        SessionEnd::Killed
                    }
                    _ => SessionEnd::Detached,
                });
            }
        };
    }
}
