//! What a process can still do in the sandbox, tried by a process of its own: this test starts itself anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use sys::process::{Keep, become_user};
use sys::sandbox::{Extent, Files, enter, forbid_core_dumps};

const CHILD: &str = "SYS_TEST_SANDBOXED";
const OTHER_USER: &str = "SYS_TEST_OTHER_USER";

/// Runs this test in a child with this variable set. The answer is what the child has written.
fn in_child(test: &str, variable: &str, value: &Path) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .output()
        .expect("this program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_sandboxed_process_keeps_what_it_was_given() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return sandboxed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["open", "closed"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("file"), "text").expect("a file");
    }
    let text = in_child("a_sandboxed_process_keeps_what_it_was_given", CHILD, folder.path());
    assert!(text.contains("sandbox held"), "{text}");
}

fn sandboxed(folder: &Path) {
    let (open, closed) = (folder.join("open"), folder.join("closed"));
    let files = Files { read: vec!["/etc".into(), "/none".into()], write: vec![open.clone()] };
    forbid_core_dumps().expect("no core dumps");
    let sandbox = enter(&files).expect("the sandbox");
    // Threads that start later are in it too.
    let tried = std::thread::spawn(move || {
        assert!(fs::read("/etc/passwd").is_ok());
        assert!(fs::write(open.join("new"), "text").is_ok());
        assert!(fs::read(open.join("file")).is_ok());
        let listener = std::os::unix::net::UnixListener::bind(open.join("socket"));
        assert!(listener.is_ok(), "{listener:?}");
        assert!(std::net::TcpListener::bind("127.0.0.1:0").is_ok());
        assert!(std::net::ToSocketAddrs::to_socket_addrs("localhost:1").is_ok());
        if sandbox.files != Extent::Missing {
            assert!(fs::read(closed.join("file")).is_err());
            assert!(fs::write(closed.join("new"), "text").is_err());
        }
        if sandbox.calls != Extent::Missing {
            assert!(Command::new("/bin/true").status().is_err(), "no program can be started");
            assert!(std::os::unix::fs::chroot("/").is_err());
            let raw = rustix::net::socket(
                rustix::net::AddressFamily::PACKET,
                rustix::net::SocketType::DGRAM,
                None,
            );
            assert!(raw.is_err());
            assert!(netlink(None).is_err());
            assert!(netlink(Some(rustix::net::netlink::SOCK_DIAG)).is_ok(), "placement asks by it");
            for spaces in [libc::CLONE_NEWUSER, libc::CLONE_NEWUSER | libc::CLONE_NEWNET] {
                assert!(clone(libc::SYS_clone, spaces).is_err(), "{spaces:x}");
                assert!(clone(libc::SYS_clone3, spaces).is_err(), "{spaces:x}");
            }
        }
    });
    tried.join().expect("all of it held");
    println!("sandbox held");
}

/// A routing socket where no protocol is named.
fn netlink(protocol: Option<rustix::net::Protocol>) -> rustix::io::Result<std::os::fd::OwnedFd> {
    let (family, kind) = (rustix::net::AddressFamily::NETLINK, rustix::net::SocketType::RAW);
    rustix::net::socket(family, kind, protocol)
}

/// Makes a process in other name spaces, which ends at once.
fn clone(call: libc::c_long, spaces: libc::c_int) -> std::io::Result<()> {
    let flags = libc::c_long::from(spaces | libc::SIGCHLD);
    // The flags, and zeros: as clone3 has it.
    let mut asked = [0_u64; 11];
    (asked[0], asked[4]) =
        (u64::from(spaces.cast_unsigned()), u64::from(libc::SIGCHLD.cast_unsigned()));
    // SAFETY: without a stack the child has a copy of this one, and does nothing but end; `asked` lives, and has the length
    // that is told.
    let made = unsafe {
        match call {
            libc::SYS_clone3 => libc::syscall(call, asked.as_ptr(), size_of_val(&asked)),
            _ => libc::syscall(call, flags, 0, 0, 0, 0),
        }
    };
    match made {
        // SAFETY: it ends without running anything of this program's.
        0 => unsafe { libc::_exit(0) },
        1.. => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[test]
fn root_becomes_another_user_for_good() {
    if std::env::var_os(OTHER_USER).is_some() {
        return become_nobody();
    }
    if !sys::process::is_root() {
        assert!(become_user("nobody", Keep::Nothing).is_err());
        return;
    }
    let text = in_child("root_becomes_another_user_for_good", OTHER_USER, Path::new("1"));
    assert!(text.contains("became it"), "{text}");
}

fn become_nobody() {
    let unknown = become_user("no_such_user_of_any_machine", Keep::Nothing);
    assert!(unknown.expect_err("no such user").to_string().contains("useradd"));
    // The harness has a thread for each test, so only this one's capabilities are looked at.
    become_user("nobody", Keep::Scheduling).expect("root may");
    let status = fs::read_to_string("/proc/thread-self/status").expect("readable");
    let line = |name: &str| status.lines().find(|it| it.starts_with(name)).unwrap_or_default();
    assert!(line("Uid:").split_whitespace().skip(1).all(|uid| uid != "0"), "{status}");
    assert_eq!(line("CapEff:").trim_start_matches("CapEff:").trim(), "0000000000800000");
    assert!(!line("Groups:").split_whitespace().any(|it| it == "0"), "{status}");
    assert!(become_user("root", Keep::Nothing).is_err());
    println!("became it");
}
