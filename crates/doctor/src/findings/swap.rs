//! Is a part of the server on the disk?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Verdict, need};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "swap",
    title: "Server in swap",
    why: "The server takes its memory for memory: a page of the pool on the disk is read twice.",
    source: "proc(5), VmSwap",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let status = need(&facts.process()?.status)?;
    let (out, kept) = (status.swapped_kib, status.resident_kib);
    let text = format!("{} of it, beside {} in memory", bytes(out << 10), bytes(kept << 10));
    let verdict = match out {
        out if out > kept / 10 => Verdict::Bad,
        out if out > SOME_KIB => Verdict::Warn,
        _ => return Ok(Judgement::ok(text)),
    };
    let swappiness = facts.setting("vm.swappiness").unwrap_or("unknown");
    let remedy = format!("sysctl -w vm.swappiness=1   # now {swappiness}; a smaller pool");
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

/// What any process leaves behind.
const SOME_KIB: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, server};
    use sys::tree::Seen::Known;

    #[test]
    fn a_server_in_swap_is_told_by_how_much_of_it_is() {
        let swap = |kib| {
            move |facts: &mut Facts| {
                let Known(status) = &mut server(facts).status else { panic!("known") };
                status.swapped_kib = kib;
            }
        };
        assert_eq!(after(FINDING, swap(100_000)).verdict, Verdict::Bad);
        assert_eq!(after(FINDING, swap(20_000)).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, swap(100)).verdict, Verdict::Ok);
    }
}
