//! What is written from the definition of a program's arguments: manual pages, completions, the reference.

use std::fmt::Write;
use std::io;
use std::path::Path;

use clap::{Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{SOFTWARE, USAGE, complain, show};

/// The commands that tell of a program's own command line.
#[derive(Debug, Subcommand)]
pub enum Manual {
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print a manual page.
    Man {
        /// The command that it is about; all of them if not given.
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
    /// Print the reference of the command line.
    #[command(hide = true)]
    CliReference,
}

impl Manual {
    /// Tells it of this program, whose reference begins with this text. Returns the exit status.
    pub fn tell(self, program: Command, introduction: &str) -> u8 {
        match self {
            Self::Completions { shell } => {
                show(&String::from_utf8_lossy(&completions(program, shell)))
            }
            Self::Man { command } => man(program, command.as_deref()),
            Self::CliReference => show(&reference(program, introduction)),
        }
    }
}

fn man(program: Command, command: Option<&str>) -> u8 {
    let name = program.get_name().to_owned();
    match page(program, command) {
        Ok(Some(page)) => show(&String::from_utf8_lossy(&page)),
        Ok(None) => {
            let command = command.unwrap_or_default();
            complain(format_args!("man: there is no command {command:?}; see {name} --help"));
            USAGE
        }
        Err(error) => {
            complain(format_args!("man: the page cannot be written: {error}"));
            SOFTWARE
        }
    }
}

/// The manual page of a program, or of one of its commands. `None` if there is no such command.
fn page(mut program: Command, command: Option<&str>) -> io::Result<Option<Vec<u8>>> {
    // Gives the commands their full names: flifo-run.
    program.build();
    let page = match command {
        None => Some(&program),
        Some(name) => commands(&program).into_iter().find(|it| full_name(&program, it) == name),
    };
    let Some(page) = page.cloned() else { return Ok(None) };
    let mut out = Vec::new();
    let source = format!("{} {}", program.get_name(), env!("CARGO_PKG_VERSION"));
    Man::new(page).source(source).render(&mut out)?;
    Ok(Some(out))
}

fn completions(mut program: Command, shell: Shell) -> Vec<u8> {
    let mut out = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(shell, &mut program, name, &mut out);
    out
}

/// The reference of a program's command line, as Markdown, behind this introduction.
pub fn reference(program: Command, introduction: &str) -> String {
    // The version is left out, else every release would change the page.
    let mut program = program.version(None).term_width(HELP_WIDTH);
    program.build();
    let mut out = String::from(introduction);
    describe(&mut program.clone(), &mut out);
    for command in commands(&program) {
        describe(&mut command.clone().term_width(HELP_WIDTH), &mut out);
    }
    out
}

/// For the tests of a program: whether its definition is sound, and `page` is its reference. An error says what to run.
///
/// # Panics
/// If the definition contradicts itself.
pub fn check_reference(program: Command, introduction: &str, page: &Path) -> Result<(), String> {
    program.clone().debug_assert();
    let name = program.get_name().to_owned();
    match std::fs::read_to_string(page).unwrap_or_default() == reference(program, introduction) {
        true => Ok(()),
        false => Err(format!(
            "the page differs from the arguments: run `{name} cli-reference >{}`",
            page.display()
        )),
    }
}

/// The commands, and behind each its own. One without help is another program's, which describes it.
fn commands(program: &Command) -> Vec<&Command> {
    let is_own = |command: &&Command| !command.is_hide_set() && !command.is_disable_help_flag_set();
    let shown = program.get_subcommands().filter(is_own);
    shown.flat_map(|command| [vec![command], commands(command)].concat()).collect()
}

/// As it is asked for: `run`, `bench-run`. Of a program that has been built.
fn full_name<'a>(program: &Command, command: &'a Command) -> &'a str {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let own = name.strip_prefix(program.get_name()).and_then(|rest| rest.strip_prefix('-'));
    own.unwrap_or(name)
}

fn describe(command: &mut Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    // A string takes everything.
    let _ = write!(out, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}

const HELP_WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    /// A program with a command of a command, one that is another program's, and one that is hidden.
    fn program() -> Command {
        let go = Command::new("go").about("Go.").arg(Arg::new("far").long("far"));
        let deep = Command::new("deep").about("Deeper.").subcommand(go);
        let other = Command::new("other").disable_help_flag(true);
        Command::new("some-program").subcommands([deep, other, Command::new("hidden").hide(true)])
    }

    #[test]
    fn every_command_of_its_own_has_a_page() {
        let mut built = program();
        built.build();
        let names: Vec<&str> = commands(&built).iter().map(|it| full_name(&built, it)).collect();
        assert_eq!(names, ["deep", "deep-go"]);
        for name in names {
            let page = page(program(), Some(name)).expect("renders").expect("is there");
            let page = String::from_utf8(page).expect("is text");
            assert!(page.contains(".SH SYNOPSIS"), "{page}");
            let full = format!("some-program-{name}").replace('-', "\\-");
            assert!(page.contains(&full), "{page}");
        }
        assert_eq!(page(program(), Some("other")).expect("renders"), None);
        assert!(page(program(), None).expect("renders").is_some());
    }

    #[test]
    fn shells_are_told_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(program(), shell)).expect("is text");
            assert!(text.contains("deep") && text.contains("far"), "{shell}");
        }
    }

    #[test]
    fn the_reference_has_each_command_once() {
        let page = reference(program(), "# Program\n");
        let titles: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        let want = [
            "# Program",
            "## `some-program`",
            "## `some-program deep`",
            "## `some-program deep go`",
        ];
        assert_eq!(titles, want);
    }
}
