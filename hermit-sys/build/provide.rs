//! Objects of the components: from the cache, else built.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::build_dir::BuildDir;
use crate::cache::Cache;
use crate::component::Component;
use crate::progress::{Ticker, note};
use crate::toolchain::Toolchain;
use crate::{object, variable};

/// State that the builds of all components share.
#[derive(Debug)]
pub(crate) struct Provider {
    toolchain: Toolchain,
    cache: Cache,
    workspace: PathBuf,
    /// Cargo's folder for the output of this build script.
    out: PathBuf,
}

impl Provider {
    /// Finds the toolchain and its cache.
    pub(crate) fn new(workspace: &Path, out: PathBuf) -> Result<Self, String> {
        let toolchain = Toolchain::detect()?;
        let cache = Cache::open(&toolchain, &variable("TARGET")?);
        Ok(Self { toolchain, cache, workspace: workspace.to_owned(), out })
    }

    /// Returns the root of this workspace.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns the folder that the objects are put into.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// Puts the object of a component into the folder of output; returns its file name.
    pub(crate) fn provide(&self, component: &Component) -> Result<String, String> {
        let file = format!("{}.o", component.package);
        let place = self.out.join(&file);
        let (cache, name, key) = (&self.cache, component.name(), component.key(&self.toolchain)?);
        if cache.restore(&name, &key, &place) {
            return Ok(file);
        }
        // Another process may be building the object, which is then in the cache when this process gets the
        // lock.
        let _lock = cache.lock(&name);
        if cache.restore(&name, &key, &place) {
            return Ok(file);
        }
        self.build(component, &place)?;
        if !cache.is_writable() {
            return Ok(file);
        }
        if let Err(error) = cache.store(&name, &key, &place) {
            note("Warning", &format!("cannot keep {name} for other crates: {error}"));
        }
        Ok(file)
    }

    /// Builds the object of a component at `place`.
    fn build(&self, component: &Component, place: &Path) -> Result<(), String> {
        // Without a cache, each target folder of a program has objects of its own.
        let scope = if self.cache.is_writable() {
            "toolchain"
        } else {
            "target folder, as no folder for Hermit's objects is writable"
        };
        note(
            "Compiling",
            &format!("{} (once for this {scope}; takes about half a minute)", component.name()),
        );
        let begin = Instant::now();
        let ticker = Ticker::start(component.name());
        let libraries = self.toolchain.libraries(&component.target);
        let dir = BuildDir::open(&self.workspace, &self.out, &component.target, &libraries)?;
        let library = component.compile(&dir)?;
        // The present file may be a link to the cache's object, which must not be overwritten.
        let _: Result<(), _> = std::fs::remove_file(place);
        object::link(component, &self.toolchain, &library, place)?;
        drop(ticker);
        note("Finished", &format!("{} in {:.1} s", component.name(), begin.elapsed().as_secs_f64()));
        Ok(())
    }
}
