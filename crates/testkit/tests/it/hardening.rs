//! What a running Flifo has given up, as the kernel tells it, and as whom it refuses to serve.

use std::process::Command;

use testkit::flifo::Flifo;
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
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("flifo.toml");
    let text = "listen = [\"127.0.0.1:0\"]\n[server]\naddress = \"127.0.0.1:1\"\n[console]\nlisten = []\n[http]\nlisten = []\n";
    std::fs::write(&config, text).expect("written");
    let refused = Command::new(testkit::flifo::program())
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
        return;
    }
    let scene = Scene::pooled("[hardening]\nrun_as = \"nobody\"\n");
    let mut client = scene.client();
    assert!(client.query("SELECT 1").is_ok(), "it serves");
    let text = status(&scene.flifo);
    let ids = text.lines().find(|line| line.starts_with("Uid:")).expect("listed");
    assert!(ids.split_whitespace().skip(1).all(|id| id != "0"), "{ids}");
}
