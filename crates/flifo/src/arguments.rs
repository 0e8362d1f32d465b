//! The command line: what may be typed. What it means is done in `main`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use shell::{Manual, VERSION};

use crate::console::Console;

/// A MySQL and MariaDB proxy that schedules.
#[derive(Debug, Parser)]
#[command(
    name = "flifo",
    version = VERSION.as_str(),
    disable_help_subcommand = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set Flifo up beside the server of this machine: an account, a configuration, a start with the machine.
    #[command(after_help = INIT_STATUS)]
    Init(Init),
    /// Run the proxy: with no options, in front of the local server, on 127.0.0.1:6033.
    Run(Run),
    /// Tell everything that is wrong with a configuration, with file, line and column.
    CheckConfig {
        /// The configuration.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print a JSON list of objects with file, line, column, severity, option and message.
        #[arg(long)]
        json: bool,
    },
    /// Print the reference of all options of the configuration, with their defaults.
    ConfigReference,
    /// Print a configuration with every option at its default, explained.
    ConfigSample,
    /// Make a configuration of another proxy's: ProxySQL's, MaxScale's, HAProxy's, or a list of users.
    #[command(after_help = IMPORT_STATUS)]
    Import(Import),
    /// Have the Flifo that runs read its configuration again, and print what has changed, and when that is in force.
    #[command(after_help = RELOAD_STATUS)]
    Reload {
        #[command(flatten)]
        console: Console,
        /// Print a JSON list of objects with name, old, new and in_force.
        #[arg(long)]
        json: bool,
    },
    /// Have the program that is installed now take over from the Flifo that runs, with its clients.
    #[command(after_help = UPGRADE_STATUS)]
    Upgrade {
        #[command(flatten)]
        console: Console,
        /// Print a JSON object with pid, version, moved and left.
        #[arg(long)]
        json: bool,
    },
    /// Start the next Flifo when the one at the other end of the standard input asks for it.
    #[command(hide = true)]
    Keep {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Ask the Flifo that runs whether it is well, for a supervisor that restarts it or sends it clients.
    #[command(after_help = HEALTH_STATUS)]
    Health {
        /// The configuration that the Flifo runs with: its HTTP port is asked.
        #[arg(long, short, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The HTTP port, instead of the configuration's.
        #[arg(long, value_name = "IP:PORT")]
        http: Option<SocketAddr>,
        /// Ask whether statements can be served, instead of whether all workers answer.
        #[arg(long)]
        ready: bool,
        /// How long to wait for an answer.
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
        patience: Duration,
    },
    /// Compare a private MariaDB with and without Flifo (starts flifo-bench).
    Demo(Unread),
    /// Measure servers and proxies under load (starts flifo-bench).
    Bench(Unread),
    /// Repeat on this machine what was once reported of another (starts flifo-bench).
    Lab(Unread),
    /// Examine a server and the machine beneath it: what is wrong, why, and what helps.
    #[command(after_help = DOCTOR_STATUS)]
    Doctor(Doctor),
    /// Placement: what Flifo has changed of how threads are scheduled.
    #[command(subcommand)]
    Placement(PlacementCommand),
    /// Rules: what they do with statements, before they are in force.
    #[command(subcommand)]
    Rules(RulesCommand),
    #[command(flatten)]
    Manual(Manual),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Tell which rules of a configuration a statement hits, why it does not hit the others, and what becomes of it.
    #[command(after_help = RULES_STATUS)]
    Explain {
        /// The configuration.
        #[arg(long, short, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        session: SessionOfRules,
        /// The statement.
        #[arg(value_name = "SQL")]
        statement: String,
    },
    /// Tell what the rules of a configuration would do with statements that were recorded; nothing is done.
    #[command(after_help = RULES_STATUS)]
    Try {
        /// The configuration.
        #[arg(long, short, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        session: SessionOfRules,
        #[command(flatten)]
        recorded: Recorded,
    },
}

/// The session that statements are taken to come from.
#[derive(Debug, Args)]
pub(crate) struct SessionOfRules {
    /// Its user; without one, rules for users are not hit.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Its schema.
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// The IP address of its client.
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<String>,
    /// The address that its client came in by, as the option listen has it.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listener: Option<String>,
    /// What its client's program calls itself.
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,
    /// The cluster that statements would go to if no rule sent them.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Where in that cluster: reader or writer.
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// The label at which earlier statements have had rules begin.
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Option<String>,
    /// It is in a transaction.
    #[arg(long)]
    pub(crate) in_transaction: bool,
}

/// Where recorded statements are.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Recorded {
    /// A file with a statement in each line, with its literals or with ? for each.
    #[arg(long, value_name = "FILE")]
    pub(crate) digests: Option<PathBuf>,
    /// The console of a Flifo that runs, "/path/of.sock" or "host:port": what it has counted (SHOW DIGESTS).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) console: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// Undo what a Flifo that was killed has left behind.
    #[command(after_help = RESTORE_STATUS)]
    Restore {
        /// The configuration that the Flifo ran with.
        #[arg(long, short, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The file in which it has written down what was before, instead of the configuration's.
        #[arg(long, value_name = "FILE", conflicts_with = "config")]
        state: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Print what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Take back what was done: the account, files, the system user; and stop Flifo.
    #[arg(long, conflicts_with_all = ["dry_run", "server", "password_file"])]
    pub(crate) undo: bool,
    /// The server: "/path/of.sock" or "host:port"; the one of this machine if not given.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// Put all files in this folder, and start Flifo without systemd; by default /etc/flifo and the machine's other places
    /// for root, ~/.config/flifo for others.
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The account flifo@localhost exists, with the password in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Where clients come in.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6033")]
    pub(crate) listen: String,
    /// The console's address, beside a Unix socket.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6032")]
    pub(crate) console: String,
    /// The address of /metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6034")]
    pub(crate) http: String,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Files of other proxies: proxysql.cnf, what `sqlite3 proxysql.db .dump` prints, maxscale.cnf, haproxy.cfg, or lines
    /// of "user" "password". All of them become one configuration.
    #[arg(value_name = "FILE", required_unless_present = "proxysql")]
    pub(crate) files: Vec<PathBuf>,
    /// Ask a running ProxySQL instead: the address of its administration, mostly port 6032.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) proxysql: Option<String>,
    /// The user of that administration.
    #[arg(long, value_name = "NAME", default_value = "admin", requires = "proxysql")]
    pub(crate) user: String,
    /// Where its password stands, if not in MYSQL_PWD; "admin" without either.
    #[arg(long, value_name = "FILE", requires = "proxysql")]
    pub(crate) password_file: Option<PathBuf>,
    /// What the files are, if that is not to be told by what is in them.
    #[arg(long, value_name = "KIND")]
    pub(crate) from: Option<SourceKind>,
    /// Where the configuration is written; "-" is the standard output, and then the report is on standard error.
    #[arg(long, short, value_name = "FILE", default_value = "flifo.toml")]
    pub(crate) output: PathBuf,
    /// Replace the file if it is there.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the report as a JSON list of objects with file, line, what, outcome and told.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a file is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SourceKind {
    Proxysql,
    ProxysqlDump,
    Maxscale,
    Haproxy,
    Userlist,
}

/// What is typed behind a command of flifo-bench, which reads it; `--help` too.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Unread {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration; every option in it is optional.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where clients come in, instead of the configuration's list. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// The server: "auto", "/path/of.sock" or "host:port".
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// How many worker threads: a number or "auto".
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<String>,
    /// Serve although this is root, or the user of the server; see hardening.privileged_user.
    #[arg(long, env = "FLIFO_ALLOW_PRIVILEGED_USER", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) allow_privileged_user: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The server: "/path/of.sock" or "host:port"; the one of this machine if not given.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// The user that logs in to the server; the user of this process if not given.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Where the password stands, if not in MYSQL_PWD.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// The process that is the proxy, if it is none that is known by its name.
    #[arg(long, value_name = "PID")]
    pub(crate) proxy: Option<u32>,
    /// How long to watch, best under load: "10s", "1m"; "0s" reads settings only.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    pub(crate) watch: Duration,
    /// Cure what can be cured and undone, one at a time; keep what helps.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Do not ask before each cure.
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Where the script is written that undoes what --fix has kept.
    #[arg(long, value_name = "FILE", default_value = "flifo-doctor-undo.sh")]
    pub(crate) undo: PathBuf,
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write down what was seen, to be judged elsewhere.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Judge what was written down, instead of this machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fix", "save", "server"])]
    pub(crate) facts: Option<PathBuf>,
}

/// A time as people write it: a number with "ms", "s" or "m".
fn time(text: &str) -> Result<Duration, String> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().map_err(|_| "write a time such as 10s".to_owned())?;
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" | "" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        _ => return Err("write a time such as 10s".to_owned()),
    };
    if time > WATCH_MAX {
        return Err("an hour at most".to_owned());
    }
    Ok(time)
}

const WATCH_MAX: Duration = Duration::from_secs(3600);

const INIT_STATUS: &str = "\
Exit status: 0 Flifo serves, or what was done is taken back; 64 wrong arguments, or not agreed to; 69 something could \
not be done.";

const IMPORT_STATUS: &str = "\
The report has a line for each thing that was read: what it became; what differs; what needs nothing here; what was not \
converted, and what to use instead. Exit status: 0 Flifo does the same; 1 something differs; 2 something was not \
converted, or Flifo finds a mistake in what was written; 64 wrong arguments, or a file of unknown kind; 69 something cannot \
be read, asked or written; 78 a file is wrong, and nothing was written.";

const RELOAD_STATUS: &str = "\
Exit status: 0 the configuration is in force, as far as that can be without a start; 78 the configuration is wrong, \
and nothing has changed; 69 no Flifo could be asked.";

const UPGRADE_STATUS: &str = "\
The Flifo that runs starts the program that stands where it was started from, with the same arguments. That one reads the \
configuration, and then takes over what is listened on, and clients as they come to rest. Clients with TLS stay with the old \
one until they end, at most for limits.upgrade. Exit status: 0 the new one serves; 69 nothing has changed, and the reason is \
on standard error; 78 the configuration is wrong.";

const HEALTH_STATUS: &str = "\
Exit status: 0 it is well, 69 it is not, or does not answer; the reason is on standard error; 78 a wrong configuration.";

const RULES_STATUS: &str = "\
Exit status: 0 it was told; 64 wrong arguments, or a rule cannot rewrite the statement; 69 a file or a console cannot be \
read; 78 a wrong configuration.";

const RESTORE_STATUS: &str = "Exit status: 0 everything is as it was, 69 something could not be undone, or the Flifo still runs, 78 a wrong \
                              configuration";

const DOCTOR_STATUS: &str = "Exit status: 0 nothing is known to be wrong, 1 something should be looked at, 2 something is bad, \
                             64 wrong arguments, 69 no server for --fix, or a file cannot be written, 78 a wrong file of facts";

const EXIT_STATUS: &str = "Exit status: 0 all is well, 64 wrong arguments, 69 a server, port or program is not available, \
                           70 a fault of Flifo's own, 78 a wrong configuration";
