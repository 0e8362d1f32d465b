//! What `--place` may say, what it means, and what is said where it cannot be had.

use sys::tree::Seen;

use super::*;

fn set(text: &str) -> Cpus {
    text.parse().expect("is a set")
}

#[test]
fn topologies_are_read_and_written() {
    for text in [
        "together",
        "beside-server",
        "beside-clients",
        "apart",
        "server=1,proxy=0,clients=0",
        "server=0,2-3,proxy=1,clients=4,6",
        "server=1",
        "proxy=0-1,clients=2",
    ] {
        let kind: TopologyKind = text.parse().expect("is one");
        assert_eq!(kind.to_string(), text);
    }
    let unordered: TopologyKind = "clients=0,server=2,1".parse().expect("is one");
    assert_eq!(unordered.to_string(), "server=1-2,clients=0");
}

#[test]
fn what_is_no_topology_is_refused_with_the_reason() {
    for (text, want) in [
        ("", "\"\" is no topology; there are together, beside-server, beside-clients, apart"),
        ("besides", "is no topology"),
        ("0,server=1", "\"0\" names no part"),
        ("server=", "server has no CPU"),
        ("server=1,,proxy=0,clients=", "clients has no CPU"),
        ("servr=1", "\"servr\" is none of server, proxy and clients"),
        ("generator=1", "is none of"),
        ("server=x", "server: \"x\" is no list of CPUs"),
        ("server=3-1", "is no list of CPUs"),
        ("server=1=2", "is no list of CPUs"),
        ("server=99999999", "is no list of CPUs"),
        ("server=1,server=0", "server is named twice"),
    ] {
        let error = text.parse::<TopologyKind>().expect_err(text).to_string();
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn a_topology_is_laid_out_on_the_cpus_that_are_given() {
    for (text, given, server, proxy, clients) in [
        ("together", "0-1", "0-1", "0-1", "0-1"),
        ("together", "5", "5", "5", "5"),
        ("beside-server", "0-1", "1", "1", "0"),
        ("beside-server", "2,5,9", "9", "9", "2,5"),
        ("beside-clients", "0-1", "1", "0", "0"),
        ("beside-clients", "0-3", "3", "0-2", "0-2"),
        ("apart", "0-2", "2", "1", "0"),
        ("apart", "0-7", "7", "6", "0-5"),
        ("server=1,proxy=0,clients=0", "0-1", "1", "0", "0"),
        ("server=1", "0-1", "1", "0-1", "0-1"),
    ] {
        let kind: TopologyKind = text.parse().expect("is one");
        let [server, proxy, clients] = [server, proxy, clients].map(set);
        assert_eq!(kind.layout(&set(given)), Ok(Layout { server, proxy, clients }), "{text}");
    }
}

#[test]
fn what_a_machine_cannot_have_is_said_with_what_it_has() {
    for (text, given, want) in [
        ("apart", "0-1", "the topology apart needs 3 CPUs, and this process may use 2 (0-1)"),
        ("apart", "3", "needs 3 CPUs, and this process may use 1 (3)"),
        ("beside-server", "0", "the topology beside-server needs 2 CPUs"),
        ("beside-clients", "0", "the topology beside-clients needs 2 CPUs"),
        ("server=0,7,proxy=1", "0-1", "this process may use CPUs 0-1, and 7 are not among them"),
    ] {
        let kind: TopologyKind = text.parse().expect("is one");
        let error = kind.layout(&set(given)).expect_err(text).to_string();
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn a_demo_shows_two_topologies_or_says_why_not() {
    let (kinds, why) = of_demo(&set("0-1"), Ok(()));
    assert_eq!((kinds.len(), why), (2, None));
    let (kinds, why) = of_demo(&set("3"), Ok(()));
    let why = why.expect("said");
    assert!(kinds.is_empty() && why.contains("one CPU only (3); below, nothing is bound"), "{why}");
    let (kinds, why) = of_demo(&set("0-1"), Err(anyhow::anyhow!("this is forbidden")));
    assert!(
        kinds.is_empty() && why.is_some_and(|why| why.contains("not shown: this is forbidden"))
    );
}

#[test]
fn threads_of_one_core_are_near_and_shared_cpus_are_not() {
    let cpu = |number, core: &str| Cpu { number, core: Seen::Known(set(core)), ..Cpu::default() };
    let machine = [cpu(0, "0-1"), cpu(1, "0-1"), cpu(2, "2-3"), cpu(3, "2-3")];
    for (text, want) in [
        ("server=0,proxy=1,clients=2", Some("server and proxy are threads")),
        ("server=3,proxy=0,clients=2", Some("server and clients are threads")),
        ("server=0,proxy=0,clients=2", None),
        ("server=0-1,proxy=2,clients=2-3", None),
    ] {
        let kind: TopologyKind = text.parse().expect("is one");
        let said = near(&kind.layout(&set("0-3")).expect("fits"), &machine);
        match want {
            Some(want) => assert!(said.as_ref().is_some_and(|it| it.contains(want)), "{said:?}"),
            None => assert_eq!(said, None, "{text}"),
        }
    }
    assert!(given().is_ok_and(|given| !given.is_empty() && try_to_bind(&given).is_ok()));
}
