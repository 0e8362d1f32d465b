//! A certificate for one run, with which the server and Flifo prove themselves alike.
//!
//! Each suite decides whether to trust it. It is its own authority, and good for 127.0.0.1 only.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Makes one in a folder that no other user can read.
    pub(crate) fn make(folder: &Path) -> Result<Self> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made =
            rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
        let this = Self { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
        for (path, text) in
            [(&this.cert, made.cert.pem()), (&this.key, made.signing_key.serialize_pem())]
        {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(this)
    }
}
