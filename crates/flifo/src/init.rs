//! `flifo init`: from nothing to pooled clients, and back.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use ::init::{Facts, InitError, Layout, Step, Wishes};
use proxy::Address;
use shell::{OK, SOFTWARE, UNAVAILABLE, USAGE, complain, print};

use crate::arguments::Init;

pub(crate) fn run(arguments: Init) -> u8 {
    let Some(layout) = layout(arguments.folder.as_deref()) else {
        complain("there is no home folder to set Flifo up in; name one with --folder");
        return USAGE;
    };
    if arguments.undo {
        return undo(&layout);
    }
    let server = match arguments.server.as_deref().map(str::parse::<Address>).transpose() {
        Ok(server) => server,
        Err(error) => {
            complain(format_args!("--server: {error}"));
            return USAGE;
        }
    };
    let Init { listen, console, http, password_file, dry_run, yes, .. } = arguments;
    let has_account = password_file.is_some();
    let wishes = Wishes { server, layout, has_account, listen, console, http };
    match set_up(&wishes, password_file.as_deref(), dry_run, yes) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            if ::init::has_begun(&wishes.layout)
                && matches!(error, InitError::Step { .. } | InitError::Trial(_))
            {
                complain("what was done is taken back by: flifo init --undo");
            }
            UNAVAILABLE
        }
    }
}

/// Root's places are the machine's; those of others are in their home.
fn layout(folder: Option<&Path>) -> Option<Layout> {
    match folder {
        Some(folder) => Some(Layout::in_folder(&std::path::absolute(folder).ok()?)),
        None if sys::process::is_root() => Some(Layout::of_machine()),
        None => {
            let home = std::env::var_os("HOME").map(PathBuf::from)?;
            Some(Layout::in_folder(&home.join(".config/flifo")))
        }
    }
}

fn set_up(
    wishes: &Wishes,
    password_file: Option<&Path>,
    dry_run: bool,
    yes: bool,
) -> Result<u8, InitError> {
    let facts = ::init::look(wishes)?;
    let own = password_file.map(::init::read_password).transpose();
    let own = own.map_err(|error| InitError::Step {
        what: "read --password-file".to_owned(),
        why: error.to_string(),
    })?;
    let Some(password) = own.or_else(random) else {
        complain("the kernel gives no random numbers for a password");
        return Ok(SOFTWARE);
    };
    let steps = ::init::steps(&facts, wishes, &password);
    print(&intention(&facts, wishes, &steps));
    if dry_run {
        print("\nNothing was done: --dry-run.\n");
        return Ok(OK);
    }
    if steps.iter().any(|step| matches!(step, Step::AccountByHand { .. })) {
        complain(
            "this user may not make accounts at the server: run flifo init as root, or have the server's administrator \
             make the account, with a password of your own, and name the file of that with --password-file",
        );
        return Ok(UNAVAILABLE);
    }
    if !yes && !agreed() {
        complain("nothing was done; --yes does it without asking");
        return Ok(USAGE);
    }
    ::init::carry_out(&facts, wishes, &steps, |step| {
        let text = step.to_string();
        print(&format!(
            "  {} ...\n",
            text.lines().next().unwrap_or_default().trim_end_matches(':')
        ));
    })?;
    let tried = ::init::try_out(wishes)?;
    print(&success(&facts, wishes, tried.client));
    Ok(OK)
}

/// A password that needs no quotes anywhere.
fn random() -> Option<String> {
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn intention(facts: &Facts, wishes: &Wishes, steps: &[Step]) -> String {
    let mut text = format!("{} at {}\n\nflifo init will\n", facts.brand, facts.server);
    for (at, step) in steps.iter().enumerate() {
        text += &format!("  {}. {step}\n", at + 1);
    }
    if let Some(advice) = ::init::certificate(facts, wishes) {
        text += &format!("\n{advice}\n");
    }
    text
}

/// Whether a person says yes.
fn agreed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    print("\nDo that? [y/N] ");
    let _ = io::stdout().flush();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}

fn success(facts: &Facts, wishes: &Wishes, client: u64) -> String {
    let layout = &wishes.layout;
    let config = layout.config();
    let undo = match *layout == Layout::of_machine() {
        true => String::new(),
        false => format!(" --folder {}", layout.folder.display()),
    };
    format!(
        "\n\
         Flifo serves: a login worked, and its client (number {client}) shares backend connections.\n\
         \n\
         Give this to applications, with the users and passwords that they have at {server}:\n\
         \x20   {listen}, or on this machine {socket}\n\
         Look:         mariadb --socket {console} -e 'SHOW CLIENTS'\n\
         Change:       edit {config}, then flifo reload --config {config}\n\
         Take it back: flifo init --undo{undo}\n",
        server = facts.server,
        listen = wishes.listen,
        socket = layout.socket().display(),
        console = layout.console().display(),
        config = config.display(),
    )
}

fn undo(layout: &Layout) -> u8 {
    match ::init::undo(layout) {
        Ok(undone) => {
            print(&undone.done.iter().map(|line| format!("{line}\n")).collect::<String>());
            undone.failed.iter().for_each(|why| complain(format_args!("not taken back: {why}")));
            if undone.failed.is_empty() { OK } else { UNAVAILABLE }
        }
        Err(error) => {
            complain(error);
            UNAVAILABLE
        }
    }
}
