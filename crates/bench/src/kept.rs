//! Data of a new server, made once and copied for the next one: making them takes seconds of CPU, and a run of all
//! tests starts hundreds of servers.
//!
//! Only where the environment names a folder for them ([`FOLDER`]), as `make test` does for its own run. Does not know
//! what a server makes. Invariant: a copy is whole, also while others make the same.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The variable that names the folder. The user that sets it removes the folder when a server's version changes.
pub const FOLDER: &str = "FLIFO_KEPT_DATA";

/// Has `make` fill `data`, which does not exist yet, unless this was done before under the same name: then it is a
/// copy.
pub fn fill(name: &str, data: &Path, make: impl FnOnce() -> Result<()>) -> Result<()> {
    fill_from(std::env::var_os(FOLDER), name, data, make)
}

fn fill_from(
    folder: Option<OsString>,
    name: &str,
    data: &Path,
    make: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(folder) = folder else { return make() };
    let kept = Path::new(&folder).join(name);
    if kept.exists() {
        return copy(&kept, data);
    }
    make()?;
    let unready = tempfile::tempdir_in(&folder)
        .with_context(|| format!("{FOLDER} is no folder to write to: {}", folder.display()))?;
    let whole = unready.path().join("data");
    copy(data, &whole)?;
    // If another one was as quick, its data stay.
    let _ = fs::rename(whole, kept);
    Ok(())
}

/// Empty parts of files stay empty: a server's log is a hundred megabytes of them.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command.args(["--archive", "--sparse=always", "--no-target-directory"]).arg(from).arg(to);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = sys::child::spawn(command).context("cannot start cp")?.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot copy a server's data: {}", complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn what_was_made_once_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        let folder = Some(kept.clone().into_os_string());
        let [one, two, three] = ["one", "two", "three"].map(|name| place.path().join(name));
        let make = |data: &Path| {
            fs::create_dir(data)?;
            Ok(fs::write(data.join("table"), "rows")?)
        };
        assert!(fill_from(folder.clone(), "a", &one, || bail!("no disk")).is_err());
        fill_from(folder.clone(), "a", &one, || make(&one)).unwrap();
        fs::write(one.join("table"), "changed").unwrap();
        fill_from(folder.clone(), "a", &two, || bail!("it is made anew")).unwrap();
        assert_eq!(fs::read_to_string(two.join("table")).unwrap(), "rows");
        assert!(fill_from(folder, "b", &three, || bail!("of another name")).is_err());
        assert_eq!(fs::read_dir(kept).unwrap().count(), 1, "nothing unready is left");
    }

    #[test]
    fn nothing_is_kept_unasked() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        fill_from(None, "a", &data, || Ok(fs::create_dir(&data)?)).unwrap();
        assert!(data.exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
