//! Compares what a suite says directly with what it says on other ways, and judges the differences.
//!
//! Pure functions of results and explanations. Invariants: a test that ran on one way only differs; an
//! explanation that nothing needs any more is a fault, unless it says that the test differs sometimes.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::outcomes::{Outcome, Results};

/// The file of known differences.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanations {
    #[serde(default)]
    pub(crate) difference: Vec<Explanation>,
}

/// Why a test may come out differently.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explanation {
    pub(crate) suite: String,
    /// The test's name; with a star at its end, all that begin so.
    pub(crate) test: String,
    pub(crate) ways: Vec<String>,
    pub(crate) why: String,
    /// Only where clients share no more backends than these; there it may also come out the same.
    pub(crate) backends: Option<u32>,
    /// The test may also come out the same.
    #[serde(default)]
    pub(crate) sometimes: bool,
}

/// A test that came out differently on a way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference<'a> {
    pub(crate) test: String,
    pub(crate) way: &'static str,
    /// `None`: the test was not run.
    pub(crate) direct: Option<Outcome>,
    pub(crate) through: Option<Outcome>,
    pub(crate) why: Option<&'a str>,
}

impl Explanation {
    fn covers(&self, suite: &str, test: &str, way: &str) -> bool {
        let named = match self.test.strip_suffix('*') {
            Some(start) => test.starts_with(start),
            None => test == self.test,
        };
        named && self.suite == suite && self.ways.iter().any(|it| it == way)
    }
}

impl Explanations {
    /// Those that hold with so many backends; `None`: with as many as there are clients.
    pub(crate) fn with_backends(mut self, shared: Option<u32>) -> Self {
        self.difference.retain(|it| match (it.backends, shared) {
            (Some(most), shared) => shared.is_some_and(|backends| backends <= most),
            (None, _) => true,
        });
        self
    }
}

/// Lists the tests that differ between the two results.
pub(crate) fn differences<'a>(
    suite: &str,
    way: &'static str,
    direct: &Results,
    through: &Results,
    known: &'a Explanations,
) -> Vec<Difference<'a>> {
    let tests: BTreeSet<&String> = direct.keys().chain(through.keys()).collect();
    let differing = tests.into_iter().filter(|test| direct.get(*test) != through.get(*test));
    let explain = |test: &str| {
        let found = known.difference.iter().find(|it| it.covers(suite, test, way));
        found.map(|it| it.why.as_str())
    };
    differing
        .map(|test| Difference {
            test: test.clone(),
            way,
            direct: direct.get(test).copied(),
            through: through.get(test).copied(),
            why: explain(test),
        })
        .collect()
}

/// Lists the tests that failed on a way that is compared with no other.
pub(crate) fn failures<'a>(
    suite: &str,
    way: &'static str,
    results: &Results,
    known: &'a Explanations,
) -> Vec<Difference<'a>> {
    let passing = results.iter().map(|(test, outcome)| match outcome {
        Outcome::Failed => (test.clone(), Outcome::Passed),
        other => (test.clone(), *other),
    });
    let mut found = differences(suite, way, &passing.collect(), results, known);
    found.iter_mut().for_each(|one| one.direct = one.through);
    found
}

/// Explanations for this suite and way that no difference needs.
pub(crate) fn stale<'a>(
    suite: &str,
    way: &str,
    found: &[Difference<'_>],
    known: &'a Explanations,
) -> Vec<&'a str> {
    let here = known.difference.iter().filter(|it| {
        !it.sometimes
            && it.backends.is_none()
            && it.suite == suite
            && it.ways.iter().any(|named| named == way)
    });
    here.filter(|it| !found.iter().any(|one| it.covers(suite, &one.test, way)))
        .map(|it| it.test.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(text: &str) -> Results {
        let outcome = |letter| match letter {
            "p" => Outcome::Passed,
            "f" => Outcome::Failed,
            _ => Outcome::Skipped,
        };
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("a pair"));
        pairs.map(|(name, letter)| (name.to_owned(), outcome(letter))).collect()
    }

    #[test]
    fn some_explanations_hold_with_few_backends_only() {
        let text = "[[difference]]\nsuite = \"go\"\ntest = \"A\"\nways = [\"pooled\"]\nwhy = \"\"\nbackends = 2\n";
        let left = |shared| {
            let known: Explanations = toml::from_str(text).expect("is well formed");
            known.with_backends(shared).difference.len()
        };
        assert_eq!((left(None), left(Some(3)), left(Some(2))), (0, 0, 1));
        let known: Explanations = toml::from_str(text).expect("is well formed");
        assert_eq!(stale("go", "pooled", &[], &known), Vec::<&str>::new());
    }

    fn known(sometimes: bool) -> Explanations {
        let text = format!(
            "[[difference]]\nsuite = \"go\"\ntest = \"TestC*\"\nways = [\"pooled\"]\n\
             why = \"because\"\nsometimes = {sometimes}\n"
        );
        toml::from_str(&text).expect("is well formed")
    }

    #[test]
    fn what_differs_is_listed_and_explained_where_it_can_be() {
        let (direct, through) =
            (results("a=p b=f c=p TestC1=p"), results("a=p b=f c=f TestC1=s d=p"));
        let known = known(false);
        let found = differences("go", "pooled", &direct, &through, &known);
        let brief: Vec<_> = found.iter().map(|one| (one.test.as_str(), one.why)).collect();
        assert_eq!(brief, [("TestC1", Some("because")), ("c", None), ("d", None)]);
        assert!(stale("go", "pooled", &found, &known).is_empty());
        let pass_through = differences("go", "pass-through", &direct, &through, &known);
        assert!(pass_through.iter().all(|one| one.why.is_none()));
    }

    #[test]
    fn equal_results_leave_an_explanation_without_need() {
        let same = results("TestC1=p");
        assert!(differences("go", "pooled", &same, &same, &known(false)).is_empty());
        assert_eq!(stale("go", "pooled", &[], &known(false)), ["TestC*"]);
        assert!(stale("go", "pooled", &[], &known(true)).is_empty());
        assert!(stale("php", "pooled", &[], &known(false)).is_empty());
    }
}
