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
    fn the_reference_is_the_committed_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli-bench.md");
        let checked = shell::check_reference(Arguments::command(), INTRODUCTION, page.as_ref());
        assert_eq!(checked, Ok(()));
    }
}
