//! The libraries: what each needs, how its program is built, and how it is started.
//!
//! What the programs do stands in `xtask/drivers/set-up`. Invariants: versions are pinned in files of the repository,
//! except for those of Ruby, which the distribution brings; whatever is downloaded or built stays below the target
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bench::interrupt::Interrupt;
use bench::programs;
use clap::ValueEnum;

use crate::drivers::lines;
use crate::repository;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Library {
    Go,
    Pymysql,
    Mysqlclient,
    MariadbPython,
    MysqlConnectorPython,
    Sqlalchemy,
    Django,
    Mysql2Node,
    MariadbNode,
    Sequelize,
    ConnectorJ,
    MariadbJava,
    Mysqli,
    Pdo,
    PdoNative,
    Mysql2Ruby,
    Rails,
}

/// A program that can be started.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The library and its version.
    pub(crate) title: String,
    /// Where its output may be kept.
    pub(crate) folder: PathBuf,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Option<(&'static str, PathBuf)>,
}

/// Where a program finds its server.
pub(crate) struct Target<'a> {
    pub(crate) port: u16,
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
}

impl Library {
    pub(crate) const ALL: [Self; 17] = [
        Self::Go,
        Self::Pymysql,
        Self::Mysqlclient,
        Self::MariadbPython,
        Self::MysqlConnectorPython,
        Self::Sqlalchemy,
        Self::Django,
        Self::Mysql2Node,
        Self::MariadbNode,
        Self::Sequelize,
        Self::ConnectorJ,
        Self::MariadbJava,
        Self::Mysqli,
        Self::Pdo,
        Self::PdoNative,
        Self::Mysql2Ruby,
        Self::Rails,
    ];

    /// As the command line calls it.
    pub(crate) fn name(self) -> &'static str {
        self.language().1
    }

    /// Its language, its name, and what its program calls it.
    fn language(self) -> (Language, &'static str, &'static str) {
        use Language::{Go, Java, Node, Php, Python, Ruby};
        match self {
            Self::Go => (Go, "go", ""),
            Self::Pymysql => (Python, "pymysql", "pymysql"),
            Self::Mysqlclient => (Python, "mysqlclient", "mysqlclient"),
            Self::MariadbPython => (Python, "mariadb-python", "mariadb"),
            Self::MysqlConnectorPython => (Python, "mysql-connector-python", "mysql-connector"),
            Self::Sqlalchemy => (Python, "sqlalchemy", "sqlalchemy"),
            Self::Django => (Python, "django", "django"),
            Self::Mysql2Node => (Node, "mysql2-node", "mysql2"),
            Self::MariadbNode => (Node, "mariadb-node", "mariadb"),
            Self::Sequelize => (Node, "sequelize", "sequelize"),
            Self::ConnectorJ => (Java, "connector-j", "jdbc:mysql"),
            Self::MariadbJava => (Java, "mariadb-java", "jdbc:mariadb"),
            Self::Mysqli => (Php, "mysqli", "mysqli"),
            Self::Pdo => (Php, "pdo", "pdo"),
            Self::PdoNative => (Php, "pdo-native", "pdo-native"),
            Self::Mysql2Ruby => (Ruby, "mysql2-ruby", "mysql2"),
            Self::Rails => (Ruby, "rails", "rails"),
        }
    }

    /// What people call it.
    fn title(self) -> &'static str {
        match self {
            Self::Go => "go-sql-driver/mysql (Go)",
            Self::Pymysql => "PyMySQL (Python)",
            Self::Mysqlclient => "mysqlclient (Python)",
            Self::MariadbPython => "MariaDB Connector/Python",
            Self::MysqlConnectorPython => "MySQL Connector/Python",
            Self::Sqlalchemy => "SQLAlchemy on PyMySQL (Python)",
            Self::Django => "Django on mysqlclient (Python)",
            Self::Mysql2Node => "mysql2 (Node.js)",
            Self::MariadbNode => "MariaDB Connector/Node.js",
            Self::Sequelize => "Sequelize on mysql2 (Node.js)",
            Self::ConnectorJ => "MySQL Connector/J",
            Self::MariadbJava => "MariaDB Connector/J",
            Self::Mysqli => "mysqli (PHP)",
            Self::Pdo => "PDO (PHP)",
            Self::PdoNative => "PDO without emulated preparation (PHP)",
            Self::Mysql2Ruby => "mysql2 (Ruby)",
            Self::Rails => "Active Record of Rails on mysql2 (Ruby)",
        }
    }

    /// Fetches, builds and checks what it needs.
    pub(crate) fn prepare(self, interrupt: &Interrupt) -> Result<Program> {
        let (language, name, own) = self.language();
        let folder = repository::target().join("set-up").join(language.name());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let prepare = match language {
            Language::Go => prepare_go,
            Language::Python => prepare_python,
            Language::Node => prepare_node,
            Language::Java => prepare_java,
            Language::Php => prepare_php,
            Language::Ruby => prepare_ruby,
        };
        let Prepared { program, mut arguments, environment, version } =
            prepare(&folder, own, interrupt).with_context(|| format!("cannot prepare {name}"))?;
        if !own.is_empty() {
            arguments.push(own.to_owned());
        }
        let title = format!("{} {version}", self.title());
        Ok(Program { name, title, folder, program, arguments, environment })
    }
}

impl Program {
    pub(crate) fn command(&self, target: &Target<'_>, connections: u32, requests: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args([connections.to_string(), requests.to_string()]);
        self.aimed(command, target)
    }

    /// Another program of the same language, with the same library.
    pub(crate) fn with(&self, program: &str, arguments: &[&str], target: &Target<'_>) -> Command {
        let mut command = Command::new(program);
        command.args(arguments);
        self.aimed(command, target)
    }

    fn aimed(&self, mut command: Command, target: &Target<'_>) -> Command {
        command
            .current_dir(&self.folder)
            .env("SUITE_HOST", "127.0.0.1")
            .env("SUITE_PORT", target.port.to_string())
            .env("SUITE_USER", target.user)
            .env("SUITE_PASSWORD", target.password)
            .envs(self.environment.as_ref().map(|(name, value)| (*name, value)));
        command
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Go,
    Python,
    Node,
    Java,
    Php,
    Ruby,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Python => "python",
            Self::Node => "node",
            Self::Java => "java",
            Self::Php => "php",
            Self::Ruby => "ruby",
        }
    }
}

struct Prepared {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Option<(&'static str, PathBuf)>,
    version: String,
}

fn prepare_go(folder: &Path, _: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let (program, go) = (folder.join("set-up"), GO.find()?);
    let module = repository::root().join("xtask/drivers/go");
    let mut build = Command::new(&go);
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(&module);
    lines::run("go build", build, interrupt)?;
    let mut ask = Command::new(go);
    ask.args(["list", "-m", "-f", "{{.Version}}", "github.com/go-sql-driver/mysql"]);
    ask.current_dir(module);
    let version = lines::run("go list", ask, interrupt)?;
    let version = version.trim().trim_start_matches('v').to_owned();
    Ok(Prepared { program, arguments: Vec::new(), environment: None, version })
}

fn prepare_python(folder: &Path, own: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let python = PYTHON.find()?;
    let (list, packages) = (ours("python.txt"), folder.join("packages"));
    if is_new(folder, &list)? {
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--no-deps", "--require-hashes", "--upgrade"]);
        install.arg("--requirement").arg(&list).arg("--target").arg(&packages);
        lines::run("pip install", install, interrupt).with_context(|| {
            format!(
                "Python's packages cannot be had; they need `apt-get install {}`",
                PYTHON.package
            )
        })?;
        keep(folder, &list)?;
    }
    let distribution = match own {
        "mysql-connector" => "mysql-connector-python",
        name => name,
    };
    let mut ask = Command::new(&python);
    let script = format!("import importlib.metadata as it; print(it.version('{distribution}'))");
    ask.arg("-c").arg(script).env("PYTHONPATH", &packages);
    let version = lines::run("python3", ask, interrupt)?.trim().to_owned();
    let arguments = vec![text(&ours("set_up.py"))];
    let environment = Some(("PYTHONPATH", packages));
    Ok(Prepared { program: python, arguments, environment, version })
}

/// Modules are looked up from where the script lies, so it is copied to its packages.
fn prepare_node(folder: &Path, own: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let (node, npm) = (NODE.find()?, NPM.find()?);
    for name in ["package.json", "package-lock.json", "set-up.mjs"] {
        fs::copy(ours(name), folder.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    let lock = ours("package-lock.json");
    if is_new(folder, &lock)? {
        let mut install = Command::new(npm);
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
        lines::run("npm ci", install, interrupt)?;
        keep(folder, &lock)?;
    }
    let mut ask = Command::new(&node);
    let script = format!("console.log(require('./node_modules/{own}/package.json').version)");
    ask.arg("-e").arg(script).current_dir(folder);
    let version = lines::run("node", ask, interrupt)?.trim().to_owned();
    let arguments = vec!["set-up.mjs".to_owned()];
    Ok(Prepared { program: node, arguments, environment: None, version })
}

fn prepare_java(folder: &Path, own: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let (java, javac, maven) = (JAVA.find()?, JAVAC.find()?, MAVEN.find()?);
    let (list, jars) = (ours("pom.xml"), folder.join("jars"));
    if is_new(folder, &list)? {
        let mut fetch = Command::new(maven);
        fetch.args(["--quiet", "--batch-mode", "--file"]).arg(&list);
        fetch.arg("dependency:copy-dependencies");
        fetch.arg(format!("-DoutputDirectory={}", jars.display()));
        lines::run("mvn", fetch, interrupt)?;
        keep(folder, &list)?;
    }
    let mut compile = Command::new(javac);
    compile.arg("-d").arg(folder).arg(ours("SetUp.java"));
    lines::run("javac", compile, interrupt)?;
    let artifact = match own {
        "jdbc:mysql" => "mysql-connector-j",
        _ => "mariadb-java-client",
    };
    let text_of = fs::read_to_string(&list)?;
    let version = version_in(&text_of, artifact).context("pom.xml lacks the version")?.to_owned();
    let path = format!("{}:{}/*", folder.display(), jars.display());
    let arguments = ["-cp", &path, "SetUp"].map(str::to_owned).into();
    Ok(Prepared { program: java, arguments, environment: None, version })
}

fn prepare_php(_: &Path, _: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let php = PHP.find()?;
    let mut ask = Command::new(&php);
    ask.args(["-r", "echo PHP_VERSION;"]);
    let version = lines::run("php", ask, interrupt)?.trim().to_owned();
    let arguments = vec![text(&ours("set-up.php"))];
    Ok(Prepared { program: php, arguments, environment: None, version })
}

fn prepare_ruby(_: &Path, own: &str, interrupt: &Interrupt) -> Result<Prepared> {
    let ruby = RUBY.find()?;
    let mut ask = Command::new(&ruby);
    ask.args([
        "-e",
        match own {
            "rails" => "require 'logger'; require 'active_record'; puts ActiveRecord.version",
            _ => "require 'mysql2'; puts Mysql2::VERSION",
        },
    ]);
    let version = lines::run("ruby", ask, interrupt)
        .context("a library is missing; try `apt-get install ruby-mysql2 ruby-activerecord`")?;
    let arguments = vec![text(&ours("set_up.rb"))];
    let version = version.trim().to_owned();
    Ok(Prepared { program: ruby, arguments, environment: None, version })
}

/// The version that Maven's list pins an artifact to.
fn version_in<'a>(pom: &'a str, artifact: &str) -> Option<&'a str> {
    let (_, rest) = pom.split_once(&format!("<artifactId>{artifact}</artifactId>"))?;
    let (_, rest) = rest.split_once("<version>")?;
    rest.split_once("</version>").map(|(version, _)| version)
}

/// Whether a list of packages is not the one whose packages lie in this folder.
fn is_new(folder: &Path, list: &Path) -> Result<bool> {
    let wanted = fs::read(list).with_context(|| format!("cannot read {}", list.display()))?;
    Ok(fs::read(folder.join(FETCHED)).ok().as_ref() != Some(&wanted))
}

fn keep(folder: &Path, list: &Path) -> Result<()> {
    fs::copy(list, folder.join(FETCHED)).context("cannot note what was fetched")?;
    Ok(())
}

fn ours(name: &str) -> PathBuf {
    repository::root().join("xtask/drivers/set-up").join(name)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

const FETCHED: &str = "fetched";

const fn program(
    name: &'static str,
    what: &'static str,
    package: &'static str,
) -> programs::Program {
    programs::Program { name, what, package }
}

const GO: programs::Program = program("go", "the Go toolchain", "golang-go");
const PYTHON: programs::Program = program(
    "python3",
    "Python, with what its packages are built with",
    "python3-pip python3-dev gcc pkg-config libmariadb-dev",
);
const NODE: programs::Program = program("node", "Node.js", "nodejs");
const NPM: programs::Program = program("npm", "the package tool of Node.js", "npm");
const JAVA: programs::Program = program("java", "Java", "default-jdk-headless");
const JAVAC: programs::Program = program("javac", "Java's compiler", "default-jdk-headless");
const MAVEN: programs::Program = program("mvn", "the package tool of Java", "maven");
const PHP: programs::Program = program("php", "PHP", "php-cli php-mysql");
const RUBY: programs::Program = program("ruby", "Ruby", "ruby ruby-mysql2 ruby-activerecord");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_listed_once_under_its_name() {
        let names: std::collections::HashSet<_> = Library::ALL.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), Library::value_variants().len());
        for library in Library::ALL {
            let value = library.to_possible_value().expect("is on the command line");
            assert_eq!(value.get_name(), library.name());
        }
    }

    #[test]
    fn versions_of_java_are_read_from_the_list() {
        let pom = fs::read_to_string(ours("pom.xml")).expect("is there");
        for artifact in ["mysql-connector-j", "mariadb-java-client"] {
            let version = version_in(&pom, artifact).expect("is pinned");
            assert!(version.starts_with(|it: char| it.is_ascii_digit()), "{version}");
        }
        assert_eq!(version_in(&pom, "nothing"), None);
    }
}
