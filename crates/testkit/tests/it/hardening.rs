//! What a running Flifo has given up, as the kernel tells it, and as whom it refuses to serve.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::Command;

use rustix::process::{Signal, kill_process};
use testkit::flifo::{Flifo, program, take_over};
use testkit::need::Need;
use testkit::scene::Scene;

/// The kernel's account of the Flifo.
fn status(flifo: &Flifo) -> String {
    std::fs::read_to_string(format!("/proc/{}/status", flifo.pid())).expect("it runs")
}

#[test]
fn a_running_flifo_has_given_up_rights() {
    let scene = Scene::pooled("");
    let mut client = scene.client();
    assert!(client.query("SELECT 1").is_ok(), "it serves");
    let text = status(&scene.flifo);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches(':').trim().to_owned()
    };
    assert_eq!(value("NoNewPrivs"), "1", "{text}");
    assert_eq!(value("Seccomp"), "2", "{text}");
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", scene.flifo.pid())).expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("listed");
    assert_eq!(core.split_whitespace().rev().nth(1), Some("0"), "{core}");
}

#[test]
fn a_sandbox_that_is_turned_off_is_warned_of() {
    let scene = Scene::pooled("[hardening]\nsandbox = \"off\"\ncore_dumps = \"allowed\"\n");
    assert!(status(&scene.flifo).contains("Seccomp:\t0"));
    assert!(scene.flifo.log().contains("hardening.sandbox is off"), "{}", scene.flifo.log());
}

#[test]
fn a_privileged_user_is_refused_unless_it_is_allowed() {
    if !sys::process::is_root() {
        Need::Root.skip("only root is refused, or becomes another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("flifo.toml");
    let text = "listen = [\"127.0.0.1:0\"]\n[server]\naddress = \"127.0.0.1:1\"\n[console]\nlisten = []\n[http]\nlisten = []\n";
    std::fs::write(&config, text).expect("written");
    let refused = Command::new(program())
        .args(["run", "--config"])
        .arg(&config)
        .env_remove("FLIFO_ALLOW_PRIVILEGED_USER")
        .output()
        .expect("flifo starts");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("does not serve as root") && said.contains("hardening.run_as"), "{said}");
}

#[test]
fn root_serves_as_the_user_that_is_named() {
    if !sys::process::is_root() {
        Need::Root.skip("only root is refused, or becomes another user");
        return;
    }
    let scene = Scene::pooled("[hardening]\nrun_as = \"nobody\"\n");
    let mut client = scene.client();
    assert!(client.query("SELECT 1").is_ok(), "it serves");
    let text = status(&scene.flifo);
    let ids = text.lines().find(|line| line.starts_with("Uid:")).expect("listed");
    assert!(ids.split_whitespace().skip(1).all(|id| id != "0"), "{ids}");
}

#[test]
fn root_follows_no_link_that_the_later_user_has_put_there() {
    if !sys::process::is_root() {
        Need::Root.skip("only root can become another user");
        return;
    }
    let (uid, gid) = sys::process::numbers_of("nobody").expect("every machine has one");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("root may");
    let theirs = folder.path().join("theirs");
    std::fs::create_dir(&theirs).expect("a folder");
    chown(&theirs, Some(uid), Some(gid)).expect("root may");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root's").expect("written");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("root may");
    let link = theirs.join("link");
    symlink(&secret, &link).expect("made");
    let port = testkit::flifo::free_port();
    let refused = |top: &str, rest: &str| {
        let config = folder.path().join("flifo.toml");
        let text = format!(
            "{top}\n[server]\naddress = \"127.0.0.1:1\"\n[console]\nlisten = []\n[http]\nlisten = []\n\
             [hardening]\nrun_as = \"nobody\"\n{rest}"
        );
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new(program());
        let ended = command.args(["run", "--config"]).arg(&config).output().expect("flifo starts");
        assert_eq!(ended.status.code(), Some(69), "{ended:?}");
        let found = secret.metadata().expect("is there");
        assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
        assert_eq!(std::fs::read_to_string(&secret).expect("root may"), "root's");
    };
    let tcp = format!("listen = [\"127.0.0.1:{port}\"]");
    for option in ["file", "slow.file", "audit.file"] {
        refused(&tcp, &format!("[logs]\n{option} = {link:?}\n"));
    }
}

#[test]
fn a_flifo_that_takes_over_is_the_later_user_too() {
    if !sys::process::is_root() {
        Need::Root.skip("only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let console = folder.path().join("console.sock");
    let scene = Scene::pooled(&format!(
        "[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n[hardening]\nrun_as = \"nobody\"\n"
    ));
    let mut client = scene.client();
    assert!(client.query("SELECT 1").is_ok(), "it serves");
    let taken = take_over(program(), &console).expect("it takes over");
    assert!(client.query("SELECT 2").is_ok(), "its client goes on");
    let pid = taken.pid.as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    kill_process(taken.pid, Signal::KILL).expect("root may");
    let status = status.expect("it runs");
    let ids = status.lines().find(|line| line.starts_with("Uid:")).expect("listed");
    assert!(ids.split_whitespace().skip(1).all(|id| id != "0"), "{ids}");
}
