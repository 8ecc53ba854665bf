//! The processor architecture: the contract that each architecture fulfils.
//!
//! `arch` is the lowest layer of the hal. Of the layers above, it imports only [`crate::fallible`]. Where it
//! must call their functions, it takes them as a type parameter ([`trap::TrapHandler`],
//! [`preempt::PreemptHooks`], [`startup::CpuResources`]), so that the calls stay direct. Outside of `arch`
//! and `crate::platform` no code names a register, an instruction, an interrupt controller or the format of a
//! table. `platform` may also use an architecture's own modules (`arch::x86_64`), since a platform is a board
//! with one kind of processor.
//!
//! An architecture is a directory next to `x86_64`, re-exported here, that provides:
//!
//! | module | provides |
//! | --- | --- |
//! | [`context`] | `Context`: the saved state of a thread that does not run. `prepare` makes one that starts with a function; `switch` saves the callee-saved registers and the thread pointer of the running thread and loads those of another. The state of a context (empty, suspended, running) is published so that no two CPUs run one stack. |
//! | [`copy`] | `copy`: copies bytes that a device may change at the same time. |
//! | [`counter`] | The free-running counter behind the clock: `now` is ordered after all earlier loads; `frequency` is what the processor itself states, in Hz; `is_synchronized` promises that all CPUs read the same; `from_boot` is what the boot information says of it. |
//! | [`cpu`] | `enable_interrupts`, `wait_unless` (no wake-up is lost between the check and the wait) and `stop`, as the privileged instructions do them. |
//! | [`entropy`] | `word`: 64 bits from the processor's random number generator, if it has one. |
//! | [`entry!`](crate::entry) | The image's first instruction: sets the boot stack up and calls [`crate::boot::start`] with the address of the boot information. |
//! | [`local`] | The CPU-local block: `Base` installs one, `block`, `number` and `mask_depth` read it with one load; `mask` adds to the software interrupt mask with one instruction, so that the thread cannot move to another CPU halfway. |
//! | [`preempt`] | `unmask` takes from the software interrupt mask with one instruction, and calls [`preempt::PreemptHooks::handle_pending`] if it was the last and a line is pending. `entry`: where an interrupt sends a thread that is to be preempted; it saves every register, calls [`preempt::PreemptHooks::preempted`] and resumes the thread. |
//! | [`processor`] | `Processor`: what a CPU needs before kernel code runs on it; `enter` loads it. |
//! | [`stacks`] | The kernel's own stacks, each above a guard page: boot and idle stacks, and those of interrupts and exceptions, which never run on the interrupted stack. |
//! | [`startup`] | Secondary CPUs: `prepare` allocates what they need; each calls the given function on its own stack. |
//! | [`tlb`] | `flush`: drops all TLB entries of this CPU. |
//! | [`trap`] | `TrapFrame`: the interrupted registers; [`trap::TrapHandler`] receives interrupts and exceptions in terms that no architecture owns ([`trap::Exception`]). |
//!
//! Every function is safe to call on any CPU from the moment that [`processor::Processor::enter`] has
//! returned on that CPU, unless its documentation says otherwise.

pub(crate) mod x86_64;

#[doc(hidden)]
pub use x86_64::entry;
pub(crate) use x86_64::{
    context, copy, counter, cpu, entropy, local, preempt, processor, stacks, startup, tlb, trap,
};
