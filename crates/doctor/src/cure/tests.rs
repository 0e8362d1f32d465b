//! Cures are tried on a patient whose looks are told beforehand.

use std::collections::BTreeMap;

use super::*;
use crate::example::{healthy, set_rate, set_variable};

/// Of what it is asked and told it keeps account.
struct Told {
    /// Statements a second at each look that is still to come.
    rates: Vec<f64>,
    variables: Table,
    agrees: bool,
    outcomes: Vec<(&'static str, Outcome)>,
    script: PathBuf,
    /// What the script held while the cure was looked at.
    scripts: Vec<String>,
}

struct Table {
    values: BTreeMap<String, String>,
    /// The only one that it lets be set.
    only: Option<&'static str>,
    /// How often it lets itself be told something.
    sets_left: u32,
}

impl GlobalVariables for Table {
    fn get(&mut self, name: &str) -> io::Result<String> {
        Ok(self.values[name].clone())
    }

    fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        if self.sets_left == 0 || self.only.is_some_and(|only| only != name) {
            return Err(io::Error::other("access denied"));
        }
        self.sets_left -= 1;
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

impl Told {
    fn facts(&self, rate: f64) -> Facts {
        let mut facts = healthy();
        for (name, value) in &self.variables.values {
            set_variable(&mut facts, name, value);
        }
        set_rate(&mut facts, "Questions", rate);
        facts
    }
}

impl Patient for Told {
    fn examine(&mut self) -> Facts {
        self.scripts.push(fs::read_to_string(&self.script).expect("is there"));
        let rate = self.rates.remove(0);
        self.facts(rate)
    }

    fn variables(&mut self) -> &mut dyn GlobalVariables {
        &mut self.variables
    }

    fn agrees(&mut self, _: &Diagnosis, _: &Cure) -> bool {
        self.agrees
    }

    fn hears(&mut self, diagnosis: &Diagnosis, outcome: &Outcome) {
        self.outcomes.push((diagnosis.finding.name, outcome.clone()));
    }
}

/// Tries the cures of a server with these variables, at 10 000 statements a second, and then at
/// those that are told. Returns the patient, and whether a script is left.
fn treat(values: &[(&str, &str)], rates: &[f64], change: impl FnOnce(&mut Told)) -> (Told, bool) {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("undo.sh");
    let values = values.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned()));
    let mut patient = Told {
        rates: rates.to_vec(),
        variables: Table { values: values.collect(), only: None, sets_left: 100 },
        agrees: true,
        outcomes: Vec::new(),
        script: path.clone(),
        scripts: Vec::new(),
    };
    change(&mut patient);
    let mut script = Script::create(&path, "mariadb".to_owned()).expect("begins");
    let first = patient.facts(10_000.0);
    cure(&Tree::live(), &mut patient, first, &mut script).expect("goes well");
    let is_left = script.finish().expect("ends");
    assert_eq!(is_left, path.exists());
    (patient, is_left)
}

const CACHE: (&str, &str) = ("query_cache_type", "ON");
const BUFFER: (&str, &str) = ("sort_buffer_size", "67108864");

#[test]
fn what_makes_it_faster_is_kept_and_was_noted_first() {
    let (patient, is_left) = treat(&[CACHE], &[12_000.0, 10_200.0], |_| {});
    let kept = Outcome::Kept { before: 10_000.0, after: 12_000.0, again: Some(10_200.0) };
    assert_eq!(patient.outcomes, [("query-cache", kept)]);
    assert_eq!(patient.variables.values["query_cache_type"], "OFF");
    assert!(is_left && patient.scripts[0].contains("query_cache_type = '\\''ON"));
}

#[test]
fn a_load_that_grew_by_itself_is_no_proof() {
    let (patient, is_left) = treat(&[CACHE], &[12_000.0, 12_100.0], |_| {});
    let verdict = Verdict::Ok;
    let undone = Outcome::Undone { before: 12_100.0, after: 12_000.0, verdict };
    assert_eq!(patient.outcomes, [("query-cache", undone)]);
    assert_eq!(patient.variables.values["query_cache_type"], "ON");
    // While it was looked at without it, there was nothing to undo.
    assert!(!is_left && !patient.scripts[1].contains("query_cache_type"));
}

#[test]
fn a_cure_that_cannot_be_made_again_is_not_kept() {
    let rates = [12_000.0, 10_000.0];
    let (patient, is_left) = treat(&[CACHE], &rates, |it| it.variables.sets_left = 2);
    assert!(matches!(patient.outcomes[..], [(_, Outcome::Failed(_))]), "{:?}", patient.outcomes);
    assert_eq!(patient.variables.values["query_cache_type"], "ON");
    assert!(!is_left);
}

#[test]
fn what_does_not_make_it_faster_is_undone() {
    let (patient, is_left) = treat(&[CACHE], &[10_100.0], |_| {});
    let [(_, Outcome::Undone { .. })] = &patient.outcomes[..] else {
        panic!("{:?}", patient.outcomes)
    };
    assert_eq!(patient.variables.values["query_cache_type"], "ON");
    assert!(!is_left);
}

#[test]
fn a_finding_that_is_gone_is_kept_unless_it_made_things_slower() {
    let (patient, _) = treat(&[BUFFER], &[10_000.0], |_| {});
    assert!(matches!(patient.outcomes[..], [("big-buffers", Outcome::Kept { .. })]));
    assert_eq!(patient.variables.values["sort_buffer_size"], "4194304");
    let (patient, is_left) = treat(&[BUFFER], &[7_000.0], |_| {});
    assert!(matches!(patient.outcomes[..], [(_, Outcome::Undone { .. })]));
    assert_eq!(patient.variables.values["sort_buffer_size"], "67108864");
    assert!(!is_left);
}

#[test]
fn one_is_tried_at_a_time_the_worst_first_and_each_once() {
    let (patient, is_left) = treat(&[CACHE, BUFFER], &[10_000.0, 10_000.0], |_| {});
    let names: Vec<_> = patient.outcomes.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["big-buffers", "query-cache"]);
    assert!(is_left && patient.variables.values["query_cache_type"] == "ON");
}

#[test]
fn what_is_declined_or_refused_changes_nothing() {
    let (patient, is_left) = treat(&[CACHE], &[], |it| it.agrees = false);
    assert_eq!(patient.outcomes, [("query-cache", Outcome::Declined)]);
    assert!(!is_left);
    let (patient, is_left) = treat(&[CACHE], &[], |it| it.variables.sets_left = 0);
    assert!(matches!(patient.outcomes[..], [(_, Outcome::Failed(_))]), "{:?}", patient.outcomes);
    assert!(!is_left);
}

#[test]
fn of_several_changes_those_before_the_one_that_failed_are_undone() {
    let values = [BUFFER, ("join_buffer_size", "67108864")];
    let (patient, is_left) = treat(&values, &[], |it| it.variables.only = Some("sort_buffer_size"));
    assert!(matches!(patient.outcomes[..], [(_, Outcome::Failed(_))]), "{:?}", patient.outcomes);
    assert_eq!(patient.variables.values["sort_buffer_size"], "67108864");
    assert!(!is_left);
}

#[test]
fn what_cannot_be_undone_stays_in_the_script() {
    let (patient, is_left) = treat(&[CACHE], &[5_000.0], |it| it.variables.sets_left = 1);
    assert!(matches!(patient.outcomes[..], [(_, Outcome::Stuck(_))]), "{:?}", patient.outcomes);
    assert!(is_left && patient.scripts[0].contains("query_cache_type"));
}

#[test]
fn a_script_that_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("undo.sh");
    fs::write(&path, "precious").expect("writes");
    let error = Script::create(&path, "mariadb".to_owned()).expect_err("refuses");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).expect("reads"), "precious");
}
