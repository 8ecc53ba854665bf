//! Fuzz target of the file-system device.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use hermit_options::mount::CachePolicy;
use vmm_sys_util::tempdir::TempDir;

use super::{ByteSource, FilesClient};

/// Content of a file that lies next to the mounted folder.
const SECRET: &[u8] = b"secret";

/// A session of FUSE: `data` is a sequence of requests, each an opcode, a node, the size of a body, and the
/// body. They find a folder with a file, a directory, and symbolic links that lead out of it.
///
/// # Panics
///
/// The device fails, a reply is invalid, or a file outside of the folder has changed.
pub fn files(data: &[u8]) {
    let Ok((_folder, mounted, secret)) = make() else { return };
    let is_read_only = data.first().is_some_and(|byte| byte % 2 == 0);
    let Ok(mut client) = FilesClient::new(&mounted, is_read_only, CachePolicy::Auto) else { return };
    client.init();
    let mut source = ByteSource(data);
    while let Some([opcode, node, size]) = source.take() {
        let body: Vec<u8> = source.up_to(size.into()).iter().map(|&byte| letter(byte)).collect();
        // The low numbers are those of the first nodes and handles.
        client.request(opcode.into(), node.into(), &body);
    }
    let content = fs::read(secret).unwrap_or_default();
    assert_eq!(content, SECRET, "a file outside of the folder has changed");
}

/// Bytes from 8 on become characters of names, so that names are likely to be those of the folder.
fn letter(byte: u8) -> u8 {
    if byte < 8 { byte } else { b"fdlu./x\0".get(usize::from(byte % 8)).copied().unwrap_or_default() }
}

/// Makes a folder, the one in it that is mounted, and the file outside.
fn make() -> std::io::Result<(TempDir, PathBuf, PathBuf)> {
    let folder = TempDir::new_with_prefix(std::env::temp_dir().join("uhyve-fuzz-"))?;
    let (mounted, outside) = (folder.as_path().join("mounted"), folder.as_path().join("outside"));
    fs::create_dir_all(mounted.join("d"))?;
    fs::create_dir(&outside)?;
    let secret = outside.join("secret");
    fs::write(&secret, SECRET)?;
    fs::write(mounted.join("f"), b"file")?;
    symlink(&secret, mounted.join("l"))?;
    symlink(&outside, mounted.join("u"))?;
    Ok((folder, mounted, secret))
}
