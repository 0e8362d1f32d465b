//! The frame, with an experiment that does nothing but write down what is asked of it.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::ensure;

use super::*;
use crate::chart::Grid;
use crate::interrupt::Interrupt;
use crate::interrupt::Interrupted;
use crate::table::Colours;

type Diary = Rc<RefCell<Vec<String>>>;

struct Fake {
    diary: Diary,
    treatments: Vec<u32>,
    /// The treatment that cannot be measured.
    fails: u32,
}

struct Stage(Diary);

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.borrow_mut().push("stage ends".into());
    }
}

impl Experiment for Fake {
    type Treatment = u32;
    type Stage = Stage;
    type Figure = u32;

    fn about(&self) -> About {
        About { name: "fake", question: "Does it?", seed: "It did once.", seconds: 1 }
    }

    fn treatments(&self) -> (Vec<u32>, Vec<String>) {
        (self.treatments.clone(), vec!["The third is not here.".into()])
    }

    fn name(&self, treatment: &u32) -> String {
        format!("treatment {treatment}")
    }

    fn set_up(&self, treatment: &u32, _: &Lab, undo: &mut Undo) -> Result<Stage> {
        let diary = Rc::clone(&self.diary);
        diary.borrow_mut().push(format!("change {treatment}"));
        let treatment = *treatment;
        undo.later("the change", move || {
            diary.borrow_mut().push(format!("undo {treatment}"));
            Ok(())
        });
        Ok(Stage(Rc::clone(&self.diary)))
    }

    fn measure(&self, treatment: &u32, _: &mut Stage, lab: &Lab) -> Result<Vec<u32>> {
        lab.interrupt.check()?;
        ensure!(*treatment != self.fails, "it fell over");
        Ok(vec![treatment * 10])
    }

    fn finding(&self, figures: &[u32]) -> Finding {
        Finding {
            table: Grid {
                titles: vec!["what".into(), "figure".into()],
                rows: figures.iter().map(|it| vec!["fake".into(), it.to_string()]).collect(),
            },
            charts: vec![],
            reading: vec!["Read it so.".into()],
            notes: vec![],
        }
    }
}

fn fake(fails: u32) -> (Fake, Diary) {
    let diary = Diary::default();
    (Fake { diary: Rc::clone(&diary), treatments: vec![1, 2], fails }, diary)
}

fn lab() -> Lab {
    Lab { interrupt: Interrupt::never(), flifo: "flifo".into(), only: None }
}

#[test]
fn each_treatment_is_undone_before_the_next_begins() {
    let (fake, diary) = fake(9);
    let finding = fake.run(&lab()).expect("runs");
    let want = ["change 1", "stage ends", "undo 1", "change 2", "stage ends", "undo 2"];
    assert_eq!(*diary.borrow(), want);
    assert_eq!(finding.table.rows, [["fake", "10"], ["fake", "20"]]);
    assert_eq!(finding.notes, ["The third is not here."]);
}

#[test]
fn one_part_can_be_run_alone_and_an_unknown_one_is_answered_with_those_there_are() {
    let (fake, diary) = fake(9);
    let only = |text: &str| Lab { only: Some(text.to_owned()), ..lab() };
    fake.run(&only("2")).expect("runs");
    assert_eq!(*diary.borrow(), ["change 2", "stage ends", "undo 2"]);
    let error = fake.run(&only("third")).expect_err("there is none").to_string();
    assert!(error.contains("treatment 1; treatment 2"), "{error}");
}

#[test]
fn what_fails_is_undone_and_told_with_its_treatment() {
    let (fake, diary) = fake(1);
    let error = fake.run(&lab()).expect_err("fails");
    assert_eq!(format!("{error:#}"), "treatment 1: it fell over");
    assert_eq!(*diary.borrow(), ["change 1", "stage ends", "undo 1"]);
}

#[test]
fn an_interrupt_is_recognized_as_one_and_everything_undone() {
    let (mut fake, diary) = fake(9);
    fake.treatments = vec![7];
    // As an experiment sees it whose step was interrupted.
    struct Cut(Fake);
    impl Experiment for Cut {
        type Treatment = u32;
        type Stage = Stage;
        type Figure = u32;
        fn about(&self) -> About {
            Experiment::about(&self.0)
        }
        fn treatments(&self) -> (Vec<u32>, Vec<String>) {
            self.0.treatments()
        }
        fn name(&self, treatment: &u32) -> String {
            self.0.name(treatment)
        }
        fn set_up(&self, treatment: &u32, lab: &Lab, undo: &mut Undo) -> Result<Stage> {
            self.0.set_up(treatment, lab, undo)
        }
        fn measure(&self, _: &u32, _: &mut Stage, _: &Lab) -> Result<Vec<u32>> {
            Err(Interrupted.into())
        }
        fn finding(&self, figures: &[u32]) -> Finding {
            self.0.finding(figures)
        }
    }
    let error = Cut(fake).run(&lab()).expect_err("was cut");
    assert!(error.is::<Interrupted>(), "{error:#}");
    assert_eq!(*diary.borrow(), ["change 7", "stage ends", "undo 7"]);
}

#[test]
fn an_unknown_experiment_is_answered_with_those_there_are() {
    let options = LabOptions::default();
    let error = find("nonsense", &options).err().expect("unknown").to_string();
    assert!(error.contains("\"nonsense\"") && error.contains("pagefaults"), "{error}");
    for entry in all(&options) {
        let About { name, question, seconds, .. } = entry.about();
        let is_found = find(name, &options).is_ok();
        assert!(is_found && question.ends_with('?') && seconds < 900, "{name}");
    }
}

#[test]
fn the_report_has_everything_in_all_its_forms() {
    let (fake, _) = fake(9);
    let finding = fake.run(&lab()).expect("runs");
    let about = Experiment::about(&fake);
    let all = [(about, finding)];
    let forms = [text(&all[0].0, &all[0].1, Colours::Off), page(&all), json(&all).expect("writes")];
    for form in &forms {
        for part in ["Does it?", "20", "Read it so.", "The third is not here."] {
            assert!(form.contains(part), "{part} is missing in {form}");
        }
    }
    assert!(forms[0].contains("It did once."));
}
