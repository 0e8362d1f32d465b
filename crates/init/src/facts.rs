//! What there is on the machine and at the server, before anything is done.

use std::path::Path;

use proxy::{Address, discover};

use crate::files::PACKAGED_CONFIG;
use crate::server::Administrator;
use crate::{InitError, Layout, NAME, Wishes};

/// What a set-up goes by.
#[derive(Clone, Debug)]
pub struct Facts {
    pub server: Address,
    /// What it says of itself: "MariaDB 10.11.14".
    pub brand: String,
    pub is_mariadb: bool,
    /// This process may make accounts at the server, without a password.
    pub administers: bool,
    /// What is written there must not stand in its binary log.
    pub follows: Follows,
    /// Users of other machines for whom nothing vouches for a certificate, with their methods: the first of them.
    /// `None`: not known.
    pub unvouched: Option<String>,
    pub is_root: bool,
    /// systemd is what starts programs here.
    pub has_systemd: bool,
    pub has_system_user: bool,
    pub package: Package,
    /// The program that is to be started.
    pub program: std::path::PathBuf,
}

/// Whether the server takes its data from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follows {
    Nothing,
    /// The host of the server that it copies.
    Primary(String),
    /// It is read-only, as a replica is whose replication was taken away for a while.
    Unknown,
    /// This process may not ask it.
    Unasked,
}

/// What Flifo's package has installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    None,
    /// A unit, and a configuration that is as it was installed.
    Installed,
}

/// It is there while systemd runs.
pub(crate) const SYSTEMD: &str = "/run/systemd/system";

/// Looks, and changes nothing.
pub fn look(wishes: &Wishes) -> Result<Facts, InitError> {
    let layout = &wishes.layout;
    let package = package(layout);
    for path in [layout.journal(), layout.config(), layout.password()] {
        let is_packaged = package == Package::Installed && path == layout.config();
        if path.exists() && !is_packaged {
            return Err(InitError::Exists(path));
        }
    }
    let (server, brand) = find(wishes.server.as_ref())?;
    let mut administrator = Administrator::log_in(&server).ok();
    if let (Some(administrator), false) = (&mut administrator, wishes.has_account)
        && administrator.has_account(NAME).unwrap_or(false)
    {
        return Err(InitError::AccountExists);
    }
    let follows = match &mut administrator {
        None => Follows::Unasked,
        Some(administrator) => match administrator.follows() {
            Follows::Nothing if administrator.is_read_only() => Follows::Unknown,
            follows => follows,
        },
    };
    let is_mariadb = brand.contains("MariaDB");
    let unvouched = administrator.as_mut().filter(|_| is_mariadb);
    let unvouched = unvouched.and_then(Administrator::unvouched);
    let program = std::env::current_exe().map_err(|error| InitError::Step {
        what: "find this program's own file".to_owned(),
        why: error.to_string(),
    })?;
    Ok(Facts {
        is_mariadb,
        follows,
        unvouched,
        administers: administrator.is_some_and(|mut it| it.makes_accounts()),
        is_root: sys::process::is_root(),
        has_systemd: Path::new(SYSTEMD).is_dir(),
        has_system_user: sys::process::numbers_of(NAME).is_some(),
        package,
        server,
        brand,
        program,
    })
}

fn package(layout: &Layout) -> Package {
    let has_unit = layout.unit.is_some() && UNITS.iter().any(|path| Path::new(path).exists());
    let config = std::fs::read_to_string(layout.config()).unwrap_or_default();
    match has_unit && config == PACKAGED_CONFIG {
        true => Package::Installed,
        false => Package::None,
    }
}

/// Where the package's unit is, as a machine with one folder of programs and one with two tell it.
const UNITS: [&str; 2] =
    ["/usr/lib/systemd/system/flifo.service", "/lib/systemd/system/flifo.service"];

fn find(wished: Option<&Address>) -> Result<(Address, String), InitError> {
    if let Some(address) = wished {
        let brand = discover::greeting(address);
        let brand =
            brand.map_err(|why| InitError::NoServer(format!("no server at {address}: {why}")))?;
        return Ok((address.clone(), brand));
    }
    let found = discover::find(Path::new("/"), &[], discover::greeting);
    match found.server() {
        Some(server) => Ok((server.address.clone(), server.answer.clone().unwrap_or_default())),
        None => Err(InitError::NoServer(found.to_string())),
    }
}
