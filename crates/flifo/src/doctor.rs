//! `flifo doctor`: examines, prints what was found, and cures what it is asked to.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

use ::doctor::{
    Account, AskedServer, Colours, Cure, Diagnosis, Examination, Facts, GlobalVariables, Outcome,
    Patient, Script, Verdict,
};
use proxy::discover;
use shell::{CONFIG, OK, UNAVAILABLE, USAGE, complain, print};

use crate::arguments::Doctor;
use crate::front;

pub(crate) fn run(arguments: &Doctor) -> u8 {
    match examine(arguments) {
        Ok(verdict) => match verdict {
            Verdict::Bad => BAD,
            Verdict::Warn => WARN,
            Verdict::Ok | Verdict::Unknown => OK,
        },
        Err(Failure { code, message }) => {
            complain(format_args!("doctor: {message}"));
            code
        }
    }
}

const WARN: u8 = 1;
const BAD: u8 = 2;

struct Failure {
    code: u8,
    message: String,
}

fn fail(code: u8) -> impl FnOnce(String) -> Failure {
    move |message| Failure { code, message }
}

fn examine(arguments: &Doctor) -> Result<Verdict, Failure> {
    if let Some(file) = &arguments.facts {
        let facts = read_facts(file).map_err(fail(CONFIG))?;
        return tell(arguments, &facts);
    }
    let address = find(arguments)?;
    let account = account(arguments).map_err(fail(USAGE))?;
    let answer = match &address {
        Some(address) => AskedServer::connect(address, &account).map_err(|why| why.to_string()),
        None => Err("no server was found on this machine; name it with --server".to_owned()),
    };
    let why_not = answer.as_ref().err().cloned().unwrap_or_default();
    if !why_not.is_empty() {
        complain(format_args!("doctor: {why_not}"));
    }
    let examination = Examination {
        tree: ::doctor::Tree::live(),
        address,
        proxy: arguments.proxy,
        watch: arguments.watch,
    };
    let mut server = answer.ok();
    let facts = look(&examination, server.as_mut(), &why_not);
    if let Some(file) = &arguments.save {
        write_facts(file, &facts).map_err(fail(UNAVAILABLE))?;
    }
    let verdict = tell(arguments, &facts)?;
    match server {
        _ if !arguments.fix => Ok(verdict),
        Some(server) => mend(arguments, &account, examination, server, facts),
        None => Err(fail(UNAVAILABLE)("--fix needs a server that answers".to_owned())),
    }
}

/// Examines, and reads how the Flifo in front of the server is configured.
fn look(examination: &Examination, server: Option<&mut AskedServer>, why_not: &str) -> Facts {
    let mut facts = examination.run(server, why_not);
    if let Some(pid) = facts.flifo() {
        facts.front = front::of(pid);
    }
    facts
}

/// The server that is named, or the one that this machine has.
fn find(arguments: &Doctor) -> Result<Option<proxy::Address>, Failure> {
    if let Some(text) = &arguments.server {
        let address = text.parse().map_err(|error| fail(USAGE)(format!("--server {error}")))?;
        return Ok(Some(address));
    }
    let found = discover::find(Path::new("/"), &[], discover::greeting);
    Ok(found.server().map(|server| server.address.clone()))
}

fn account(arguments: &Doctor) -> Result<Account, String> {
    let password = match &arguments.password_file {
        Some(file) => {
            let text = fs::read_to_string(file);
            let text =
                text.map_err(|error| format!("--password-file {}: {error}", file.display()))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        None => std::env::var("MYSQL_PWD").unwrap_or_default(),
    };
    let user = match &arguments.user {
        Some(user) => user.clone(),
        None => ::doctor::user(),
    };
    Ok(Account { user, password: password.as_str().into() })
}

fn tell(arguments: &Doctor, facts: &Facts) -> Result<Verdict, Failure> {
    let all = ::doctor::diagnose(facts);
    let text = match arguments.json {
        true => ::doctor::json(&facts.server.address, &all)
            .map_err(|error| fail(UNAVAILABLE)(format!("cannot be written as JSON: {error}")))?,
        false => ::doctor::text(&facts.server.address, &all, colours()),
    };
    print(&format!("{}\n", text.trim_end()));
    Ok(::doctor::worst(&all))
}

fn colours() -> Colours {
    match shell::wants_colours() {
        true => Colours::On,
        false => Colours::Off,
    }
}

fn read_facts(file: &Path) -> Result<Facts, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let wrong =
        |error| format!("{} holds no facts of `flifo doctor --save`: {error}", file.display());
    serde_json::from_str(&text).map_err(wrong)
}

fn write_facts(file: &Path, facts: &Facts) -> Result<(), String> {
    let text = serde_json::to_string_pretty(facts).map_err(|error| error.to_string())?;
    fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
}

/// Cures what can be cured, and returns how things are then.
fn mend(
    arguments: &Doctor,
    account: &Account,
    examination: Examination,
    server: AskedServer,
    facts: Facts,
) -> Result<Verdict, Failure> {
    let path = &arguments.undo;
    let lost = |error: io::Error| {
        let text = format!("{}: {error}; name another file with --undo", path.display());
        fail(UNAVAILABLE)(text)
    };
    let client = client(&facts.server.address, &account.user);
    let mut script = Script::create(path, client).map_err(lost)?;
    let asks = if arguments.yes { Asks::Never } else { Asks::Always };
    let tree = examination.tree.clone();
    let mut patient = Bedside { examination, server, asks };
    let after = ::doctor::cure(&tree, &mut patient, facts, &mut script).map_err(lost)?;
    if script.finish().map_err(lost)? {
        eprintln!("To undo what was kept: sh {}", path.display());
    } else {
        eprintln!("Nothing has been changed.");
    }
    Ok(::doctor::worst(&::doctor::diagnose(&after)))
}

/// The command that speaks to the server in the undo script. It takes a password from MYSQL_PWD.
fn client(address: &str, user: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let place = match address.parse() {
        Ok(proxy::Address::Tcp { host, port }) => {
            format!("--protocol=tcp --host={} --port={port}", quote(&host))
        }
        _ => format!("--socket={}", quote(address)),
    };
    format!("\"$(command -v mariadb || command -v mysql)\" {place} --user={}", quote(user))
}

enum Asks {
    Always,
    Never,
}

/// Asks at the terminal.
struct Bedside {
    examination: Examination,
    server: AskedServer,
    asks: Asks,
}

impl Patient for Bedside {
    fn examine(&mut self) -> Facts {
        let mut examination = self.examination.clone();
        examination.watch = examination.watch.max(REMEASURED_MIN);
        look(&examination, Some(&mut self.server), "")
    }

    fn variables(&mut self) -> &mut dyn GlobalVariables {
        &mut self.server
    }

    fn agrees(&mut self, diagnosis: &Diagnosis, cure: &Cure) -> bool {
        eprintln!("\n{}: {}", diagnosis.finding.title, diagnosis.judgement.evidence);
        for change in &cure.changes {
            eprintln!("  {change}");
        }
        if matches!(self.asks, Asks::Never) {
            return true;
        }
        eprint!("Do it? [y/N] ");
        let _ = io::stderr().flush();
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
    }

    fn hears(&mut self, _: &Diagnosis, outcome: &Outcome) {
        match outcome {
            Outcome::Declined => eprintln!("  left alone"),
            Outcome::Kept { before, after, again: None } => {
                eprintln!("  kept: {before:.0} statements/s before, {after:.0} after");
            }
            Outcome::Kept { before, after, again: Some(again) } => eprintln!(
                "  kept: {before:.0} statements/s before, {after:.0} with it, {again:.0} without \
                 it again"
            ),
            Outcome::Undone { before, after, verdict } => eprintln!(
                "  undone: {before:.0} statements/s before, {after:.0} after, and the finding \
                 was {verdict}"
            ),
            Outcome::Failed(why) => eprintln!("  not done: {why}"),
            Outcome::Stuck(why) => eprintln!("  cannot be undone: {why}; the script has it"),
        }
    }
}

/// Shorter looks at a load differ by more than a cure gains.
const REMEASURED_MIN: Duration = Duration::from_secs(3);
