//! `cargo xtask iteration-cost`: what part of a statement's CPU a worker spends on watching its own loop.
//!
//! To compare two builds would need hours, since the part is far smaller than what loads scatter. So it is put together
//! from what can be measured closely: what the clocks and the account of one iteration cost, on a CPU clock; and how many
//! iterations, and how much CPU, the worker itself counts for its statements. Bounds from above are taken where a count is
//! missing.

use std::cell::RefCell;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use engine::iterations::{ITERATIONS_MAX, Iterations, LONG};
use sys::threads::own_cpu_time;
use testkit::fake_client::FakeClient;
use testkit::flifo::{Flifo, free_port};

use crate::price::nanos;

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How long each number of clients asks, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    clients: Vec<u16>,
}

/// Of the CPU of a statement.
const SHARE_MAX: f64 = 0.01;

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let price = Price::measure();
    println!(
        "an iteration: {:.1} ns for two clocks and the account; a socket that was ready: {:.1} ns; the \
         thread's own clock: {:.0} ns",
        price.iteration, price.ready, price.own_clock
    );
    let server = PrivateServer::start_default()?;
    let (user, password, http) = (PrivateServer::USER, server.password(), free_port());
    let flifo = Flifo::start_program(
        flifo,
        &format!(
            "workers = 1\n[server]\naddress = {:?}\n[placement]\npolicy = \"off\"\n[console]\n\
             listen = []\n[http]\nlisten = \"127.0.0.1:{http}\"\n[[users]]\nname = {user:?}\n\
             password = {password:?}\n",
            server.socket().display().to_string()
        ),
    );
    let columns = [
        "clients",
        "statements/s",
        "iterations a statement",
        "CPU, us",
        "watching, ns",
        "share, %",
    ];
    let mut table = Table::new(&columns);
    let mut worst = 0.0_f64;
    for &clients in &extent.clients {
        let before = Counted::read(http, interrupt)?;
        work(extent, clients, flifo.port(), password)?;
        let counted = Counted::read(http, interrupt)?.since(&before);
        ensure!(counted.statements > 0.0, "no statement was answered");
        let watching = price.of(&counted);
        let share = watching / counted.ran;
        worst = worst.max(share);
        let each = |sum: f64| sum / counted.statements;
        table.row(vec![
            TableCell::plain(clients.to_string()),
            TableCell::plain(format!("{:.0}", counted.statements / extent.seconds as f64)),
            TableCell::plain(format!("{:.2}", each(counted.iterations))),
            TableCell::plain(format!("{:.2}", each(counted.ran) * 1e6)),
            TableCell::plain(format!("{:.0}", each(watching) * 1e9)),
            TableCell::plain(format!("{:.2}", share * 100.0)),
        ]);
    }
    print!("{}", table.render(Colours::Off));
    let (worst, most) = (worst * 100.0, SHARE_MAX * 100.0);
    ensure!(worst <= most, "to watch the loop takes {worst:.2} % of the CPU, more than {most} %");
    Ok(())
}

/// In nanoseconds of CPU.
struct Price {
    /// Two clocks and the account of an iteration: one of the clocks, the loop would read anyway.
    iteration: f64,
    ready: f64,
    /// A read of the thread's own CPU clock, which is a system call.
    own_clock: f64,
}

thread_local! {
    /// As the worker has it.
    static ITERATIONS: RefCell<Iterations> = RefCell::default();
}

impl Price {
    fn measure() -> Self {
        let iteration = || {
            let now = Instant::now();
            ITERATIONS.with_borrow_mut(|iterations| iterations.wake(now));
            let now = Instant::now();
            ITERATIONS.with_borrow_mut(|iterations| iterations.rest(now, || Duration::ZERO));
        };
        let ready = || ITERATIONS.with_borrow_mut(Iterations::see_ready);
        Self {
            iteration: nanos(iteration),
            ready: nanos(ready),
            own_clock: nanos(|| _ = black_box(own_cpu_time())),
        }
    }

    /// Seconds of CPU. The thread's clock is read behind every so many iterations, and behind each long one: there are no
    /// more of those than fit into the length of all iterations.
    fn of(&self, counted: &Counted) -> f64 {
        let own_clocks =
            counted.iterations / f64::from(ITERATIONS_MAX) + counted.busy / LONG.as_secs_f64();
        let own_clocks = own_clocks.min(counted.iterations);
        (counted.iterations * self.iteration
            + counted.ready * self.ready
            + own_clocks * self.own_clock)
            / 1e9
    }
}

/// What the only worker has counted; times in seconds.
#[derive(Debug, PartialEq)]
struct Counted {
    statements: f64,
    iterations: f64,
    busy: f64,
    ready: f64,
    ran: f64,
}

impl Counted {
    /// Waits until the kernel's account, at which the worker looks once a second, holds all that has been done.
    fn read(http: u16, interrupt: &Interrupt) -> Result<Self> {
        interrupt.sleep(Duration::from_millis(2500))?;
        let mut stream = TcpStream::connect(("127.0.0.1", http))?;
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Self::of(&page)
    }

    fn of(page: &str) -> Result<Self> {
        let find = |name: &str| {
            let is_it = |line: &&str| {
                line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']))
            };
            let line =
                page.lines().find(is_it).with_context(|| format!("/metrics has no {name}"))?;
            let value = line.rsplit(' ').next().unwrap_or_default();
            value.parse::<f64>().with_context(|| format!("{line} is no number"))
        };
        Ok(Self {
            statements: find("flifo_statements_total")?,
            iterations: find("flifo_worker_iterations_total")?,
            busy: find("flifo_worker_iteration_seconds_total")?,
            ready: find("flifo_worker_ready_total")?,
            ran: find("flifo_worker_run_seconds_total")?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            statements: self.statements - before.statements,
            iterations: self.iterations - before.iterations,
            busy: self.busy - before.busy,
            ready: self.ready - before.ready,
            ran: self.ran - before.ran,
        }
    }
}

/// Clients that log in and ask, one statement after the other.
fn work(extent: &Extent, clients: u16, port: u16, password: &str) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(extent.seconds);
    let ask = || -> Result<()> {
        let mut client = FakeClient::login(port, PrivateServer::USER, password)
            .map_err(|refusal| anyhow::anyhow!("a client cannot log in: {refusal:?}"))?;
        while Instant::now() < end {
            let answer = client.query("SELECT 1");
            ensure!(answer.is_ok(), "a statement fails: {answer:?}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(ask)).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("does not panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_the_dearest_case_is_taken() {
        let page = "# HELP flifo_statements_total x\nflifo_statements_total 10\n\
                    flifo_worker_iterations_total{worker=\"0\"} 32\n\
                    flifo_worker_iteration_seconds_total{worker=\"0\"} 0.002\n\
                    flifo_worker_ready_total{worker=\"0\"} 64\n\
                    flifo_worker_run_seconds_total{worker=\"0\"} 0.001\n";
        let counted = Counted::of(page).unwrap();
        assert!(Counted::of("flifo_statements_totals 1\n").is_err());
        let price = Price { iteration: 50.0, ready: 1.0, own_clock: 300.0 };
        // Two by the count of iterations, and at most ten long ones.
        let nanos = 32.0 * 50.0 + 64.0 + 12.0 * 300.0;
        assert!((price.of(&counted) * 1e9 - nanos).abs() < 1e-3);
        assert_eq!(counted.since(&counted).iterations, 0.0);
    }
}
