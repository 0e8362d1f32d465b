//! What page faults say: the table, the charts and the words.
//!
//! Pure. Invariants: the report's own figures are marked as such; a sentence about figures is there
//! only if they were measured.

use super::{Pace, PageFaultsTreatment, RATE, Sample, Way};
use crate::chart::{Axis, Chart, Dot, DotRow, Dots, Grid, Look, Plot, ScaleKind as Scale, number};
use crate::lab::experiment::Finding;
use crate::results::Spread;
use crate::targets::TargetKind;

pub(super) fn of(samples: &[Sample]) -> Finding {
    let figures = Figures { samples };
    Finding {
        table: figures.table(),
        charts: vec![figures.faults_chart(), figures.cpu_chart()],
        reading: figures.reading(),
        notes: figures.disturbed().into_iter().collect(),
    }
}

struct Figures<'a> {
    samples: &'a [Sample],
}

impl Figures<'_> {
    fn table(&self) -> Grid {
        let titles = [
            "",
            "way",
            "rounds/s",
            "page faults",
            "server CPU µs",
            "Flifo CPU µs",
            "server CPU at 80/s",
        ];
        let mut rows = vec![
            seed_row("2006: buffer 128 KB", "", "", "just about nothing"),
            seed_row("2006: buffer 5 MB", "many", SEED_CPU, "about 100 % of one CPU"),
        ];
        for (treatment, way) in self.cells() {
            let median = |figure: fn(&Sample) -> f64| {
                self.median(treatment, way, figure).map_or_else(String::new, number)
            };
            let flifo = self.spread(treatment, way, Sample::flifo_us);
            let share = self.median(treatment, way, Sample::server_us).unwrap_or_default();
            rows.push(vec![
                treatment.label().to_owned(),
                way_in_words(way),
                median(Sample::a_second),
                median(Sample::faults),
                median(Sample::server_us),
                flifo.map_or_else(String::new, |it| number(it.median)),
                format!("{} %", number(share * RATE / 1e4)),
            ]);
        }
        Grid { titles: titles.map(str::to_owned).to_vec(), rows }
    }

    fn faults_chart(&self) -> Chart {
        self.chart(
            "Page faults a round",
            "Of the server: connecting, the statement, leaving. The seed's buffer had 1280 pages \
             of 4 KiB. Each line is ten times the one before; none at all is drawn at the left \
             edge.",
            Axis {
                label: "page faults".into(),
                kind: Scale::Log,
                ticks: (-1..=5).map(|ten| 10_f64.powi(ten)).collect(),
            },
            Sample::faults,
            Dot { value: SEED_PAGES, range: None },
        )
    }

    fn cpu_chart(&self) -> Chart {
        let (low, high) = SEED_US;
        self.chart(
            "Server CPU a round",
            "The seed saw one CPU full at 60 to 100 connections a second.",
            Axis::new("µs of server CPU", Scale::Log),
            Sample::server_us,
            Dot { value: (low * high).sqrt(), range: Some(SEED_US) },
        )
    }

    fn chart(
        &self,
        title: &str,
        note: &str,
        x: Axis,
        figure: fn(&Sample) -> f64,
        seed: Dot,
    ) -> Chart {
        let ways = [
            (TargetKind::Direct, Pace::FullSpeed, "connecting each time"),
            (TargetKind::Flifo, Pace::FullSpeed, "through Flifo"),
            (TargetKind::Direct, Pace::Staying, "staying connected"),
        ];
        let mut series = vec![("the seed, 2006".to_owned(), Look(3))];
        series.extend(ways.iter().enumerate().map(|(at, way)| (way.2.to_owned(), Look(at))));
        let mut rows = Vec::new();
        for treatment in self.treatments() {
            // Its library had its threshold fixed: there the seed's figures are beside ours.
            let mut dots = vec![(treatment == PageFaultsTreatment::LargeFixed).then_some(seed)];
            dots.extend(ways.iter().map(|(route, pace, _)| {
                let way = Way { route: *route, pace: *pace };
                let spread = self.spread(treatment, way, |sample| Some(figure(sample)))?;
                Some(Dot { value: spread.median, range: Some((spread.low, spread.high)) })
            }));
            rows.push(DotRow { label: treatment.label().to_owned(), dots });
        }
        Chart { title: title.into(), note: note.into(), plot: Plot::Dots(Dots { x, series, rows }) }
    }

    /// That others were at work too.
    fn disturbed(&self) -> Option<String> {
        let count = self.samples.iter().filter(|sample| sample.is_disturbed).count();
        (count != 0).then(|| {
            format!(
                "In {count} of {} turns other processes had much of the machine: CPU times may be \
                 theirs too, page faults are not.",
                self.samples.len()
            )
        })
    }

    fn reading(&self) -> Vec<String> {
        let paragraphs = [self.then(), self.now(), self.cases(), self.saved(), self.insert()];
        paragraphs.into_iter().flatten().collect()
    }

    /// That it can be had again.
    fn then(&self) -> Option<String> {
        let (small, large) =
            (self.at(PageFaultsTreatment::SmallFixed)?, self.at(PageFaultsTreatment::LargeFixed)?);
        Some(format!(
            "With the threshold fixed, as the C library of 2006 had it, the report can be had \
             again: {} page faults a round with the large buffer, {} with the small one, and {} \
             instead of {} µs of the server's CPU for the same work. At {RATE} connections a \
             second that is {} % of one CPU more. The seed's CPU, of 2006, needed 100 %.",
            number(large.0),
            number(small.0),
            number(large.1),
            number(small.1),
            number((large.1 - small.1) * RATE / 1e4)
        ))
    }

    /// That it is hidden.
    fn now(&self) -> Option<String> {
        let (small, large) =
            (self.at(PageFaultsTreatment::SmallToday)?, self.at(PageFaultsTreatment::LargeToday)?);
        let fixed = self.at(PageFaultsTreatment::LargeFixed)?;
        let is_hidden = large.0 < fixed.0 / HIDDEN;
        let verdict = if is_hidden {
            "Today's glibc hides it: after it was given back a large block, it keeps blocks of \
             that size to itself."
        } else {
            "This machine's C library does not hide it."
        };
        Some(format!(
            "{verdict} As it comes, the large buffer costs {} page faults and {} µs a round, the \
             small one {} and {}. What is left between the two is no longer the kernel's work; a \
             large buffer probably fits the CPU's caches less well than a small one.",
            number(large.0),
            number(large.1),
            number(small.0),
            number(small.1)
        ))
    }

    /// When it returns.
    fn cases(&self) -> Option<String> {
        let mut text = "It returns in three cases. First, when MALLOC_MMAP_THRESHOLD_ or its \
                        tunable is set, to whatever: glibc then stops learning"
            .to_owned();
        text.push_str(&self.brackets(PageFaultsTreatment::LargeFixed)?);
        text.push_str(". Second, when a buffer is larger than 32 MiB, up to which glibc learns");
        text.push_str(&self.brackets(PageFaultsTreatment::Beyond)?);
        text.push_str(
            ". Third, with jemalloc, which gives blocks from about 8 MiB on back at once",
        );
        if let (Some(jemalloc), Some(glibc)) =
            (self.at(PageFaultsTreatment::Jemalloc), self.at(PageFaultsTreatment::MiddleToday))
        {
            text.push_str(&format!(
                " ({} page faults with 16 MiB, where glibc has {})",
                number(jemalloc.0),
                number(glibc.0)
            ));
        }
        text.push('.');
        Some(text)
    }

    /// What staying connected saves, and what it does not.
    fn saved(&self) -> Option<String> {
        let of = |route, pace, treatment| {
            let way = Way { route, pace };
            let faults = self.median(treatment, way, Sample::faults)?;
            Some((faults, self.median(treatment, way, Sample::server_us)?))
        };
        let small = PageFaultsTreatment::SmallToday;
        let connecting = of(TargetKind::Direct, Pace::FullSpeed, small)?;
        let staying = of(TargetKind::Direct, Pace::Staying, small)?;
        let flifo = of(TargetKind::Flifo, Pace::FullSpeed, small)?;
        let way = Way { route: TargetKind::Flifo, pace: Pace::FullSpeed };
        let own = self.spread(small, way, Sample::flifo_us)?.median;
        let worst = of(TargetKind::Direct, Pace::Staying, PageFaultsTreatment::LargeFixed)?;
        Some(format!(
            "Staying connected saves the server {} of {} µs a round. Through Flifo, which keeps \
             its backend connections while the application goes on connecting, the server saves {} µs, and \
             Flifo itself uses {} µs for the logins that it does instead. What staying connected \
             does not save are these page faults: the buffer belongs to the statement, not to the \
             connection, and where the allocator does its worst {} of them remain.",
            number(connecting.1 - staying.1),
            number(connecting.1),
            number(connecting.1 - flifo.1),
            number(own),
            number(worst.0)
        ))
    }

    /// Why a table is read at all.
    fn insert(&self) -> Option<String> {
        let (faults, _) = self.at(PageFaultsTreatment::Plain)?;
        Some(format!(
            "The report's own statement, a plain INSERT, does not use this buffer in today's \
             MariaDB: {} page faults a round, even with the threshold fixed. So the INSERTs here \
             read a table of 5 MiB from end to end, as the reporter thought that each login did.",
            number(faults)
        ))
    }

    fn brackets(&self, treatment: PageFaultsTreatment) -> Option<String> {
        let (faults, us) = self.at(treatment)?;
        Some(format!(" ({} page faults, {} µs)", number(faults), number(us)))
    }

    /// Page faults and server CPU of a treatment, connecting directly at full speed.
    fn at(&self, treatment: PageFaultsTreatment) -> Option<(f64, f64)> {
        let way = Way { route: TargetKind::Direct, pace: Pace::FullSpeed };
        let faults = self.median(treatment, way, Sample::faults)?;
        Some((faults, self.median(treatment, way, Sample::server_us)?))
    }

    fn median(
        &self,
        treatment: PageFaultsTreatment,
        way: Way,
        figure: fn(&Sample) -> f64,
    ) -> Option<f64> {
        Some(self.spread(treatment, way, |sample| Some(figure(sample)))?.median)
    }

    fn spread(
        &self,
        treatment: PageFaultsTreatment,
        way: Way,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<Spread> {
        let ours = self.samples.iter().filter(|it| it.treatment == treatment && it.way == way);
        Spread::of(ours.filter_map(figure))
    }

    fn treatments(&self) -> Vec<PageFaultsTreatment> {
        let was_tried =
            |it: &PageFaultsTreatment| self.samples.iter().any(|sample| sample.treatment == *it);
        PageFaultsTreatment::ALL.into_iter().filter(was_tried).collect()
    }

    fn cells(&self) -> Vec<(PageFaultsTreatment, Way)> {
        let mut cells = Vec::new();
        for treatment in self.treatments() {
            cells.extend(treatment.ways().into_iter().map(|way| (treatment, way)));
        }
        cells
    }
}

fn seed_row(label: &str, faults: &str, cpu: &str, share: &str) -> Vec<String> {
    [label, "connecting, 60 – 100/s", "60 – 100", faults, cpu, "", share]
        .map(str::to_owned)
        .to_vec()
}

fn way_in_words(way: Way) -> String {
    let route = if way.route == TargetKind::Flifo { "through Flifo" } else { "directly" };
    match way.pace {
        Pace::Rate(rate) => format!("{route}, {rate}/s"),
        Pace::FullSpeed => format!("{route}, full speed"),
        Pace::Staying => "staying connected".to_owned(),
    }
}

/// Microseconds that a connection took if 60, or 100, of them filled a CPU for a second.
const SEED_US: (f64, f64) = (10_000.0, 16_700.0);
const SEED_CPU: &str = "10 000 – 16 700";
/// 5 MiB in pages of 4 KiB.
const SEED_PAGES: f64 = 1280.0;
/// So many times fewer page faults are none to speak of.
const HIDDEN: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{ProcessFigures, Results, Role};

    fn process(role: Role, faults: f64, us: f64) -> ProcessFigures {
        let example = include_str!("../../results/example.json");
        let results: Results = serde_json::from_str(example).expect("is one");
        let any = results.cells[0].rounds[0].processes[0].clone();
        ProcessFigures { role, user_us: us, system_us: 0.0, minor_faults: faults, ..any }
    }

    fn samples(treatment: PageFaultsTreatment, faults: u32, us: u32) -> Vec<Sample> {
        let of = |way: Way| Sample {
            treatment,
            way,
            a_second: 80.0,
            server: process(Role::Server, f64::from(faults), f64::from(us)),
            flifo: (way.route == TargetKind::Flifo).then(|| process(Role::Proxy, 0.0, 70.0)),
            is_disturbed: false,
        };
        treatment.ways().into_iter().map(of).collect()
    }

    fn all() -> Vec<Sample> {
        PageFaultsTreatment::ALL
            .into_iter()
            .zip([
                (1, 300),
                (2, 400),
                (33, 500),
                (1268, 4200),
                (0, 90),
                (10_242, 28_000),
                (3, 900),
                (4099, 11_000),
            ])
            .flat_map(|(treatment, (faults, us))| samples(treatment, faults, us))
            .collect()
    }

    #[test]
    fn figures_of_the_seed_stand_beside_those_measured() {
        let finding = of(&all());
        assert!(finding.table.rows[1].concat().contains("about 100 % of one CPU"));
        let row =
            finding.table.rows.iter().find(|row| row[0].contains("(case 1)")).expect("is there");
        assert_eq!(row[1..], ["directly, 80/s", "80", "1268", "4200", "", "33.6 %"]);
        for chart in &finding.charts {
            let Plot::Dots(dots) = &chart.plot else { panic!("are dots") };
            let seeds = dots.rows.iter().filter(|row| row.dots[0].is_some()).count();
            assert_eq!((dots.rows.len(), seeds), (8, 1));
        }
    }

    #[test]
    fn the_words_follow_the_figures() {
        let text = of(&all()).reading.join("\n");
        for part in [
            "1268 page faults a round with the large buffer, 33 with the small one",
            "29.6 % of one CPU more",
            "Today's glibc hides it",
            "(4099 page faults with 16 MiB, where glibc has 3)",
            "Flifo itself uses 70 µs",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let mut shown = all();
        shown.retain(|sample| sample.treatment != PageFaultsTreatment::LargeToday);
        shown.extend(samples(PageFaultsTreatment::LargeToday, 1268, 4000));
        assert!(of(&shown).reading.join("\n").contains("does not hide it"));
    }

    #[test]
    fn disturbed_turns_are_counted() {
        let mut samples = all();
        assert_eq!(of(&samples).notes, [""; 0]);
        samples[3].is_disturbed = true;
        let notes = of(&samples).notes;
        assert!(notes[0].starts_with(&format!("In 1 of {} turns", samples.len())), "{notes:?}");
    }

    #[test]
    fn nothing_is_said_of_what_was_not_measured() {
        let mut few = all();
        few.retain(|sample| sample.treatment != PageFaultsTreatment::Jemalloc);
        let text = of(&few).reading.join("\n");
        assert!(text.contains("Third, with jemalloc") && !text.contains("with 16 MiB, where"));
        assert_eq!(of(&[]).reading, [""; 0]);
        assert_eq!(of(&[]).table.rows.len(), 2, "the seed's own");
    }
}
