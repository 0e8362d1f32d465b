//! A network of several machines on this one. Each machine has a network name space of its own, and a cable to a switch
//! that connects all of them and this program. A cable can be slow and lossy, or dead: then no packet arrives, and none
//! is refused.
//!
//! Owns name spaces, cables and the switch; what runs on the machines is started by others ([`Lan::entrance`]). The
//! switch is in a network name space as well, which this program enters first ([`enter`]). Invariant: nothing of it is
//! left when this program ends, in whatever way.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::getpid;

/// Machines, and the cables to them.
#[derive(Debug)]
pub struct Lan {
    machines: Vec<Machine>,
}

/// A process that does nothing but keep a name space.
#[derive(Debug)]
struct Machine {
    keeper: Child,
}

/// How good the way to a machine is, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cable {
    Good,
    /// 40 ms each way, and one of twenty packets is lost; where the kernel cannot do that (`netem`), little goes through at
    /// once (`tbf`): packets queue, and are lost when the queue is full.
    Slow,
    Dead,
}

/// Says that this program is in a name space of its own.
const INSIDE: &str = "FLIFO_OWN_NETWORK";

/// The host of a server: this machine, or one of a network.
pub fn host(lan: Option<&Lan>, at: usize) -> String {
    lan.map_or_else(|| "127.0.0.1".to_owned(), |lan| lan.host(at))
}

/// Runs this program once more, with the same arguments, in a network name space of its own. `None`: that is done
/// already. An error says why it cannot be done.
pub fn enter() -> io::Result<Option<ExitStatus>> {
    if std::env::var_os(INSIDE).is_some() {
        run("ip", &["link", "set", "lo", "up"])?;
        return Ok(None);
    }
    let mut command = Command::new("unshare");
    if !sys::process::is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "--"]).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    command.env(INSIDE, "1").status().map(Some)
}

impl Lan {
    /// So many machines, each with a good cable.
    ///
    /// # Errors
    /// If the system does not make them: root may, in a name space of its own.
    pub fn of(machines: usize) -> io::Result<Self> {
        run("ip", &["link", "add", "switch", "type", "bridge"])?;
        run("ip", &["address", "add", "10.77.0.254/24", "dev", "switch"])?;
        run("ip", &["link", "set", "switch", "up"])?;
        let mut lan = Self { machines: Vec::new() };
        for at in 0..machines {
            lan.machines.push(Machine::new(at)?);
        }
        Ok(lan)
    }

    /// The address of a machine.
    pub fn host(&self, at: usize) -> String {
        format!("10.77.0.{}", at + 1)
    }

    /// What a command line begins with, so that the rest of it runs on this machine.
    pub fn entrance(&self, at: usize) -> Vec<String> {
        entrance(&self.machines[at].keeper)
    }

    /// Changes how good a machine's cable is.
    ///
    /// # Errors
    /// If the kernel does not do it.
    pub fn set(&self, at: usize, cable: Cable) -> io::Result<()> {
        let inside = self.entrance(at);
        for (before, end) in [(&[][..], plug(at)), (&inside[..], "eth0".to_owned())] {
            let tc = |rest: &[&str]| {
                let mut words: Vec<&str> = before.iter().map(String::as_str).collect();
                words.extend(["tc", "qdisc"]);
                words.extend(rest);
                run(words[0], &words[1..])
            };
            match cable {
                // There need not be anything that could be taken away.
                Cable::Good => drop(tc(&["del", "dev", &end, "root"])),
                Cable::Dead => tc(&["replace", "dev", &end, "root", "blackhole"])?,
                Cable::Slow => {
                    let to = ["replace", "dev", &end, "root"];
                    let netem = ["netem", "delay", "40ms", "20ms", "loss", "5%"];
                    let tbf = ["tbf", "rate", "256kbit", "burst", "3kb", "latency", "200ms"];
                    tc(&[&to[..], &netem].concat()).or_else(|_| tc(&[&to[..], &tbf].concat()))?;
                }
            }
        }
        Ok(())
    }
}

impl Machine {
    fn new(at: usize) -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "sleep", "infinity"]).stdin(Stdio::null());
        let machine = Self { keeper: sys::child::spawn(command)? };
        let own = format!("/proc/{}/ns/net", machine.keeper.id());
        let ours = std::fs::read_link(format!("/proc/{}/ns/net", getpid().as_raw_nonzero()))?;
        while std::fs::read_link(&own)? == ours {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (plug, pid) = (plug(at), machine.keeper.id().to_string());
        run("ip", &["link", "add", &plug, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        run("ip", &["link", "set", &plug, "master", "switch", "up"])?;
        let inside = entrance(&machine.keeper);
        let address = format!("10.77.0.{}/24", at + 1);
        for words in [
            &["address", "add", &address, "dev", "eth0"][..],
            &["link", "set", "eth0", "up"],
            &["link", "set", "lo", "up"],
        ] {
            let mut all: Vec<&str> = inside.iter().map(String::as_str).collect();
            all.push("ip");
            all.extend(words);
            run(all[0], &all[1..])?;
        }
        Ok(machine)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Our end of a cable.
fn plug(at: usize) -> String {
    format!("plug{at}")
}

fn entrance(keeper: &Child) -> Vec<String> {
    ["nsenter", "--net", "--target", &keeper.id().to_string(), "--"].map(str::to_owned).to_vec()
}

fn run(program: &str, words: &[&str]) -> io::Result<()> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {}: {}", words.join(" "), said.trim())))
}
