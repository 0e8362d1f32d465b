//! The `flifo-bench` command, which `flifo bench`, `flifo lab` and `flifo demo` start: arguments in, exit code out.

mod arguments;
mod demo;
mod lab;
mod measure;

use std::process::ExitCode;

use clap::CommandFactory;

use self::arguments::{Arguments, Command};

fn main() -> ExitCode {
    shell::main(|Arguments { command }| match command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(command) => measure::bench(command),
        Command::Lab(command) => lab::run(command),
        Command::Manual(asked) => asked.tell(Arguments::command(), INTRODUCTION),
    })
}

const INTRODUCTION: &str = "\
<!-- Written by `flifo-bench cli-reference`; do not edit. -->
# Command line of flifo-bench

`flifo bench`, `flifo lab` and `flifo demo` start this program with the same arguments: `flifo bench run` is
`flifo-bench bench run`. `flifo-bench man` and `flifo-bench man COMMAND` write manual pages from the same
definitions, and `flifo-bench completions SHELL` what a shell needs to complete them.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_reference_is_the_committed_page() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(folder.join("../../docs/reference/cli-bench.md"));
        let is_same =
            page.unwrap_or_default() == shell::reference(Arguments::command(), INTRODUCTION);
        let hint = "run `flifo-bench cli-reference >docs/reference/cli-bench.md`";
        assert!(is_same, "the page differs from the arguments: {hint}");
    }
}
