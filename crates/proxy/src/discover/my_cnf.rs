//! Where the server's own configuration files say that it listens.
//!
//! Follows `!include` and `!includedir` as the server does, to a bounded depth and number of files.
//! What cannot be read is passed over: these are hints, and a probe has the last word.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use backend::address::DEFAULT_PORT;

use super::{LOOPBACK, Reason, under};

/// What is configured, the server's own before what its clients are told.
#[derive(Debug, Default)]
pub(super) struct Configured {
    pub(super) sockets: Vec<(PathBuf, Reason)>,
    pub(super) ports: Vec<(String, u16, Reason)>,
}

pub(super) fn read(root: &Path) -> Configured {
    let mut reader = Reader { root, settings: BTreeMap::new(), files_left: FILES_MAX };
    for file in FILES {
        reader.read(Path::new(file), 0);
    }
    let mut configured = Configured::default();
    for settings in reader.settings.into_values() {
        settings.tell(&mut configured);
    }
    configured
}

/// Whose settings a group has; in the order of their use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Server,
    /// One of several servers, by its group: `mysqld1`.
    Instance(String),
    Client,
}

impl Owner {
    fn of(group: &str) -> Option<Self> {
        let family = ["mysqld", "mariadbd", "mariadb", "server"].into_iter();
        for name in family {
            match group.strip_prefix(name) {
                // Groups of one version are read by that version: [mariadb-10.11].
                Some("") => return Some(Self::Server),
                Some(rest) if rest.starts_with('-') => return Some(Self::Server),
                Some(rest) if rest.starts_with(|it: char| it.is_ascii_digit() || it == '@') => {
                    return Some(Self::Instance(group.to_owned()));
                }
                _ => {}
            }
        }
        match group {
            "client-server" => Some(Self::Server),
            "client" | "client-mariadb" | "mysql" => Some(Self::Client),
            _ => None,
        }
    }
}

/// A setting's value, and where it was read.
type SessionVariable = (String, Reason);

/// What one server or its clients are told; a later value replaces an earlier one.
#[derive(Debug, Default)]
struct SessionVariables {
    socket: Option<SessionVariable>,
    port: Option<SessionVariable>,
    bind_address: Option<SessionVariable>,
    datadir: Option<SessionVariable>,
    no_networking: bool,
}

impl SessionVariables {
    fn set(&mut self, key: &str, setting: SessionVariable) {
        match key {
            "socket" => self.socket = Some(setting),
            "port" => self.port = Some(setting),
            "bind_address" => self.bind_address = Some(setting),
            "datadir" => self.datadir = Some(setting),
            "skip_networking" => {
                let off = ["0", "off", "false"].contains(&setting.0.to_lowercase().as_str());
                self.no_networking = !off;
            }
            _ => {}
        }
    }

    fn tell(self, configured: &mut Configured) {
        if let Some((socket, reason)) = self.socket {
            let socket = match self.datadir {
                Some((datadir, _)) => Path::new(&datadir).join(socket),
                None => PathBuf::from(socket),
            };
            if socket.is_absolute() {
                configured.sockets.push((socket, reason));
            }
        }
        if self.no_networking {
            return;
        }
        // Only an address that is not the default is worth a candidate of its own.
        let host = self.bind_address.as_ref().and_then(|(host, _)| host.parse::<IpAddr>().ok());
        let host = host.filter(|host| !host.is_unspecified()).map(|host| host.to_string());
        let is_default = host.as_deref().is_none_or(|host| host == LOOPBACK);
        let reason = match (self.port, self.bind_address) {
            (Some((port, reason)), _) => match port.parse() {
                Ok(port) if port != 0 => Some((port, reason)),
                _ => None,
            },
            (None, Some((_, reason))) if !is_default => Some((DEFAULT_PORT, reason)),
            _ => None,
        };
        if let Some((port, reason)) = reason {
            let host = host.unwrap_or_else(|| LOOPBACK.to_owned());
            configured.ports.push((host, port, reason));
        }
    }
}

struct Reader<'a> {
    root: &'a Path,
    settings: BTreeMap<Owner, SessionVariables>,
    files_left: usize,
}

impl Reader<'_> {
    fn read(&mut self, path: &Path, depth: usize) {
        if DEPTH_MAX < depth || self.files_left == 0 {
            return;
        }
        self.files_left -= 1;
        let Some(text) = read_bounded(&under(self.root, path)) else { return };
        let mut group = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(folder) = directive(line, "!includedir") {
                self.read_folder(Path::new(folder), depth + 1);
            } else if let Some(file) = directive(line, "!include") {
                self.read(Path::new(file), depth + 1);
            } else if let Some(rest) = line.strip_prefix('[') {
                rest.split(']').next().unwrap_or_default().trim().clone_into(&mut group);
            } else if !line.starts_with(['#', ';', '!'])
                && let Some(owner) = Owner::of(&group)
            {
                let (option, value) = line.split_once('=').unwrap_or((line, ""));
                let option = option.trim();
                let key = option.to_lowercase().replace('-', "_");
                let reason = Reason::Configured {
                    option: option.to_owned(),
                    group: group.clone(),
                    file: path.to_owned(),
                    line: index + 1,
                };
                let settings = self.settings.entry(owner).or_default();
                settings.set(&key, (plain(value), reason));
            }
        }
    }

    fn read_folder(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(under(self.root, folder)) else { return };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names
            .filter(|name| Path::new(name).extension().is_some_and(|it| it == "cnf"))
            .collect();
        names.sort();
        for name in names {
            self.read(&folder.join(name), depth);
        }
    }
}

fn directive<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(name)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// A value without its quotes, or without the comment behind it.
fn plain(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inside, _)) = value.strip_prefix(quote).and_then(|it| it.split_once(quote)) {
            return inside.to_owned();
        }
    }
    value.split(" #").next().unwrap_or_default().trim().to_owned()
}

fn read_bounded(path: &Path) -> Option<String> {
    // A pipe in a file's place would be waited for.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where servers look first, in their order.
const FILES: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"];

const FILES_MAX: usize = 100;
const FILE_MAX: u64 = 1 << 20;
/// The server's own bound.
const DEPTH_MAX: usize = 10;
