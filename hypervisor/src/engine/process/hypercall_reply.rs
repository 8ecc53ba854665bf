//! Results of hypercalls.

use hermit_interface::process::OUT_SIZE;

use super::hypercall::Hypercall;
use super::seccomp_notify::CallResponse;
use crate::engine::VcpuExit;

/// Result of a hypercall that the handler of its vCPU exit computes.
#[derive(Debug, Default)]
pub(super) struct HypercallReply {
    pending: Option<Pending>,
    /// Buffer of the access.
    bytes: [u8; OUT_SIZE],
    /// True if the hypervisor has taken the bytes of [`Hypercall::TryPioWrite`]. The handler of the vCPU exit
    /// sets it.
    is_taken: bool,
}

/// Result of a hypercall that is not sent yet.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// The response is known.
    Ready(CallResponse),
    /// The response is the first bytes of [`HypercallReply::bytes`], as many as this number. The handler of
    /// the vCPU exit fills them in.
    Bytes(usize),
    /// The response is this number if [`HypercallReply::is_taken`], else 0.
    Taken(usize),
}

impl HypercallReply {
    /// Creates a reply whose response is known.
    pub(super) const fn ready(response: CallResponse) -> Self {
        Self { pending: Some(Pending::Ready(response)), bytes: [0; OUT_SIZE], is_taken: false }
    }

    /// Converts a hypercall into a vCPU exit. After the exit is handled, [`Self::take`] returns the response.
    pub(super) fn begin(&mut self, hypercall: &Hypercall) -> VcpuExit<'_> {
        self.pending = Some(match *hypercall {
            Hypercall::MmioRead { size, .. } => Pending::Bytes(size),
            Hypercall::TryPioWrite { size, .. } => Pending::Taken(size),
            Hypercall::MmioWrite { .. } | Hypercall::PioWrite { .. } => {
                Pending::Ready(CallResponse::Value(0))
            }
            Hypercall::Invalid => Pending::Ready(CallResponse::Error(libc::EINVAL)),
        });
        match *hypercall {
            Hypercall::MmioRead { address, size } => VcpuExit::MmioRead(address, self.fill(&[], size)),
            Hypercall::MmioWrite { address, size, bytes } => {
                VcpuExit::MmioWrite(address, self.fill(&bytes, size))
            }
            Hypercall::PioWrite { port, size, bytes } => VcpuExit::PioWrite(port, self.fill(&bytes, size)),
            Hypercall::TryPioWrite { port, size, bytes } => {
                self.bytes = bytes;
                let bytes = self.bytes.get(..size).unwrap_or_default();
                self.is_taken = false;
                VcpuExit::PioTryWrite { port, bytes, is_taken: &mut self.is_taken }
            }
            // The response EINVAL is already set, so the exit has nothing to handle.
            Hypercall::Invalid => VcpuExit::Interrupted,
        }
    }

    /// Takes the response, if a hypercall waits for one.
    pub(super) fn take(&mut self) -> Option<CallResponse> {
        self.pending.take().map(|pending| match pending {
            Pending::Ready(response) => response,
            Pending::Taken(size) if self.is_taken => {
                CallResponse::Value(i64::try_from(size).unwrap_or_default())
            }
            Pending::Taken(_) => CallResponse::Value(0),
            Pending::Bytes(size) => {
                let mut value = [0; 8];
                for (to, from) in value.iter_mut().zip(self.bytes.iter().take(size)) {
                    *to = *from;
                }
                CallResponse::Value(i64::from_le_bytes(value))
            }
        })
    }

    /// Copies `bytes` to the start of the buffer, and returns the first `size` bytes of the buffer.
    fn fill(&mut self, bytes: &[u8], size: usize) -> &mut [u8] {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.bytes.get_mut(..size).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{CallResponse, Hypercall, HypercallReply};
    use crate::engine::VcpuExit;

    #[test]
    fn response_to_read_is_the_bytes_read() {
        let mut reply = HypercallReply::default();
        let VcpuExit::MmioRead(7, bytes) = reply.begin(&Hypercall::MmioRead { address: 7, size: 2 }) else {
            panic!("no read")
        };
        bytes.copy_from_slice(&[0x34, 0x12]);
        assert_eq!(reply.take(), Some(CallResponse::Value(0x1234)));
        assert_eq!(reply.take(), None);
    }

    #[test]
    fn response_to_attempt_is_the_size_if_the_bytes_were_taken() {
        for is_accepted in [true, false] {
            let mut reply = HypercallReply::default();
            let write = Hypercall::TryPioWrite { port: 9, size: 2, bytes: [7; 32] };
            let VcpuExit::PioTryWrite { port: 9, bytes: &[7, 7], is_taken } = reply.begin(&write) else {
                panic!("no attempt")
            };
            *is_taken = is_accepted;
            assert_eq!(reply.take(), Some(CallResponse::Value(if is_accepted { 2 } else { 0 })));
        }
    }

    #[test]
    fn response_to_write_is_zero_and_to_invalid_is_einval() {
        let mut reply = HypercallReply::default();
        let write = Hypercall::MmioWrite { address: 8, size: 2, bytes: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert!(matches!(reply.begin(&write), VcpuExit::MmioWrite(8, &[1, 2])));
        assert_eq!(reply.take(), Some(CallResponse::Value(0)));
        assert!(matches!(reply.begin(&Hypercall::Invalid), VcpuExit::Interrupted));
        assert_eq!(reply.take(), Some(CallResponse::Error(libc::EINVAL)));
        assert_eq!(HypercallReply::ready(CallResponse::Value(1)).take(), Some(CallResponse::Value(1)));
    }
}
