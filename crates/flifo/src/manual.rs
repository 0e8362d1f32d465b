//! What is written from the definition of the arguments: manual pages, completions, the reference.

use std::fmt::Write;
use std::io;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;

/// The manual page of the program, or of one of its commands. `None` if there is no such command.
pub(crate) fn page(command: Option<&str>) -> io::Result<Option<Vec<u8>>> {
    let mut program = Arguments::command();
    // Gives the commands their full names: flifo-run.
    program.build();
    let page = match command {
        None => Some(program),
        Some(name) => commands(&program).into_iter().find(|it| full_name(it) == name).cloned(),
    };
    let Some(page) = page else { return Ok(None) };
    let mut out = Vec::new();
    Man::new(page).source(concat!("flifo ", env!("CARGO_PKG_VERSION"))).render(&mut out)?;
    Ok(Some(out))
}

pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "flifo", &mut out);
    out
}

/// The reference of the command line, as Markdown.
pub(crate) fn reference() -> String {
    // The version is left out, else every release would change the page.
    let mut program = Arguments::command().version(None).term_width(HELP_WIDTH);
    program.build();
    let mut out = String::from(INTRODUCTION);
    describe(&mut program.clone(), &mut out);
    for command in commands(&program) {
        describe(&mut command.clone().term_width(HELP_WIDTH), &mut out);
    }
    out
}

/// The commands, and behind each its own.
fn commands(program: &Command) -> Vec<&Command> {
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
    shown.flat_map(|command| [vec![command], commands(command)].concat()).collect()
}

/// As it is asked for: `run`, `bench-run`. Of a program that has been built.
fn full_name(command: &Command) -> &str {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    name.strip_prefix("flifo-").unwrap_or(name)
}

fn describe(command: &mut Command, out: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    // A string takes everything.
    let _ = write!(out, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}

const HELP_WIDTH: usize = 100;

const INTRODUCTION: &str = "\
<!-- Written by `flifo cli-reference`; do not edit. -->
# Command line

`flifo man` and `flifo man COMMAND` write manual pages from the same definitions, and
`flifo completions SHELL` what a shell needs to complete them.
";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_reference_is_the_committed_page() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
        let page = fs::read_to_string(path).unwrap_or_default();
        let hint = "run `flifo cli-reference >docs/reference/cli.md`";
        assert!(page == reference(), "the page differs from the arguments: {hint}");
    }

    #[test]
    fn every_command_has_a_page() {
        let mut program = Arguments::command();
        program.build();
        let names: Vec<&str> = commands(&program).into_iter().map(full_name).collect();
        assert!(names.contains(&"demo") && names.contains(&"bench-run"), "{names:?}");
        for name in names {
            let page = page(Some(name)).expect("renders").expect("is there");
            let page = String::from_utf8(page).expect("is text");
            assert!(page.contains(".SH SYNOPSIS"), "{page}");
            assert!(page.contains(&format!("flifo\\-{}", name.replace('-', "\\-"))), "{page}");
        }
        assert_eq!(page(Some("nonsense")).expect("renders"), None);
        assert!(page(None).expect("renders").is_some());
    }

    #[test]
    fn shells_are_told_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(shell)).expect("is text");
            assert!(text.contains("check-config") && text.contains("workers"), "{shell}");
        }
    }
}
