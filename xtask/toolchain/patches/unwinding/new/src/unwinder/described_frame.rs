//! Frames by short descriptions, which a cache keeps: the tables are only read for what no panic has passed
//! before.

use gimli::{BaseAddresses, CfaRule, Register, RegisterRule};

use super::arch::Context;
use super::frame::Frame as Tables;
use super::frame_cache::{Cache, WORDS};
use crate::abi::PersonalityRoutine;
use crate::arch::Arch;

static CACHE: Cache = Cache::new();

/// Registers of a caller that functions save: RBX, RBP, R12 to R15, and the return address.
const SAVED: [Register; 7] =
    [Register(3), Register(6), Register(12), Register(13), Register(14), Register(15), Arch::RA];

/// Size of a saved register.
const SLOT: usize = size_of::<usize>();

/// A frame that is unwound.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// True if the frame was interrupted by a signal: its address is not that behind a call.
    is_interrupted: bool,
    description: Description,
}

/// Description of frames at an address, from the tables.
#[derive(Clone, Copy, Debug)]
struct Description {
    personality: usize,
    lsda: usize,
    initial_address: usize,
    /// Bytes of arguments on the stack, which a landing pad expects to be removed.
    arguments_size: usize,
    is_signal_trampoline: bool,
    /// `None` if the caller's registers are not found by rules as short as these, but by the tables.
    rules: Option<Rules>,
}

/// Where the caller's registers are.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Register and offset whose sum is the canonical frame address (CFA).
    cfa_register: u8,
    cfa_offset: usize,
    /// For each saved register, how many slots below the CFA it is; 0 if the function did not save it.
    slots: [u8; SLOT],
}

impl Frame {
    pub fn from_context(ctx: &Context, signal: bool) -> Result<Option<Self>, gimli::Error> {
        // As in the tables: the call is before the return address.
        let address = ctx[Arch::RA].wrapping_sub(usize::from(!signal));
        if let Some(words) = CACHE.find(address) {
            let description = Description::from_words(words);
            return Ok(Some(Self { is_interrupted: signal, description }));
        }
        let Some(tables) = Tables::from_context(ctx, signal)? else { return Ok(None) };
        let description = Description::new(&tables);
        CACHE.insert(address, description.words());
        Ok(Some(Self { is_interrupted: signal, description }))
    }

    /// Returns the context of the caller. `ctx` is that which the frame was made from.
    pub fn unwind(&self, ctx: &Context) -> Result<Context, gimli::Error> {
        match &self.description.rules {
            Some(rules) => Ok(rules.unwind(ctx)),
            None => self.tables(ctx)?.unwind(ctx),
        }
    }

    pub fn adjust_stack_for_args(&self, ctx: &mut Context) {
        ctx[Arch::SP] = ctx[Arch::SP].wrapping_add(self.description.arguments_size);
    }

    pub fn personality(&self) -> Option<PersonalityRoutine> {
        // SAFETY: the address is that of a personality routine, from the tables, unless it is 0, which is
        // `None`.
        unsafe { core::mem::transmute(self.description.personality) }
    }

    pub fn lsda(&self) -> usize {
        self.description.lsda
    }

    pub fn initial_address(&self) -> usize {
        self.description.initial_address
    }

    pub fn is_signal_trampoline(&self) -> bool {
        self.description.is_signal_trampoline
    }

    /// The encodings that need a base address are not used on x86-64.
    pub fn bases(&self) -> BaseAddresses {
        BaseAddresses::default()
    }

    /// Reads the tables again. `ctx` is that which the frame was made from.
    #[cold]
    fn tables(&self, ctx: &Context) -> Result<Tables, gimli::Error> {
        Tables::from_context(ctx, self.is_interrupted)?.ok_or(gimli::Error::NoUnwindInfoForAddress)
    }
}

/// Bits of the word that holds the fields that are shorter than a word: number of the CFA's register, and
/// size of arguments above.
const HAS_RULES: usize = 1 << 8;
const IS_SIGNAL_TRAMPOLINE: usize = 1 << 9;
const ARGUMENTS_SIZE_SHIFT: u32 = 16;

impl Description {
    fn new(tables: &Tables) -> Self {
        Self {
            personality: tables.personality().map_or(0, |routine| routine as usize),
            lsda: tables.lsda(),
            initial_address: tables.initial_address(),
            arguments_size: tables.row.saved_args_size() as usize,
            is_signal_trampoline: tables.is_signal_trampoline(),
            rules: Rules::new(tables),
        }
    }

    fn words(&self) -> [usize; WORDS] {
        let mut flags = self.arguments_size << ARGUMENTS_SIZE_SHIFT;
        if self.is_signal_trampoline {
            flags |= IS_SIGNAL_TRAMPOLINE;
        }
        let (mut offset, mut slots) = (0, 0);
        if let Some(rules) = &self.rules {
            flags |= HAS_RULES | usize::from(rules.cfa_register);
            (offset, slots) = (rules.cfa_offset, usize::from_le_bytes(rules.slots));
        }
        [self.personality, self.lsda, self.initial_address, flags, offset, slots]
    }

    fn from_words([personality, lsda, initial_address, flags, offset, slots]: [usize; WORDS]) -> Self {
        let rules =
            Rules { cfa_register: flags as u8, cfa_offset: offset, slots: slots.to_le_bytes() };
        Self {
            personality,
            lsda,
            initial_address,
            arguments_size: flags >> ARGUMENTS_SIZE_SHIFT,
            is_signal_trampoline: flags & IS_SIGNAL_TRAMPOLINE != 0,
            rules: (flags & HAS_RULES != 0).then_some(rules),
        }
    }
}

impl Rules {
    /// Returns the rules of the tables, if these are short enough: the CFA is a register and an offset, and
    /// saved registers are in slots below it.
    fn new(tables: &Tables) -> Option<Self> {
        let CfaRule::RegisterAndOffset { register, offset } = *tables.row.cfa() else { return None };
        let mut slots = [0; SLOT];
        for (register, rule) in tables.row.registers() {
            let index = SAVED.iter().position(|saved| saved == register)?;
            let RegisterRule::Offset(offset) = rule else { return None };
            let below = usize::try_from(offset.checked_neg()?).ok()?;
            slots[index] = u8::try_from(below / SLOT).ok().filter(|_| below % SLOT == 0 && below != 0)?;
        }
        // The general-purpose registers, which all contexts have.
        let cfa_register = u8::try_from(register.0).ok().filter(|number| *number < 16)?;
        Some(Self { cfa_register, cfa_offset: offset as usize, slots })
    }

    fn unwind(&self, ctx: &Context) -> Context {
        let cfa = ctx[Register(u16::from(self.cfa_register))].wrapping_add(self.cfa_offset);
        let mut caller = ctx.clone();
        caller[Arch::SP] = cfa;
        caller[Arch::RA] = 0;
        for (register, slot) in SAVED.into_iter().zip(self.slots) {
            if slot != 0 {
                let saved = cfa.wrapping_sub(usize::from(slot) * SLOT) as *const usize;
                // SAFETY: the tables say that the function has saved the register there, and it has not
                // returned yet.
                caller[register] = unsafe { *saved };
            }
        }
        caller
    }
}
