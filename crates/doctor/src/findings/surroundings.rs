//! How much of the machine can be seen from here?

use sys::details::CAP_SYS_NICE;

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

pub(super) const FINDING: Finding = Finding {
    name: "surroundings",
    title: "Where the doctor stands",
    why: "Inside a container or a guest, what lies below is hidden, and some cures are refused.",
    source: "/proc/self/status; capabilities(7)",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let place = &facts.machine.surroundings;
    let status = need(&facts.rights.status)?;
    let release = need(&facts.machine.release)?;
    let guest = match place.virtual_machine.known() {
        Some(true) => ", a virtual machine: its host decides on power",
        Some(false) => "",
        None => ", whether on a host's guest is not told",
    };
    let may = match status.capabilities >> CAP_SYS_NICE & 1 {
        1 => "may schedule others",
        _ => "may schedule processes of its own user only",
    };
    let text = format!("Linux {release}{guest}; the doctor {may}");
    if let Some(mark) = &place.container {
        return Err(Unknown(format!("inside a container ({mark}): look from the machine as well")));
    }
    if !place.sees_kernel_threads {
        let text = format!("{text}; other processes are hidden from it");
        return Err(Unknown(text));
    }
    Ok(Judgement::ok(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::is_unknown;

    #[test]
    fn a_container_hides_what_lies_below() {
        let mark = |facts: &mut Facts| {
            facts.machine.surroundings.container = Some("/.dockerenv".to_owned());
        };
        assert!(is_unknown(FINDING, mark));
        let hide = |facts: &mut Facts| facts.machine.surroundings.sees_kernel_threads = false;
        assert!(is_unknown(FINDING, hide));
    }
}
