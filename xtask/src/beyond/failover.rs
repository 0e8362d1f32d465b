//! Two servers of a make behind one Flifo, of which the first is killed.
//!
//! What must come of it: a client that had a connection there is told so and has to connect again, none goes on with a
//! session of which nothing is known; a client that connects again is served by the other server, with what was written.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use testkit::client::Client;
use testkit::flifo::Flifo;

use super::make::{Make, Standing};
use super::{PASSWORD, USERS};

/// Returns what is not as it must be.
pub(super) fn run(
    make: Make,
    programs: &Path,
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let Some([mut first, second]) = make.start_pair(programs, interrupt)? else {
        return Ok(Vec::new());
    };
    eprintln!("{}: failover", make.name());
    let proxy = Flifo::start_program(flifo, &config(make, [&first, &second]));
    let mut old = until(interrupt, || connect(&proxy))?;
    old.query("CREATE TABLE suite1.failover (id INT PRIMARY KEY)")?;
    old.query("INSERT INTO suite1.failover VALUES (1)")?;
    // Otherwise it would be lost with the first server, which is not Flifo's to prevent.
    let read = "SELECT id FROM suite1.failover";
    until(interrupt, || ensure_rows(&mut at(second.port)?, read, &["1"]))?;

    first.kill()?;
    promote(make, &second)?;
    let begun = Instant::now();
    let mut new = until(interrupt, || {
        let mut client = connect(&proxy)?;
        client.query("INSERT INTO suite1.failover VALUES (2)")?;
        Ok(client)
    })?;
    let took = begun.elapsed();
    let mut faults = Vec::new();
    let told = match old.query("INSERT INTO suite1.failover VALUES (3)") {
        Ok(_) => {
            faults.push("a client whose server was killed goes on elsewhere".to_owned());
            "nothing".to_owned()
        }
        Err(why) => why.to_string(),
    };
    if let Err(why) = ensure_rows(&mut new, read, &["1", "2"]) {
        faults.push(format!("after the failover: {why:#}"));
    }
    println!(
        "Failover: the first of two servers was killed. A client that had a connection there was told: {told}. \
         The next one was served by the other server after {} ms.\n",
        took.as_millis()
    );
    let (status, log) = proxy.stop();
    if !status.success() || log.contains("panicked") {
        faults.push(format!("Flifo has ended with {status}:\n{log}"));
    }
    Ok(faults.into_iter().map(|fault| format!("failover: {fault}")).collect())
}

fn config(make: Make, servers: [&Standing; 2]) -> String {
    let (group, checks) = match make {
        // A standby says that it is read_only.
        Make::Gms | Make::Dolt => ("auto", "auto"),
        // All are alike, so the first one is written to while it lives.
        Make::Vitess => ("writer", "ping"),
    };
    let entries = servers.iter().zip(["first", "second"]).map(|(server, name)| {
        let port = server.port;
        format!("[[servers]]\nname = {name:?}\naddress = \"127.0.0.1:{port}\"\ngroup = {group:?}\n")
    });
    let user = USERS[0];
    format!(
        "workers = 1\nchecks.kind = {checks:?}\n{}[server]\naccount_terms = \"flifo\"\n\
         read_definitions = \"off\"\n[tls]\nmode = \"off\"\n\
         [[users]]\nname = {user:?}\npassword = {PASSWORD:?}\n",
        entries.collect::<String>()
    )
}

/// What an operator does there.
fn promote(make: Make, server: &Standing) -> Result<()> {
    if make == Make::Dolt {
        server.client()?.query("CALL dolt_assume_cluster_role('primary', 2)")?;
    }
    Ok(())
}

fn connect(proxy: &Flifo) -> Result<Client> {
    let mut client = at(proxy.port())?;
    client.query("SELECT 1")?;
    Ok(client)
}

fn at(port: u16) -> Result<Client> {
    let address = backend::Address::Tcp { host: "127.0.0.1".into(), port };
    Ok(Client::builder(address, USERS[0], PASSWORD).connect()?)
}

fn ensure_rows(client: &mut Client, text: &str, wanted: &[&str]) -> Result<()> {
    let mut rows = client.query(text)?.concat();
    rows.sort_unstable();
    ensure!(rows == wanted, "{text} finds {rows:?}, not {wanted:?}");
    Ok(())
}

/// Tries until it succeeds.
fn until<T>(interrupt: &Interrupt, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(why) if PATIENCE < begun.elapsed() => return Err(why).context("it stays so"),
            Err(_) => interrupt.sleep(Duration::from_millis(50))?,
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
