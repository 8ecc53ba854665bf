//! Device configuration of a file system device (virtio 1.2, section 5.11.4).

use hermit_fuse::TAG_SIZE;

use crate::device::{Device, InitError};
use crate::transport::Transport;

/// Name of the file system: padded with zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag([u8; TAG_SIZE]);

impl Tag {
    /// The tag without padding.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Reads the tag.
pub(super) fn tag<T: Transport>(device: &Device<T>) -> Result<Tag, InitError> {
    device.config(|config| {
        let mut tag = [0; TAG_SIZE];
        for (offset, byte) in tag.iter_mut().enumerate() {
            *byte = config.read_u8(offset)?;
        }
        Some(Tag(tag))
    })
}
