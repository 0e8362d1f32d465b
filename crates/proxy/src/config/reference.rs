//! The reference page and the sample file, written from the table of options.

use std::fmt::Write;

use super::form::Form;
use super::options::{
    Applies, CLASSES, CLUSTERS, LISTS, ROUTES, Row, SECTIONS, SERVERS, Section, USERS,
};
use super::plan::{ClassRule, ClusterRule, Plan, RouteRule, ServerRule, UserOptions};
use super::rules;

/// The reference of all options, as Markdown.
pub fn reference() -> String {
    let mut out = String::from(REFERENCE_INTRODUCTION);
    for section in SECTIONS {
        describe_section(section, &mut Plan::default(), &mut out);
    }
    describe_section(USERS, &mut UserOptions::default(), &mut out);
    describe_section(CLASSES, &mut ClassRule::default(), &mut out);
    describe_section(CLUSTERS, &mut ClusterRule::default(), &mut out);
    describe_section(SERVERS, &mut ServerRule::default(), &mut out);
    describe_section(ROUTES, &mut RouteRule::default(), &mut out);
    out.push_str(RULES_INTRODUCTION);
    rules::describe(&mut out);
    out
}

/// A file with every option, its default and what it does, in which nothing is set yet.
pub fn sample() -> String {
    let mut out = String::from(SAMPLE_INTRODUCTION);
    for section in SECTIONS {
        let header = match section.name {
            "" => String::new(),
            name => format!("[{name}]\n"),
        };
        show_section(section, &header, &mut Plan::default(), &mut out);
    }
    // Without its header, an option of a user would belong to the section before.
    show_section(USERS, "#[[users]]\n", &mut UserOptions::default(), &mut out);
    show_section(CLASSES, "#[[classes]]\n", &mut ClassRule::default(), &mut out);
    show_section(CLUSTERS, "#[[clusters]]\n", &mut ClusterRule::default(), &mut out);
    show_section(SERVERS, "#[[servers]]\n", &mut ServerRule::default(), &mut out);
    show_section(ROUTES, "#[[routes]]\n", &mut RouteRule::default(), &mut out);
    out
}

/// An option, as it is shown. Of a secret, whether it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownOption {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) default: Option<String>,
    /// Where it was set: in the file, on the command line; else it is the default.
    pub(crate) source: &'static str,
}

/// Every option of a plan but those of lists.
pub(crate) fn shown(plan: &Plan) -> Vec<ShownOption> {
    let (mut plan, mut default) = (plan.clone(), Plan::default());
    let mut shown = Vec::new();
    for section in SECTIONS {
        for row in section.rows {
            let (mut value, default) = (row.form.show(&mut plan), row.form.show(&mut default));
            if let (None, Form::Secret { .. }) = (&value, &row.form) {
                value = Some("not set".to_owned());
            }
            let name = section.path(row.name);
            let source = plan.sources.get(&name).copied().unwrap_or("default");
            shown.push(ShownOption { name, value, default, source });
        }
    }
    shown
}

fn describe_section<T>(section: &Section<T>, target: &mut T, out: &mut String) {
    let heading = match section.name {
        "" => "At the top of the file".to_owned(),
        name if LISTS.contains(&name) => format!("`[[{name}]]`"),
        name => format!("`[{name}]`"),
    };
    write_all(out, format_args!("\n## {heading}\n\n{}\n", section.doc));
    for row in section.rows {
        describe(section, row, target, out);
    }
}

fn describe<T>(section: &Section<T>, row: &Row<T>, target: &mut T, out: &mut String) {
    let path = section.path(row.name);
    let default = match row.form.show(target) {
        Some(default) => format!("`{default}`"),
        None => "none".to_owned(),
    };
    let allowed = row.form.allowed();
    write_all(
        out,
        format_args!("\n### `{path}`\n\n{}\n\n- Value: {allowed}\n- Default: {default}\n", row.doc),
    );
    if let Some(example) = row.example {
        write_all(out, format_args!("- Example: `{} = {example}`\n", row.name));
    }
    if !row.elsewhere.is_empty() {
        let names = row.elsewhere.iter().map(|(program, name)| format!("{program} `{name}`"));
        let names: Vec<_> = names.collect();
        write_all(out, format_args!("- Elsewhere: {}\n", names.join(", ")));
    }
    let why = match row.applies {
        Applies::Restart(why) => format!(": {why}"),
        Applies::Now | Applies::NewConnections => String::new(),
    };
    write_all(out, format_args!("- In force after a reload: {}{why}\n", row.applies.name()));
    write_all(out, format_args!("- Since: {}\n", row.since));
}

fn show_section<T>(section: &Section<T>, header: &str, target: &mut T, out: &mut String) {
    write_all(out, format_args!("\n\n"));
    comment(section.doc, out);
    out.push_str(header);
    for row in section.rows {
        out.push('\n');
        comment(row.doc, out);
        comment(&format!("Value: {}.", row.form.allowed()), out);
        let default = row.form.show(target);
        let value = default.as_deref().or(row.example).unwrap_or("\"\"");
        let remark = if default.is_none() { "   # an example; not set by default" } else { "" };
        write_all(out, format_args!("#{} = {value}{remark}\n", row.name));
    }
}

/// Writes a paragraph as comments of bounded width.
fn comment(text: &str, out: &mut String) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if COMMENT_WIDTH < line.len() + 1 + word.len() {
            write_all(out, format_args!("##{line}\n"));
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    write_all(out, format_args!("##{line}\n"));
}

fn write_all(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = out.write_fmt(text);
}

const COMMENT_WIDTH: usize = 88;

const REFERENCE_INTRODUCTION: &str = "\
<!-- Written by `flifo config-reference`; do not edit. -->
# Configuration

Flifo needs no configuration: `flifo run` finds the server of this machine and serves. What differs
from the defaults is told in a file, `flifo run --config FILE`, in the format
[TOML](https://toml.io). `flifo check-config FILE` tells everything that is wrong with a file;
`flifo config-sample` writes one that has every option with its default, ready to be edited.

A duration is a number with its unit, such as `\"500ms\"`, `\"10s\"`, `\"2m\"` or `\"1h30m\"`; a size
likewise: `\"64KiB\"`, `\"16MiB\"`.

A reload (`RELOAD` on the console, SIGHUP) reads the file again. Each option says below when its new
value is in force then.
";

const RULES_INTRODUCTION: &str = "
## `[[rules]]`

What is done with some statements: they are rewritten, refused, answered, routed, classed, delayed, or held to a rate. Rules
stand in order, and a statement goes through all of them once. [The manual](../manual/rules.md) explains them. A
reload puts them in force for the next statement of each client.

";

const SAMPLE_INTRODUCTION: &str = "\
## Flifo's configuration. Every option is listed with its default; all of them may be left out.
## Lines with ## explain; remove a # to change an option. Then: flifo check-config FILE
";
