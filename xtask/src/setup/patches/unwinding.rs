//! The patches that let panics unwind: the unwinder `unwinding`, which std uses for another target.
//!
//! A program with `panic = "abort"` links `panic_abort` instead of `panic_unwind`. Std's code refers to the
//! personality routine and to `_Unwind_Resume` in either case; so both are in the panic runtimes, and what
//! aborts contains no unwinder.

use super::Patch;

#[cfg(test)]
mod frame_cache;

const PANIC_UNWIND: &str = "panic_unwind/src/lib.rs";
const UNWINDER: &str = "src/unwinder/mod.rs";
const FRAME: &str = "src/unwinder/frame.rs";
const PANIC_ABORT: &str = "panic_abort/src/lib.rs";

pub(super) const PATCHES: &[Patch] = &[
    // A quarter shorter, with what they contain of `gimli`, and only panics take longer.
    Patch {
        file: "Cargo.toml",
        old: "rustc-demangle.opt-level = \"s\"\n",
        new: "rustc-demangle.opt-level = \"s\"\npanic_unwind.opt-level = \"s\"\nunwinding.opt-level = \"s\"\n",
    },
    Patch {
        file: "unwind/Cargo.toml",
        old: "[target.'cfg(target_os = \"xous\")'.dependencies]",
        new: "[target.'cfg(any(target_os = \"xous\", target_os = \"hermit\"))'.dependencies]",
    },
    Patch {
        file: "unwind/src/lib.rs",
        old: "    target_os = \"xous\" => {
        mod unwinding;",
        new: "    any(target_os = \"xous\", target_os = \"hermit\") => {
        mod unwinding;",
    },
    Patch {
        file: PANIC_UNWIND,
        old: "#![feature(core_intrinsics)]\n",
        new: "#![feature(core_intrinsics)]\n#![cfg_attr(target_os = \"hermit\", feature(lang_items))]\n",
    },
    Patch {
        file: PANIC_UNWIND,
        old: "cfg_select! {\n    all(target_os = \"emscripten\"",
        new: "// The personality routine, which std has for other targets: only what unwinds contains it.
#[cfg(target_os = \"hermit\")]
#[path = \"../../std/src/sys/personality\"]
mod personality {
    mod dwarf;
    mod gcc;
}

#[cfg(target_os = \"hermit\")]
mod ffi {
    pub(crate) use core::ffi::c_int;
}

cfg_select! {\n    all(target_os = \"emscripten\"",
    },
    Patch {
        file: "panic_unwind/src/hermit.rs",
        old: "//! Unwinding for *hermit* target.
//!
//! Right now we don't support this, so this is just stubs.

use alloc::boxed::Box;
use core::any::Any;

unsafe extern \"Rust\" {
    // This is defined in std::rt
    #[rustc_std_internal_symbol]
    safe fn __rust_abort() -> !;
}

pub(crate) unsafe fn cleanup(_ptr: *mut u8) -> Box<dyn Any + Send> {
    __rust_abort()
}

pub(crate) unsafe fn panic(_data: Box<dyn Any + Send>) -> u32 {
    __rust_abort()
}
",
        new: "//! Unwinding for *hermit* target: as elsewhere, with the image's own tables.

use alloc::boxed::Box;
use core::any::Any;

use unwind::{EhFrameFinder, FrameInfo, FrameInfoKind};

#[path = \"gcc.rs\"]
mod gcc;

pub(crate) use gcc::cleanup;
// For `gcc`, whose parent this module is.
use super::{__rust_drop_panic, __rust_foreign_exception};

pub(crate) unsafe fn panic(data: Box<dyn Any + Send>) -> u32 {
    // Fails if it was set before, by the first panic.
    let _ = unwind::set_custom_eh_frame_finder(&Image);
    // SAFETY: the caller is `__rust_start_panic`, as it is of `gcc::panic` elsewhere: it owns the payload,
    // and the frames above it are Rust's, whose tables the finder gives. A frame without a table ends the
    // search with an error, which the caller gets.
    unsafe { gcc::panic(data) }
}

/// The image, which the linker gave a header of its unwind tables.
struct Image;

/// `e_phoff` and `e_phnum` of an ELF header, and `p_type`, `p_vaddr` and size of a program header.
const HEADERS: usize = 0x20;
const COUNT: usize = 0x38;
const ADDRESS: usize = 0x10;
const SIZE: usize = 0x38;

/// `p_type` of the header of the unwind tables.
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

// SAFETY: the header is that of the tables of the image, which contains all code.
unsafe impl EhFrameFinder for Image {
    fn find(&self, _: usize) -> Option<FrameInfo> {
        unsafe extern \"C\" {
            // Defined by the linker.
            #[link_name = \"__ehdr_start\"]
            static ELF_HEADER: u8;
        }
        let image = &raw const ELF_HEADER;
        // SAFETY: the linker puts the ELF header and the program headers into the first segment, which is
        // loaded as a whole.
        let (headers, count) = unsafe {
            let headers = image.add(HEADERS).cast::<u64>().read() as usize;
            (image.add(headers), image.add(COUNT).cast::<u16>().read())
        };
        let mut headers = (0..usize::from(count)).map(|index| headers.wrapping_add(index * SIZE));
        // SAFETY: `header` is one of the program headers, which are in the first segment; their type is
        // aligned to 4 bytes.
        let header = headers.find(|header| unsafe { header.cast::<u32>().read() } == PT_GNU_EH_FRAME)?;
        // SAFETY: `header` is one of the program headers, too; its address at this offset is aligned to 8
        // bytes.
        let address = unsafe { header.add(ADDRESS).cast::<u64>().read() } as usize;
        // The image begins at the virtual address 0, from which it is relocated.
        let kind = FrameInfoKind::EhFrameHdr(image.wrapping_add(address) as usize);
        Some(FrameInfo { text_base: None, kind })
    }
}
",
    },
    // The runtime tells libtest what a panic does.
    Patch {
        file: PANIC_UNWIND,
        old: "// Entry point for raising an exception, just delegates",
        new: "/// Whether panics of this program can be caught.
#[cfg(target_os = \"hermit\")]
#[rustc_std_internal_symbol]
pub fn __rust_panic_unwinds() -> bool {
    true
}

// Entry point for raising an exception, just delegates",
    },
    Patch {
        file: PANIC_ABORT,
        old: "#![feature(rustc_attrs)]\n",
        new: "#![feature(rustc_attrs)]\n#![cfg_attr(target_os = \"hermit\", feature(linkage))]\n",
    },
    Patch {
        file: PANIC_ABORT,
        old: "use core::any::Any;
",
        new: "/// Whether panics of this program can be caught.
#[cfg(target_os = \"hermit\")]
#[rustc_std_internal_symbol]
pub fn __rust_panic_unwinds() -> bool {
    false
}

use core::any::Any;
",
    },
    Patch {
        file: PANIC_ABORT,
        old: "pub mod personalities {
",
        new: "pub mod personalities {
    // Std's code refers to these, but it is never unwound. The unwinder, which is linked to std, also defines
    // the second, as a weak symbol; with link-time optimisation as a strong one.
    #[cfg(target_os = \"hermit\")]
    #[unsafe(no_mangle)]
    extern \"C\" fn rust_eh_personality() {}

    #[cfg(target_os = \"hermit\")]
    #[linkage = \"weak\"]
    #[unsafe(no_mangle)]
    extern \"C\" fn _Unwind_Resume() {}

",
    },
];

/// The patches to the crate `unwinding`, in its folder.
pub(super) const CRATE_PATCHES: &[Patch] = &[
    // Frames are found in a cache; the published code reads the tables of each frame, in both phases of each
    // panic.
    Patch {
        file: UNWINDER,
        old: "mod frame;
",
        new: concat!(
            "mod frame;
mod described_frame {
",
            include_str!("unwinding/described_frame.rs"),
            "}
mod frame_cache {
",
            include_str!("unwinding/frame_cache.rs"),
            "}
"
        ),
    },
    Patch { file: UNWINDER, old: "use frame::Frame;\n", new: "use described_frame::Frame;\n" },
    Patch {
        file: FRAME,
        old: "    row: UnwindTableRow<usize, StoreOnStack>,
",
        new: "    pub(super) row: UnwindTableRow<usize, StoreOnStack>,
",
    },
    Patch { file: FRAME, old: "struct StoreOnStack;\n", new: "pub(super) struct StoreOnStack;\n" },
    // The context lies in memory below the new stack pointer. A signal handler there, or here the state of a
    // thread that is preempted, overwrites it; so the stack pointer must change after the last register was
    // read. See SysV ABI for AMD64, 3.2.2 (red zone).
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* Restore stack */
            mov rsp, [rdi + 0x38]

",
        new: "            /*
            * Push the return address and RDI on the new stack. The context is below them, and must not be
            * below the stack pointer while it is used: what interrupts the thread may use the memory there.
            */
            mov rax, [rdi + 0x38]
            sub rax, 16
            mov rcx, [rdi + 0x80]
            mov [rax + 8], rcx
            mov rcx, [rdi + 0x28]
            mov [rax], rcx
            push rax

",
    },
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* Restore return address */
            mov rax, [rdi + 0x80]
            push rax

",
        new: "",
    },
    Patch {
        file: "src/unwinder/arch/x86_64.rs",
        old: "            /* RDI restored last */
            mov rdi, [rdi + 0x28]

            ret
",
        new: "            /* Restore stack, then RDI */
            pop rsp
            pop rdi

            ret
",
    },
];

#[cfg(test)]
mod tests {
    use super::frame_cache::{Cache, WORDS};
    use std::thread;

    /// Words of which each tells the address.
    fn words(address: usize) -> [usize; WORDS] {
        std::array::from_fn(|index| address * WORDS + index)
    }

    #[test]
    fn found_words_are_those_of_the_last_insertion() {
        let cache = Cache::new();
        assert_eq!((cache.find(0), cache.find(1)), (None, None));
        cache.insert(1, words(1));
        assert_eq!((cache.find(0), cache.find(1)), (None, Some(words(1))));
        assert_eq!(cache.find(2), None);
    }

    #[test]
    fn full_cache_replaces_entries() {
        let cache = Cache::new();
        let addresses = (0..10_000).map(|number| number * 16 + 1);
        for address in addresses.clone() {
            cache.insert(address, words(address));
            assert_eq!(cache.find(address), Some(words(address)));
        }
        let found: Vec<_> = addresses.filter_map(|address| Some((address, cache.find(address)?))).collect();
        assert_eq!(found.len(), 128);
        assert!(found.iter().all(|(address, found)| *found == words(*address)), "{found:?}");
    }

    /// Inserts addresses that replace each other's, and looks for them and their neighbors.
    fn insert_and_find(cache: &Cache, first: usize) {
        for round in 0..20_000 {
            let address = first + round % 4096;
            cache.insert(address, words(address));
            for near in address.saturating_sub(2)..address + 2 {
                assert!(cache.find(near).is_none_or(|found| found == words(near)), "{near}");
            }
        }
    }

    #[test]
    fn threads_find_whole_entries_or_none() {
        let cache = Cache::new();
        thread::scope(|scope| {
            for first in 0..4 {
                let cache = &cache;
                scope.spawn(move || insert_and_find(cache, first));
            }
        });
    }
}
