//! The supervisor that has started this process, as systemd is one: the sockets that it passes, and what it is told.
//!
//! Owns the protocol of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3): variables of the environment, and
//! lines of text to a Unix socket. What is told, and when, is the caller's. Without a supervisor nothing is passed and
//! nothing is told.

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, io};

use rustix::time::{ClockId, clock_gettime};

/// What the environment says of a supervisor is no such protocol.
#[derive(Debug, thiserror::Error)]
#[error("{variable}={value:?}: {why}; unset it, or mend what starts this program")]
pub struct SupervisorError {
    variable: &'static str,
    value: String,
    why: String,
}

/// The supervisor, if there is one.
#[derive(Debug, Default)]
pub struct Supervisor {
    tells: Option<(UnixDatagram, SocketAddr)>,
    /// It ends a process that tells nothing for so long.
    watchdog: Option<Duration>,
    sockets: Vec<(String, OwnedFd)>,
}

/// What a supervisor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// It serves; also behind a reload. With a line for people.
    Ready(&'a str),
    /// It reads its configuration again.
    Reloading,
    /// It ends, and may need so long.
    Stopping(Duration),
    /// It is alive.
    Beat,
    /// The process with this number is the service from now on.
    Successor(u32),
    /// A line for people.
    Status(&'a str),
}

impl Supervisor {
    /// That of this process. To be called first of all, before the process opens anything, and once: later calls are told
    /// of no sockets.
    pub fn of_process() -> Result<Self, SupervisorError> {
        let tells = match env::var_os("NOTIFY_SOCKET") {
            Some(name) if !name.is_empty() => Some(connect(&name)?),
            _ => None,
        };
        let own = std::process::id();
        let told = Environment::read(|name| env::var_os(name));
        let numbers = told.descriptors(own)?;
        let mut sockets = Vec::new();
        if !TAKEN.swap(true, Ordering::Relaxed) {
            for (name, number) in numbers {
                sockets.push((name, take(number)?));
            }
        }
        Ok(Self { tells, watchdog: told.watchdog(own)?, sockets })
    }

    /// The sockets that it has passed, each with its name. They are given once.
    pub fn take_sockets(&mut self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut self.sockets)
    }

    /// How often it wants to hear a [`Message::Beat`]: twice within the time after which it ends a silent process.
    pub fn beat(&self) -> Option<Duration> {
        self.tells.as_ref().and(self.watchdog).map(|limit| limit / 2)
    }

    /// Does not wait for it: a supervisor that does not read has no right to stop what it supervises.
    pub fn tell(&self, message: Message<'_>) -> io::Result<()> {
        let Some((socket, address)) = &self.tells else { return Ok(()) };
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let micros = u64::try_from(now.tv_nsec).unwrap_or_default() / 1000;
        let text = message.text(Duration::from_secs(seconds) + Duration::from_micros(micros));
        socket.send_to_addr(text.as_bytes(), address).map(drop)
    }
}

impl Message<'_> {
    /// As it is sent at this time of the monotonic clock.
    fn text(self, now: Duration) -> String {
        match self {
            Self::Ready(status) => format!("READY=1\nSTATUS={}", one_line(status)),
            Self::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()),
            Self::Stopping(limit) => {
                let limit = limit.as_micros();
                format!(
                    "STOPPING=1\nEXTEND_TIMEOUT_USEC={limit}\nSTATUS=stopping: what runs may finish"
                )
            }
            Self::Beat => "WATCHDOG=1".to_owned(),
            Self::Successor(pid) => format!("MAINPID={pid}"),
            Self::Status(status) => format!("STATUS={}", one_line(status)),
        }
    }
}

/// A line of its own would be another message.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The sockets are owned by the first value that is made of them.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The first descriptor that is passed.
const FIRST: RawFd = 3;

/// More sockets than any service has.
const SOCKETS_MAX: RawFd = 256;

/// The variables that tell of sockets and of the watchdog.
struct Environment {
    listen_pid: Option<OsString>,
    listen_fds: Option<OsString>,
    listen_names: Option<OsString>,
    watchdog_pid: Option<OsString>,
    watchdog_time: Option<OsString>,
}

impl Environment {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        Self {
            listen_pid: variable("LISTEN_PID"),
            listen_fds: variable("LISTEN_FDS"),
            listen_names: variable("LISTEN_FDNAMES"),
            watchdog_pid: variable("WATCHDOG_PID"),
            watchdog_time: variable("WATCHDOG_USEC"),
        }
    }

    /// Names and numbers of the descriptors that are passed to the process with this number.
    fn descriptors(&self, own: u32) -> Result<Vec<(String, RawFd)>, SupervisorError> {
        let (Some(pid), Some(count)) = (&self.listen_pid, &self.listen_fds) else {
            return Ok(Vec::new());
        };
        // They were meant for a process that has started this one.
        if number::<u32>("LISTEN_PID", pid)? != own {
            return Ok(Vec::new());
        }
        let found: RawFd = number("LISTEN_FDS", count)?;
        if !(0..=SOCKETS_MAX).contains(&found) {
            return Err(bad("LISTEN_FDS", count, format!("at most {SOCKETS_MAX} are taken")));
        }
        let names = self.listen_names.as_ref().map(|names| names.to_string_lossy().into_owned());
        let mut names = names.iter().flat_map(|names| names.split(':'));
        let named = |number| (names.next().unwrap_or_default().to_owned(), number);
        Ok((FIRST..FIRST + found).map(named).collect())
    }

    /// How long the process with this number may tell nothing.
    fn watchdog(&self, own: u32) -> Result<Option<Duration>, SupervisorError> {
        let Some(time) = &self.watchdog_time else { return Ok(None) };
        if let Some(pid) = &self.watchdog_pid
            && number::<u32>("WATCHDOG_PID", pid)? != own
        {
            return Ok(None);
        }
        let time = Duration::from_micros(number("WATCHDOG_USEC", time)?);
        Ok((!time.is_zero()).then_some(time))
    }
}

fn number<T: std::str::FromStr>(
    variable: &'static str,
    value: &OsString,
) -> Result<T, SupervisorError> {
    let read = value.to_str().and_then(|value| value.parse().ok());
    read.ok_or_else(|| bad(variable, value, "it is no number that fits".to_owned()))
}

fn bad(variable: &'static str, value: &OsString, why: String) -> SupervisorError {
    SupervisorError { variable, value: value.to_string_lossy().into_owned(), why }
}

/// The socket to tell by: of a path, or of an abstract name, which begins with "@".
fn connect(name: &OsString) -> Result<(UnixDatagram, SocketAddr), SupervisorError> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::other("only a path and an @abstract name are understood")),
    };
    let opened = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok((socket, address))
    });
    opened.map_err(|error| bad("NOTIFY_SOCKET", name, error.to_string()))
}

/// Makes an inherited descriptor this process's own.
fn take(descriptor: RawFd) -> Result<OwnedFd, SupervisorError> {
    // SAFETY: a plain call of numbers, which fails for a descriptor that is not open.
    if unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        let value = descriptor.to_string().into();
        let why = format!("descriptor {descriptor} is not open: {}", io::Error::last_os_error());
        return Err(bad("LISTEN_FDS", &value, why));
    }
    // SAFETY: it is open, as the call above shows. It is owned by no other value: this process has inherited it and opened
    // nothing yet (see `of_process`), and each is taken once (`TAKEN`).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::read(|wanted| {
            pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn descriptors_are_read_as_they_are_passed() {
        for (pairs, want) in [
            (&[][..], Ok("")),
            (&[("LISTEN_FDS", "1")], Ok("")),
            (&[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")], Ok("")),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")], Ok("")),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "2")], Ok("=3 =4")),
            (
                &[("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "clients:http")],
                Ok("clients=3 http=4"),
            ),
            (
                &[("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "clients")],
                Ok("clients=3 =4"),
            ),
            (&[("LISTEN_PID", "x"), ("LISTEN_FDS", "1")], Err("LISTEN_PID")),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "-1")], Err("LISTEN_FDS")),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "99999999999")], Err("LISTEN_FDS")),
            (&[("LISTEN_PID", "7"), ("LISTEN_FDS", "257")], Err("LISTEN_FDS")),
        ] {
            let found = environment(pairs).descriptors(7);
            let found = found.map(|all| {
                all.iter().map(|(name, at)| format!("{name}={at}")).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found.map_err(|error| error.variable), want.map(str::to_owned), "{pairs:?}");
        }
    }

    #[test]
    fn a_watchdog_counts_for_the_process_that_it_is_meant_for() {
        for (pairs, want) in [
            (&[][..], Ok(None)),
            (&[("WATCHDOG_USEC", "3000000")], Ok(Some(3))),
            (&[("WATCHDOG_USEC", "0")], Ok(None)),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "7")], Ok(Some(3))),
            (&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "8")], Ok(None)),
            (&[("WATCHDOG_USEC", "soon")], Err("WATCHDOG_USEC")),
        ] {
            let found = environment(pairs).watchdog(7);
            let found = found.map_err(|error| error.variable);
            assert_eq!(found, want.map(|it| it.map(Duration::from_secs)), "{pairs:?}");
        }
    }

    #[test]
    fn messages_are_lines_of_the_protocol() {
        let now = Duration::from_micros(1_500_000);
        for (message, want) in [
            (Message::Ready("serves\nREADY=0"), "READY=1\nSTATUS=serves READY=0"),
            (Message::Reloading, "RELOADING=1\nMONOTONIC_USEC=1500000"),
            (
                Message::Stopping(Duration::from_secs(2)),
                "STOPPING=1\nEXTEND_TIMEOUT_USEC=2000000\nSTATUS=stopping: what runs may finish",
            ),
            (Message::Beat, "WATCHDOG=1"),
            (Message::Status("a"), "STATUS=a"),
        ] {
            assert_eq!(message.text(now), want);
        }
    }

    #[test]
    fn a_supervisor_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let abstract_name = format!("flifo-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
        for (name, socket) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (format!("@{abstract_name}").into(), UnixDatagram::bind_addr(&address)),
        ] {
            let socket = socket.expect("binds");
            let tells = Some(connect(&name).expect("an address"));
            let supervisor = Supervisor { tells, ..Supervisor::default() };
            supervisor.tell(Message::Beat).expect("is sent");
            let mut heard = [0; 64];
            let length = socket.recv(&mut heard).expect("is heard");
            assert_eq!(&heard[..length], b"WATCHDOG=1");
        }
        assert!(connect(&"vsock:2:1".into()).is_err());
        assert!(connect(&format!("/{}", "x".repeat(200)).into()).is_err());
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        let error = take(1 << 20).expect_err("is not open");
        assert!(error.to_string().contains("is not open"), "{error}");
    }
}
