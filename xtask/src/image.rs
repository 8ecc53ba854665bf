//! `cargo xtask image`: a boot image, which is the loader and an executable in one file
//! ([`hermit_interface::boot_image`]).
//!
//! A multiboot boot loader copies the file, beginning with the multiboot header, to the address in that
//! header. A PVH boot loader loads the ELF segments. Both must place the image at the same address. For that,
//! the difference between file offset and physical address is the same in the loader's part and in the
//! image's part of the file.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hermit_interface::address::PAGE_SIZE;
use hermit_interface::boot_image::{EXECUTABLE_ADDRESS, LoaderRecord, MAGIC};
use hermit_interface::exit::{NOT_STARTED, QUIT_PORT, STATUS_PORT};
use hermit_interface::port_forward::{PortForward, Protocol};
use hermit_machines::debug_info::without_debug_info;
use hermit_machines::network;
use hermit_machines::qemu::{PCI_BALLOON, debug_console};
use hermit_options::open::Opener;
use hermit_options::root::Initramfs;
use hermit_toolchain::quote::shell_word;
use hermit_toolchain::setup;
use hermit_toolchain::usage::usage_error;
use object::elf::{FileHeader64, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, U32, U64, pod};

use crate::program::{self, Found, Program};

/// Options of `image`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    program: Program,
    /// The files that the program finds at /: a folder, or a tar archive
    #[arg(long, value_name = "DIR|FILE.tar")]
    root: Option<PathBuf>,
    /// The boot image to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Forward a port of the host in the printed command of QEMU, such as 8080:80; may be given several times
    #[arg(
        short = 'p',
        long = "publish",
        value_name = "[ADDRESS:]HOST:GUEST[/udp]",
        default_value = "8080:8080"
    )]
    ports: Vec<PortForward>,
}

/// Maximum size of the initramfs in bytes: a machine has no larger contiguous memory below 4 GiB.
const MAX_INITRAMFS_SIZE: u64 = 2 << 30;

/// Memory of a machine in MiB, without the memory for the initramfs.
const MEMORY: usize = 128;

/// Writes the file that `arguments` describe.
pub fn main(arguments: &Arguments) -> Result<()> {
    let program = arguments.program.find()?;
    if let Found::Image(file) = &program {
        payload(file)?;
    }
    let network = qemu_network(&arguments.ports).map_err(usage_error)?;
    if let Some(root) = &arguments.root {
        Initramfs::check(&Opener::default(), root, MAX_INITRAMFS_SIZE)
            .map_err(|error| usage_error(error.to_string()))?;
    }
    setup::ensure()?;
    let image = program.build(false)?;
    let payload = payload(&image)?;
    let loader = setup::loader()?;
    let loader = fs::read(&loader).with_context(|| format!("cannot read {}", loader.display()))?;
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => PathBuf::from(program::name_of(&image)).with_extension("boot"),
    };
    let initramfs = match &arguments.root {
        Some(root) => Initramfs::load(&Opener::default(), root, MAX_INITRAMFS_SIZE)?,
        None => Initramfs { archive: Vec::new(), left_out: Vec::new() },
    };
    initramfs.notes().for_each(|note| eprintln!("{note}"));
    let file = fuse(&loader, &payload, &initramfs.archive)?;
    write(&output, &file)?;
    println!("{}: {} bytes; boot it with\n", output.display(), file.len());
    println!("    cargo xtask run {} -- ARGUMENTS\n", shell_word(&output));
    println!(
        "or with QEMU alone; its own exit code is 1 after each exit of the guest, whose code is in a file:\n"
    );
    println!("{}", qemu_command(&output, MEMORY + (initramfs.archive.len() >> 20), &network));
    Ok(())
}

/// Returns the options of QEMU's own user network for the printed command, which also works on hosts without
/// uhyve. In this network, the guest can connect to any host, as a program of the host can.
fn qemu_network(ports: &[PortForward]) -> Result<[String; 4], String> {
    network::check(None, ports)?;
    if let Some(port) = ports.iter().find(|port| port.address.as_ref().is_some_and(IpAddr::is_ipv6)) {
        return Err(format!("-p {port}: QEMU alone forwards ports at IPv4 addresses only"));
    }
    let each = ports.iter().flat_map(|port| port.each());
    let forwards: String = each.map(|port| format!(",{}", hostfwd(port))).collect();
    Ok([
        "-netdev".to_owned(),
        format!("user,id=net{forwards}"),
        "-device".to_owned(),
        "virtio-net-pci,disable-legacy=on,netdev=net".to_owned(),
    ])
}

/// Returns a forward of one port as the `hostfwd=` option of QEMU's user network.
fn hostfwd(forward: PortForward) -> String {
    let protocol = if forward.protocol == Protocol::Udp { "udp" } else { "tcp" };
    let address = forward.address.map(|address| address.to_string()).unwrap_or_default();
    format!("hostfwd={protocol}:{address}:{}-:{}", forward.host, forward.guest)
}

/// Reads an executable without debugging information. The whole file is in the guest's memory while it boots;
/// debuggers read the original.
fn payload(image: &Path) -> Result<Vec<u8>> {
    match program::check(image)? {
        file if file.is_boot_image => {
            Err(usage_error(format!("{} is a boot image already", image.display())))
        }
        file => Ok(without_debug_info(&file.executable).unwrap_or(file.executable)),
    }
}

/// Returns commands for a shell that boot the image with QEMU alone, on a machine with `memory` MiB, and end
/// with the guest's exit code.
fn qemu_command(image: &Path, memory: usize, network: &[String]) -> String {
    let network = network.join(" ");
    let status = shell_word(image.with_extension("status"));
    let image = shell_word(image);
    // Commas separate the parts of this option; a doubled comma stands for a comma in the path.
    let file = status.replace(',', ",,");
    let device = debug_console(STATUS_PORT, "status");
    format!(
        "    qemu-system-x86_64 -cpu max -m {memory}M -nographic -no-reboot -kernel {image} \\
        -chardev file,id=status,path={file} \\
        -device {device} \\
        -device isa-debug-exit,iobase={QUIT_PORT:#x},iosize=1 \\
        -device {PCI_BALLOON} \\
        {network} \\
        -append '-- ARGUMENTS'
    code=$(od -An -tu1 {status}); (exit ${{code:-{NOT_STARTED}}})"
    )
}

/// Writes the file atomically, by renaming a temporary file.
fn write(output: &Path, bytes: &[u8]) -> Result<()> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let context = || format!("cannot write {}", output.display());
    // Temporary files are private by default. But another user may boot this image, so it gets the usual mode
    // of a new file (0666 without the bits of the umask).
    let mode = fs::Permissions::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(mode).tempfile_in(folder);
    let mut file = file.with_context(context)?;
    std::io::Write::write_all(&mut file, bytes).with_context(context)?;
    file.persist(output).with_context(context)?;
    Ok(())
}

/// Returns the loader's file with the image appended. `initramfs` follows, unless it is empty.
pub fn fuse(loader: &[u8], payload: &[u8], initramfs: &[u8]) -> Result<Vec<u8>> {
    let header = FileHeader64::<LittleEndian>::parse(loader).context("the loader is no ELF file")?;
    let endian = LittleEndian;
    let segments = header.program_headers(endian, loader).context("the loader has no segments")?;
    let load = |segment: &&ProgramHeader64<LittleEndian>| segment.p_type(endian) == PT_LOAD;
    let [loaded] = segments.iter().filter(load).collect::<Vec<_>>()[..] else {
        bail!("the loader does not have exactly one segment");
    };
    let (offset, address) = (loaded.p_offset(endian), loaded.p_paddr(endian));
    ensure!(
        address + loaded.p_memsz(endian) <= EXECUTABLE_ADDRESS,
        "the loader is too large for an image behind it"
    );

    let mut file = loader[..usize::try_from(offset + loaded.p_filesz(endian))?].to_vec();
    file.resize(usize::try_from(offset + EXECUTABLE_ADDRESS - address)?, 0);
    let mut append = |part: &[u8]| {
        file.resize(file.len().next_multiple_of(usize::try_from(PAGE_SIZE)?), 0);
        let part_offset = file.len() as u64;
        file.extend_from_slice(part);
        let segment = data_segment(loaded, part_offset, part_offset - offset + address, part.len() as u64);
        anyhow::Ok(segment)
    };
    let image = append(payload)?;
    let initramfs = if initramfs.is_empty() { None } else { Some(append(initramfs)?) };
    let place = |segment: &ProgramHeader64<LittleEndian>| [segment.p_paddr(endian), segment.p_filesz(endian)];
    let initramfs_place = initramfs.as_ref().map(place).unwrap_or_default();
    record(&mut file, LoaderRecord { magic: MAGIC, executable: place(&image), initramfs: initramfs_place })?;
    load_whole_file(&mut file)?;

    let number = |number| U64::new(endian, number);
    let note = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_NOTE)
        .context("the loader has no note")?;
    let segments: Vec<_> = [*loaded, image].into_iter().chain(initramfs).chain([*note]).collect();

    let mut header = *header;
    header.e_phoff = number(size_of_val(&header) as u64);
    header.e_phnum.set(endian, u16::try_from(segments.len())?);
    // The fused file has no section headers.
    header.e_shoff = number(0);
    header.e_shnum.set(endian, 0);
    header.e_shstrndx.set(endian, 0);
    let headers = [pod::bytes_of(&header), pod::bytes_of_slice(&segments[..])].concat();
    ensure!(headers.len() as u64 <= offset, "the loader leaves no room for headers");
    file[..headers.len()].copy_from_slice(&headers);
    Ok(file)
}

/// Returns the program header of a read-only segment. The other fields are copied from a header of the
/// loader.
fn data_segment(
    loader: &ProgramHeader64<LittleEndian>,
    offset: u64,
    address: u64,
    size: u64,
) -> ProgramHeader64<LittleEndian> {
    let number = |number| U64::new(LittleEndian, number);
    let mut segment = *loader;
    segment.p_offset = number(offset);
    (segment.p_vaddr, segment.p_paddr) = (number(address), number(address));
    (segment.p_filesz, segment.p_memsz) = (number(size), number(size));
    segment.p_flags = U32::new(LittleEndian, object::elf::PF_R);
    segment
}

/// Magic number of the multiboot header.
pub const MULTIBOOT_MAGIC: u32 = 0x1bad_b002;

/// Sets `load_end_addr` and `bss_end_addr` of the multiboot header to 0, so that a boot loader copies the
/// whole file.
fn load_whole_file(file: &mut [u8]) -> Result<()> {
    let magic = MULTIBOOT_MAGIC.to_le_bytes();
    let header =
        file.windows(4).position(|bytes| bytes == magic).context("the loader has no multiboot header")?;
    file[header + 20..header + 28].fill(0);
    Ok(())
}

/// Fills in the loader's record.
fn record(file: &mut [u8], record: LoaderRecord) -> Result<()> {
    let offsets: Vec<_> = file.windows(8).enumerate().filter(|(_, bytes)| *bytes == MAGIC).collect();
    let [(offset, _)] = offsets[..] else { bail!("the loader has no record for an image") };
    file[offset..offset + size_of_val(&record)].copy_from_slice(record.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{qemu_command, qemu_network, write};
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn boot_image_has_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        File::create(folder.path().join("new")).unwrap();
        write(&folder.path().join("image"), b"bytes").unwrap();
        assert_eq!(mode("image"), mode("new"));
        assert_eq!(fs::read(folder.path().join("image")).unwrap(), b"bytes");
    }

    #[test]
    fn command_of_qemu_forwards_the_ports() {
        let network = |ports: &[&str]| {
            let ports: Vec<_> = ports.iter().map(|port| port.parse().unwrap()).collect();
            qemu_network(&ports)
        };
        let forwards = network(&["8080-8081:80-81", "127.0.0.1:53:5353/udp"]).unwrap();
        let expected = "hostfwd=tcp::8080-:80,hostfwd=tcp::8081-:81,hostfwd=udp:127.0.0.1:53-:5353";
        assert_eq!(forwards[1], format!("user,id=net,{expected}"));
        for (ports, text) in
            [(&["[::1]:8080:80"][..], "IPv4 addresses only"), (&["80:80", "80:81"], "given twice")]
        {
            assert!(network(ports).unwrap_err().contains(text), "{ports:?}");
        }
        let network = network(&["7379:7379"]).unwrap();
        let command = qemu_command("kv image".as_ref(), 128, &network);
        assert!(command.contains(" -netdev user,id=net,hostfwd=tcp::7379-:7379 "), "{command}");
        assert!(command.contains("-kernel 'kv image'"), "{command}");
        assert!(command.contains("-device virtio-balloon-pci,free-page-reporting=on,"), "{command}");
    }
}
