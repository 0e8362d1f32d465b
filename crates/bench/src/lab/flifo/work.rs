//! What the small engine does: reads of rows that threads really get in each other's way at.
//!
//! A table of pages, each behind a latch; one pool lock that every page read takes to move the page
//! to the young end of a list; memory of the thread's own that rows are copied to and sorted in. No
//! gate, no clock. Invariant: a transaction is the note's: ten points and four ranges of a thousand
//! rows, of which one is summed up, one sorted, one freed of duplicates.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crate::workloads::random::Random;

/// What a thread asks of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    kind: Kind,
    /// The first row.
    row: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Point,
    Range,
    Sum,
    Sorted,
    Distinct,
}

/// The statements of a transaction.
const COURSE: [(Kind, u32); 5] =
    [(Kind::Point, 10), (Kind::Range, 1), (Kind::Sum, 1), (Kind::Sorted, 1), (Kind::Distinct, 1)];

/// The table, and the list of its pages by age.
pub(in crate::lab) struct Table {
    pages: Box<[Mutex<Page>]>,
    pool: Mutex<Pool>,
}

type Row = [u8; ROW];

struct Page {
    rows: Box<[Row]>,
    reads: u64,
}

/// Pages in the order in which they were read last: each knows the next older and the next younger one.
struct Pool {
    older: Box<[u32]>,
    younger: Box<[u32]>,
}

/// What a thread has for itself: where rows are copied to.
#[derive(Default)]
pub(super) struct Scratch {
    rows: Vec<Row>,
}

impl Table {
    pub(super) fn new() -> Self {
        let mut random = Random::new(1);
        let mut page = || {
            let row = |_| {
                let mut row = [0; ROW];
                for byte in &mut row {
                    *byte = random.between(u64::from(b'0'), u64::from(b'9')) as u8;
                }
                row
            };
            Mutex::new(Page { rows: (0..PAGE_ROWS).map(row).collect(), reads: 0 })
        };
        let pages = (0..PAGES).map(|_| page()).collect();
        let older = (0..PAGES).map(|page| (page + 1) % PAGES).collect();
        let younger = (0..PAGES).map(|page| (page + PAGES - 1) % PAGES).collect();
        Self { pages, pool: Mutex::new(Pool { older, younger }) }
    }

    /// Runs a statement in the calling thread.
    pub(super) fn run(&self, statement: Statement, scratch: &mut Scratch) {
        let Statement { kind, row } = statement;
        let count = if kind == Kind::Point { 1 } else { RANGE };
        scratch.rows.clear();
        self.read(row, count, &mut scratch.rows);
        let rows = &mut scratch.rows;
        match kind {
            Kind::Point | Kind::Range => {}
            Kind::Sum => {
                let sum = |row: &Row| row.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                black_box(rows.iter().map(sum).sum::<u64>());
            }
            Kind::Sorted => rows.sort_unstable(),
            Kind::Distinct => {
                rows.sort_unstable();
                rows.dedup();
            }
        }
        black_box(rows.last());
    }

    /// Copies rows out, page by page.
    fn read(&self, first: u32, count: u32, out: &mut Vec<Row>) {
        let (mut row, end) = (first, first + count);
        while row < end {
            let page = row / PAGE_ROWS;
            let stop = end.min((page + 1) * PAGE_ROWS);
            self.touch(page);
            let mut page = lock(&self.pages[page as usize]);
            page.reads += 1;
            let of_page = |row: u32| (row % PAGE_ROWS) as usize;
            for row in &page.rows[of_page(row)..=of_page(stop - 1)] {
                // As a server looks at each row: is it visible, does it match?
                if checksum(row) != 0 {
                    out.push(*row);
                }
            }
            drop(page);
            row = stop;
        }
    }

    /// Makes a page the youngest.
    fn touch(&self, page: u32) {
        let mut pool = lock(&self.pool);
        let Pool { older, younger } = &mut *pool;
        let at = page as usize;
        let (its_older, its_younger) = (older[at], younger[at]);
        // Page 0 stands for the ends of the list, and stays.
        if page == 0 || its_younger == 0 {
            return;
        }
        older[its_younger as usize] = its_older;
        younger[its_older as usize] = its_younger;
        let youngest = older[0];
        older[0] = page;
        younger[at] = 0;
        older[at] = youngest;
        younger[youngest as usize] = page;
    }
}

/// The statements of one transaction, in their order.
pub(super) fn transaction(random: &mut Random) -> impl Iterator<Item = Statement> {
    COURSE.into_iter().flat_map(|(kind, times)| (0..times).map(move |_| kind)).map(|kind| {
        let row = random.between(0, u64::from(ROWS - RANGE)) as u32;
        Statement { kind, row }
    })
}

/// Statements of a transaction.
pub(super) const STATEMENTS: u64 = 14;

fn checksum(row: &Row) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    row.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A thread that panicked has left nothing half done here that matters to a measurement.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a row, rows of a page, pages: 32 MiB, more than caches that belong to one CPU.
const ROW: usize = 128;
const PAGE_ROWS: u32 = 64;
const PAGES: u32 = 4096;
const ROWS: u32 = PAGE_ROWS * PAGES;
/// Rows of a range, as in the note.
const RANGE: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_the_note_s() {
        let statements: Vec<_> = transaction(&mut Random::new(3)).collect();
        assert_eq!(statements.len() as u64, STATEMENTS);
        assert_eq!(statements.iter().filter(|it| it.kind == Kind::Point).count(), 10);
    }

    #[test]
    fn ranges_cross_pages_and_the_list_of_pages_stays_whole() {
        let (table, mut scratch) = (Table::new(), Scratch::default());
        for row in [0, 63, 1000, ROWS - RANGE, 1000] {
            table.run(Statement { kind: Kind::Range, row }, &mut scratch);
            assert_eq!(scratch.rows.len() as u32, RANGE);
        }
        table.run(Statement { kind: Kind::Sorted, row: 5 }, &mut scratch);
        assert!(scratch.rows.is_sorted());
        let pool = lock(&table.pool);
        let (mut page, mut count) = (0, 0);
        loop {
            assert_eq!(pool.younger[pool.older[page] as usize] as usize, page);
            page = pool.older[page] as usize;
            count += 1;
            if page == 0 {
                break;
            }
        }
        assert_eq!(count, PAGES);
        assert_eq!(pool.older[0], (5 + RANGE - 1) / PAGE_ROWS, "the page that was read last");
    }
}
