//! What is installed on machines: the Debian package, its unit, and the configurations of containers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::fake_server::{Brand, FakeServer};
use testkit::flifo::{Flifo, program};
use testkit::scene::{configuration, user};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("is there")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

fn done(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The package of the programs that are tested, and what it installs.
struct Built {
    package: PathBuf,
    folder: tempfile::TempDir,
}

impl Built {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = program().parent().unwrap();
        let mut command = Command::new(root().join("packaging/package.sh"));
        let name = done(command.arg("--unstripped").arg(programs).arg(folder.path()));
        let package = PathBuf::from(name.trim());
        done(
            Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder.path().join("tree")),
        );
        Self { package, folder }
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn field(&self, name: &str) -> String {
        done(Command::new("dpkg-deb").arg("--field").arg(&self.package).arg(name)).trim().to_owned()
    }
}

#[test]
fn a_package_has_all_that_a_machine_needs_and_its_program_serves() {
    let built = Built::new();
    let tree = built.tree();
    assert!(built.field("Version").starts_with(env!("CARGO_PKG_VERSION")));
    assert!(built.field("Depends").contains("adduser"), "{}", built.field("Depends"));
    // What an owner of a machine expects to be root's, is root's, whichever user has made the package.
    let listed = done(Command::new("dpkg-deb").arg("--contents").arg(&built.package));
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let share = tree.join("usr/share");
    for program in ["flifo", "flifo-bench"] {
        for path in [
            format!("bash-completion/completions/{program}"),
            format!("zsh/vendor-completions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
            format!("elvish/lib/{program}-completions.elv"),
            format!("flifo/{program}.ps1"),
        ] {
            let completions = std::fs::read_to_string(share.join(&path)).expect(&path);
            assert!(completions.contains(program), "{path}");
        }
    }
    // A manual page for each command that the reference has.
    for (program, reference) in
        [("flifo", "docs/reference/cli.md"), ("flifo-bench", "docs/reference/cli-bench.md")]
    {
        for title in text(reference).lines().filter_map(|line| line.strip_prefix("## `")) {
            let name = title.trim_end_matches('`').replace(' ', "-");
            let page = share.join(format!("man/man1/{name}.1.gz"));
            assert!(name.starts_with(program) && page.exists(), "{}", page.display());
        }
    }
    let start = exec_start(&tree);
    assert_eq!(start, ["/usr/bin/flifo", "run", "--config", "/etc/flifo/flifo.toml"]);

    let server = FakeServer::start_as(Brand::MariaDb);
    let installed = tree.join(start[0].trim_start_matches('/'));
    let rest = configuration(server.port(), "", &user(""));
    let flifo = Flifo::start_program(&installed, &rest);
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
}

/// The words of the unit's ExecStart=.
fn exec_start(tree: &Path) -> Vec<String> {
    let unit = std::fs::read_to_string(tree.join("usr/lib/systemd/system/flifo.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a start");
    start.split(' ').map(str::to_owned).collect()
}

/// `systemd-analyze`, which judges units; it needs no systemd that runs.
fn analyze(arguments: &[&str], units: &[PathBuf]) -> Output {
    let mut command = Command::new("systemd-analyze");
    command.args(arguments).args(units).env("SYSTEMD_LOG_LEVEL", "warning");
    command.output().expect("systemd-analyze is there: packaging/install-deps.sh")
}

#[test]
fn units_are_sound_and_leave_little_to_an_intruder() {
    let folder = tempfile::tempdir().unwrap();
    let units = ["flifo.service", "flifo.socket"].map(|name| {
        // The program that a package would have installed.
        let unit = text(&format!("packaging/systemd/{name}"));
        let path = folder.path().join(name);
        std::fs::write(&path, unit.replace("/usr/bin/flifo", program().to_str().unwrap())).unwrap();
        path
    });
    let verified = analyze(&["verify", "--man=no"], &units);
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("flifo.s")).collect();
    assert!(verified.status.success() && ours.is_empty(), "{said}");
    let judged = analyze(&["security", "--offline=true", "--threshold=15"], &units[..1]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    // The judgement can fail.
    std::fs::write(&units[0], "[Service]\nExecStart=/bin/true\n").unwrap();
    assert!(
        !analyze(&["security", "--offline=true", "--threshold=15"], &units[..1]).status.success()
    );
}

/// The configuration that a file of YAML has as a block behind this line, without its indent.
fn block(yaml: &str, title: &str) -> String {
    let mut lines = yaml.lines().skip_while(|line| line.trim() != title).skip(1).peekable();
    let indent = lines.peek().map_or(0, |line| line.len() - line.trim_start().len());
    let inside =
        lines.take_while(|line| line.trim().is_empty() || line.starts_with(&" ".repeat(indent)));
    inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect()
}

#[test]
fn configurations_of_containers_are_good() {
    let compose = block(&text("packaging/container/compose.yaml"), "content: |");
    let pods = block(&text("packaging/kubernetes/flifo.yaml"), "flifo.toml: |");
    let image = text("packaging/container/flifo.toml");
    for (config, users) in [(image, 0), (compose, 1), (pods, 1)] {
        let (plan, warnings) = proxy::config::parse(&config, "test").expect("it is good");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(plan.users.len(), users, "{config}");
        let listen: Vec<_> = plan.listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["0.0.0.0:6033"], "{config}");
        // What the health check asks.
        let http: Vec<_> = plan.http.listen.iter().map(ToString::to_string).collect();
        assert!(http.iter().all(|it| it.ends_with(":6034")) && http.len() == 1, "{config}");
    }
}

#[test]
fn an_image_is_asked_for_its_health_by_a_command_that_there_is() {
    let file = text("packaging/container/Containerfile");
    let check = file.lines().find_map(|line| line.trim().strip_prefix("CMD [")).expect("a check");
    let words: Vec<_> =
        check.trim_end_matches(']').split(", ").map(|it| it.trim_matches('"')).collect();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("flifo.toml");
    // Nothing listens there.
    std::fs::write(&config, "[http]\nlisten = \"127.0.0.1:1\"\n").unwrap();
    let words: Vec<_> = words[1..]
        .iter()
        .map(|word| word.replace("/etc/flifo/flifo.toml", config.to_str().unwrap()))
        .collect();
    let output = Command::new(program()).args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(69) && said.contains("no Flifo answers"), "{said}");
    let stages: BTreeSet<_> = file.lines().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(stages.len(), 2, "a stage that builds, and one that is small: {stages:?}");
    assert!(file.contains("\nUSER 65532:65532\n"));
}
