//! A server that logs a transaction before readers see it, a follower, and a cache, by seeds.

use std::time::Duration;

use fastrand::Rng;
use wire::binlog::EventHeader;

use super::*;

/// All texts may write everything; foreign keys change nothing.
struct Plain;

impl Meaning for Plain {
    fn of_text(&self, _: &Said, ends: &mut Vec<Ending>) {
        ends.push(Ending::Everything);
    }

    fn of_change(&self, _: &[u8], _: &[u8], _: &mut Vec<Ending>) {}
}

fn header(end: u32) -> EventHeader {
    EventHeader { timestamp: 7, kind: 0, server: 1, len: 0, end, flags: 0 }
}

fn place(at: u64) -> LogPlace {
    LogPlace::File(FilePlace::new(b"bin.000001", at).unwrap())
}

fn table(number: usize) -> Ending {
    Ending::Table { schema: b"a".as_slice().into(), name: [b'0' + number as u8].into() }
}

/// Has a follower take a transaction of this table that ends here.
fn take(follower: &mut Follower, number: usize, end: u64) -> Vec<Ending> {
    try_take(follower, number, end).unwrap()
}

fn try_take(follower: &mut Follower, number: usize, end: u64) -> Result<Vec<Ending>, Gap> {
    let end = end as u32;
    let gtid = Some(Gtid::MariaDb { domain: 0, server: 1, sequence: 1 });
    let name = [b'0' + number as u8];
    let mut ends = Vec::new();
    for (event, end) in [
        (Event::Begin { gtid, is_alone: false }, end - 3),
        (Event::Table { number: 7, schema: b"a", name: &name }, end - 2),
        (Event::Rows { number: 7, is_change: true }, end - 1),
        (Event::Commit, end),
    ] {
        ends.extend(follower.take(&header(end), event, &Plain)?);
    }
    Ok(ends)
}

#[test]
fn a_table_ends_entries_when_it_is_logged_and_again_when_it_is_visible() {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let mut it = Follower::new(place(4), None, begin);
    assert_eq!(it.settle(), Ok(None));
    assert_eq!(take(&mut it, 1, 20), [table(1)]);
    // It is not visible yet: all that is known is known of the moment, and an entry may still hold what was before.
    it.answered(at(1), place(4), None).unwrap();
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![], covered: at(1) })));
    it.answered(at(2), place(20), None).unwrap();
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![table(1)], covered: at(2) })));
    assert_eq!(it.settle(), Ok(None));
    // The answer comes before the event.
    it.answered(at(3), place(40), None).unwrap();
    assert_eq!(it.settle(), Ok(None));
    assert_eq!(it.covered(), at(2));
    take(&mut it, 2, 40);
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![table(2)], covered: at(3) })));
}

#[test]
fn transactions_that_end_the_same_are_told_at_each_of_them() {
    let begin = Instant::now();
    let mut it = Follower::new(place(4), None, begin);
    (1..=3).for_each(|at| drop(take(&mut it, 1, at * 10)));
    for (visible, want) in [(10, vec![table(1)]), (10, vec![table(1)]), (30, vec![table(1)])] {
        it.answered(begin, place(visible), None).unwrap();
        assert_eq!(it.settle(), Ok(Some(Settled { ends: want, covered: begin })), "{visible}");
    }
    it.answered(begin, place(30), None).unwrap();
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![], covered: begin })));
}

#[test]
fn what_waits_to_be_visible_has_a_bound() {
    let begin = Instant::now();
    let mut it = Follower::new(place(4), None, begin);
    let many = 3 * UNSETTLED_MAX as u64;
    (1..=many).for_each(|at| drop(take(&mut it, at as usize % 2, at * 10)));
    assert!(it.unsettled.len() <= UNSETTLED_MAX + 1);
    for (visible, want) in
        [(10, vec![Ending::Everything]), (many * 10, vec![Ending::Everything, table(1), table(0)])]
    {
        it.answered(begin, place(visible), None).unwrap();
        let got = it.settle().unwrap().unwrap().ends;
        assert!(
            got.iter().all(|end| want.contains(end)) && got.contains(&Ending::Everything),
            "{got:?}"
        );
    }
}

/// As MariaDB says where a file ends while transactions commit: the new file's name, and a place in the old one.
#[test]
fn a_place_that_may_be_of_the_file_before_is_believed_by_the_count_alone() {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let follower = || {
        let mut it = Follower::new(place(400), Some(7), begin);
        take(&mut it, 2, 900);
        let rotate = Event::Rotate { file: b"bin.000002", position: 4 };
        it.take(&header(0), rotate, &Plain).unwrap();
        take(&mut it, 0, 300);
        take(&mut it, 1, 900);
        it
    };
    let all = [table(2), table(0), table(1)];
    for (end, commits, want) in [
        // The server says the place of the first one: those behind it are not visible.
        (900, Some(8), None),
        (900, None, None),
        (900, Some(10), Some(&all[..])),
        // The old file was not there any more.
        (300, None, Some(&all[..2])),
        // Named when it began: the first one need not be visible.
        (4, Some(7), None),
        (4, Some(8), Some(&all[..1])),
    ] {
        let mut it = follower();
        it.answered(at(1), in_file(2, end), commits).unwrap();
        let want = want.map(|ends| Settled { ends: ends.to_vec(), covered: at(1) });
        assert_eq!(it.settle(), Ok(want), "{end} {commits:?}");
    }
    // A definition is not counted: doubt ends behind the places of the old file.
    let mut it = follower();
    take(&mut it, 1, 910);
    for (end, want) in [(900, None), (910, Some(Settled { ends: all.to_vec(), covered: at(2) }))] {
        it.answered(at(2), in_file(2, end), Some(9)).unwrap();
        assert_eq!(it.settle(), Ok(want), "{end}");
    }
    assert_eq!(it.answered(at(3), in_file(2, 900), Some(9)), Err(Gap::Backwards));
}

/// The old file's last transaction ended where the first one of the new file is in its middle.
#[test]
fn what_is_true_of_the_file_before_is_no_place_in_the_new_one() {
    let begin = Instant::now();
    let mut it = Follower::new(place(400), Some(7), begin);
    take(&mut it, 2, 900);
    let rotate = Event::Rotate { file: b"bin.000002", position: 4 };
    it.take(&header(0), rotate, &Plain).unwrap();
    let gtid = Some(Gtid::MariaDb { domain: 0, server: 1, sequence: 1 });
    it.take(&header(950), Event::Begin { gtid, is_alone: false }, &Plain).unwrap();
    it.answered(begin, in_file(2, 900), Some(8)).unwrap();
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![table(2)], covered: begin })));
    it.answered(begin, in_file(2, 300), Some(8)).unwrap();
    assert_eq!(it.settle(), Ok(Some(Settled { ends: vec![], covered: begin })));
}

#[test]
fn a_log_that_goes_back_is_a_gap() {
    let begin = Instant::now();
    let mut it = Follower::new(place(400), None, begin);
    it.answered(begin, place(500), None).unwrap();
    take(&mut it, 1, 500);
    assert_eq!(it.answered(begin, place(499), None), Err(Gap::Backwards));
    let mut it = Follower::new(place(400), None, begin);
    let other = LogPlace::File(FilePlace::new(b"log.000001", 900).unwrap());
    assert_eq!(it.answered(begin, other, None), Err(Gap::Names));
    let rotate = Event::Rotate { file: b"bin.000001", position: 4 };
    assert_eq!(it.take(&header(0), rotate, &Plain), Err(Gap::Backwards));
}

#[test]
fn mysqls_transactions_are_known_by_their_names() {
    const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    let origin = 0x3e11_fa47_71ca_11e1_9e33_c80a_a942_9562_u128.to_be_bytes();
    let begin = Instant::now();
    let place = |text: &str| executed(&format!("{UUID}:{text}")).unwrap();
    let mut it = Follower::new(place("1-5"), None, begin);
    for event in [
        Event::Begin { gtid: Some(Gtid::MySql { origin, number: 6 }), is_alone: false },
        Event::Query { schema: b"a", text: b"BEGIN".into() },
        Event::Table { number: 1, schema: b"a", name: b"1" },
    ] {
        assert_eq!(it.take(&header(9), event, &Plain), Ok(vec![]));
    }
    it.answered(begin, place("1-6"), None).unwrap();
    assert_eq!(it.settle(), Ok(None));
    assert_eq!(it.take(&header(9), Event::Commit, &Plain), Ok(vec![table(1)]));
    let ends = vec![table(1)];
    assert_eq!(it.settle(), Ok(Some(Settled { ends, covered: begin })));
    assert_eq!(it.answered(begin, place("1-5"), None), Err(Gap::Backwards));
}

/// Breaks a rule, to see it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Tables end entries only when they are logged.
    OnlyLogged,
    /// What was asked counts from the answer on.
    CountsFromAnswer,
    /// The moment counts although events are missing.
    WithoutEvents,
    /// The server is believed where a file ends.
    WithoutDoubt,
}

const TABLES: usize = 3;

/// A transaction of a table: when it is logged, and when readers see it.
struct Logged {
    table: usize,
    visible: u64,
    file: u64,
    end: u64,
    /// A definition is not counted.
    is_counted: bool,
}

/// A place, and how many transactions the server had counted there.
type Claim = (LogPlace, Option<u64>);

/// A server's log in files. They are laid out alike: a transaction of each ends at 10, 20, 30.
struct Log {
    transactions: Vec<Logged>,
    /// When each file after the first began.
    files: Vec<u64>,
}

impl Log {
    fn write(&mut self, now: u64, random: &mut Rng) {
        if random.u64(..4) == 0 {
            self.files.push(now);
        }
        let (last, file) = (self.transactions.last(), self.files.len() as u64 + 1);
        let end = last.filter(|last| last.file == file).map_or(0, |last| last.end) + 10;
        let visible = (now + random.u64(..30)).max(last.map_or(0, |last| last.visible));
        let (table, is_counted) = (random.u64(..TABLES as u64) as usize, random.u64(..8) > 0);
        self.transactions.push(Logged { table, visible, file, end, is_counted });
    }

    /// How far the server says that it is: the name of its last file, and the last place that was set, by the file's
    /// beginning or by a commit, which may be one of the file before.
    fn said(&self, now: u64) -> Claim {
        let seen = self.transactions.iter().filter(|it| it.visible <= now);
        let (mut at, mut set, mut commits) = (4, 0, 0);
        for it in seen {
            (at, set) = (it.end, it.visible);
            commits += u64::from(it.is_counted);
        }
        let begun = self.files.iter().rfind(|begun| **begun <= now);
        if begun.is_some_and(|begun| *begun > set) {
            at = 4;
        }
        let number = self.files.iter().filter(|begun| **begun <= now).count() as u64 + 1;
        (in_file(number, at), Some(commits))
    }

    fn seen(&self, table: usize, now: u64) -> usize {
        self.transactions.iter().filter(|it| it.table == table && it.visible <= now).count()
    }
}

fn in_file(number: u64, at: u64) -> LogPlace {
    LogPlace::File(FilePlace::new(format!("bin.{number:06}").as_bytes(), at).unwrap())
}

/// Has a follower take a transaction, and the beginning of its file.
fn follow(follower: &mut Follower, it: &Logged) -> Result<Vec<Ending>, Gap> {
    let LogPlace::File(place) = follower.place().clone() else { panic!("a place in a file") };
    for file in place.number() + 1..=it.file {
        let file = format!("bin.{file:06}");
        let rotate = Event::Rotate { file: file.as_bytes(), position: 4 };
        let before = (format!("bin.{:06}", place.number()), place.at() as u32);
        follower.take(&header(0), rotate, &Plain)?;
        let heartbeat = Event::Heartbeat { file: before.0.as_bytes() };
        follower.take(&header(before.1), heartbeat, &Plain)?;
    }
    try_take(follower, it.table, it.end)
}

/// Runs a world of milliseconds. The answer is whether an entry was found that lacks what was visible when all was said
/// to be known.
fn run(seed: u64, fault: Fault) -> bool {
    let mut random = Rng::with_seed(seed);
    let begin = Instant::now();
    let at = |ms: u64| begin + Duration::from_millis(ms);
    let mut follower = Follower::new(place(4), Some(0), begin);
    let mut log = Log { transactions: Vec::new(), files: Vec::new() };
    let mut followed = 0;
    let mut probe: Option<(u64, u64, Option<Claim>)> = None;
    // Entries: how many transactions of the table the reader had seen; runs: begun, and read.
    let mut entries: [Option<usize>; TABLES] = [None; TABLES];
    let mut runs: [Option<Option<usize>>; TABLES] = [None; TABLES];
    for now in 1..600 {
        if random.u64(..12) == 0 {
            log.write(now, &mut random);
        }
        let mut ended = Vec::new();
        // Events come late, in order.
        while followed < log.transactions.len() && random.u64(..4) == 0 {
            followed += 1;
            match follow(&mut follower, &log.transactions[followed - 1]) {
                Err(Gap::Backwards) if fault != Fault::None => return false,
                ends => ended.extend(ends.unwrap()),
            }
        }
        match &mut probe {
            None if random.u64(..3) == 0 => probe = Some((now, now + random.u64(..6), None)),
            None => {}
            Some((asked, answered, said)) => {
                // The server looks at some moment between.
                if said.is_none() && (random.u64(..3) == 0 || *answered <= now) {
                    *said = Some(log.said(now));
                }
                if let (true, Some((place, commits))) = (*answered <= now, said.clone()) {
                    let asked = if fault == Fault::CountsFromAnswer { now } else { *asked };
                    let place = match fault {
                        Fault::WithoutEvents => follower.place().clone(),
                        _ => place,
                    };
                    let commits = match fault {
                        Fault::WithoutDoubt => {
                            follower.committed.change = None;
                            None
                        }
                        // Some commit while it is asked.
                        _ => commits.filter(|_| random.u64(..3) > 0),
                    };
                    match follower.answered(at(asked), place, commits) {
                        Err(Gap::Backwards) if fault != Fault::None => return false,
                        answered => answered.unwrap(),
                    }
                    probe = None;
                }
            }
        }
        let settled = follower.settle().unwrap();
        if let Some(settled) = &settled
            && fault != Fault::OnlyLogged
        {
            ended.extend(settled.ends.clone());
        }
        for number in 0..TABLES {
            if ended.contains(&table(number)) || ended.contains(&Ending::Everything) {
                (entries[number], runs[number]) = (None, None);
            }
        }
        if settled.is_some() {
            let covered = follower.covered().duration_since(begin).as_millis() as u64;
            for (number, entry) in entries.iter().enumerate() {
                if entry.is_some_and(|has| has < log.seen(number, covered)) {
                    return true;
                }
            }
        }
        // Readers fill what is missing: a run begins, reads at some later moment, and is kept at another one.
        for number in 0..TABLES {
            match &mut runs[number] {
                None if random.u64(..3) == 0 => runs[number] = Some(None),
                Some(None) if random.u64(..3) == 0 => {
                    runs[number] = Some(Some(log.seen(number, now)));
                }
                Some(Some(has)) if random.u64(..3) == 0 => {
                    entries[number] = Some(*has);
                    runs[number] = None;
                }
                _ => {}
            }
        }
    }
    // A file that is longer ends all doubt.
    let longest = log.transactions.iter().map(|it| it.end).max().unwrap_or(0);
    while log.transactions.last().is_none_or(|last| last.end <= longest) {
        log.write(600, &mut random);
    }
    for it in &log.transactions[followed..] {
        let _ = follow(&mut follower, it);
    }
    let (place, commits) = log.said(1000);
    follower.answered(at(1000), place, commits).unwrap();
    drop(follower.settle().unwrap());
    assert!(
        fault != Fault::None || follower.covered() == at(1000),
        "seed {seed}: it stays in doubt"
    );
    false
}

#[test]
fn no_entry_is_older_than_the_moment_up_to_which_all_is_known() {
    for seed in 1..400 {
        assert!(!run(seed, Fault::None), "seed {seed}");
    }
}

#[test]
fn broken_rules_are_found() {
    for fault in
        [Fault::OnlyLogged, Fault::CountsFromAnswer, Fault::WithoutEvents, Fault::WithoutDoubt]
    {
        let found = (1..400).filter(|seed| run(*seed, fault)).count();
        assert!(found > 10, "{fault:?} was found in {found} worlds");
    }
}

/// A statement that was logged as a text.
fn said(it: &mut Follower, text: &str, end: u32) -> Vec<Ending> {
    let gtid = Some(Gtid::MariaDb { domain: 0, server: 1, sequence: u64::from(end) });
    let begin = Event::Begin { gtid, is_alone: true };
    assert!(it.take(&header(end), begin, &Told).unwrap().is_empty());
    let text = text.as_bytes().to_vec().into();
    it.take(&header(end + 1), Event::Query { schema: b"a", text }, &Told).unwrap()
}

/// Texts mean what they say.
struct Told;

impl Meaning for Told {
    fn of_text(&self, said: &Said, ends: &mut Vec<Ending>) {
        ends.extend(ending_of(&said.text));
    }

    fn of_change(&self, _: &[u8], _: &[u8], _: &mut Vec<Ending>) {}
}

/// What only writes rows leaves definitions known, however many such statements there are.
#[test]
fn definitions_are_others_behind_those_texts_alone_that_may_define_something() {
    let begin = Instant::now();
    let mut it = Follower::new(place(4), None, begin);
    assert_eq!(said(&mut it, "INSERT INTO t VALUES (1)", 10), [Ending::Everything]);
    assert_eq!(said(&mut it, "XA COMMIT X'61',X'',1", 20), [Ending::Everything]);
    assert_eq!(said(&mut it, "ALTER TABLE t ADD v INT", 30), [Ending::Definitions]);
    assert!(said(&mut it, "FLUSH TABLES", 40).is_empty());
    assert_eq!(said(&mut it, "INSERT INTO t VALUES (2)", 50), [Ending::Everything]);
    let mut settle = |upto| {
        it.answered(begin, place(upto), None).unwrap();
        it.settle().unwrap().unwrap().ends
    };
    assert_eq!(settle(21), [Ending::Everything]);
    assert_eq!(settle(51), [Ending::Definitions, Ending::Everything]);
    // Where they are too many to be told apart, one definition is enough.
    for defines in [false, true] {
        let mut it = Follower::new(place(4), None, begin);
        let many = |it: &mut Follower, from: u64| {
            for at in 1..=2 * UNSETTLED_MAX as u64 {
                take(it, at as usize % 2, from + at * 10);
            }
        };
        many(&mut it, 0);
        if defines {
            said(&mut it, "DROP TABLE t", 900_000);
        }
        many(&mut it, 1_000_000);
        it.answered(begin, place(1_000_000), None).unwrap();
        let ends = it.settle().unwrap().unwrap().ends;
        assert_eq!(ends.contains(&Ending::Definitions), defines, "{ends:?}");
        assert!(ends.iter().any(Ending::is_of_all));
    }
}
