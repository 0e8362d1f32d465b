//! HAProxy as one of the treatments: so many threads, so many servers, a page of statistics.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::ChecksTreatment;
use crate::private_server::free_port;
use crate::process::Running;
use crate::programs::HAPROXY;

/// HAProxy, until it is dropped.
pub(super) struct HaProxy {
    running: Running,
    page: SocketAddr,
    _folder: tempfile::TempDir,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl HaProxy {
    pub(super) fn start(treatment: &ChecksTreatment, servers: &[SocketAddr]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let page = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, configuration(treatment, page, servers))?;
        let mut command = Command::new(HAPROXY.find()?);
        command.arg("-db").arg("-q").arg("-f").arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::start(HAPROXY.name, command)?;
        let begun = Instant::now();
        while TcpStream::connect(page).is_err() {
            if let Some(status) = running.ended()? {
                bail!("haproxy ended at once: {status}");
            }
            if begun.elapsed() > PATIENCE {
                bail!("haproxy does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { running, page, _folder: folder })
    }

    pub(super) const fn page(&self) -> SocketAddr {
        self.page
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.pid()
    }
}

fn configuration(treatment: &ChecksTreatment, page: SocketAddr, servers: &[SocketAddr]) -> String {
    let ChecksTreatment { workers, servers: count, interval, .. } = treatment;
    let milliseconds = interval.as_millis();
    let mut text = format!(
        "global\n nbthread {workers}\n spread-checks 5\n\
         defaults\n mode tcp\n timeout connect 1s\n timeout client 1m\n timeout server 1m\n \
         timeout http-request 1m\n timeout http-keep-alive 1m\n\
         frontend page\n mode http\n bind {page}\n stats enable\n stats uri /stats\n\
         backend checked\n default-server inter {milliseconds}ms fastinter {milliseconds}ms\n"
    );
    for number in 0..*count {
        let address = servers[number % servers.len()];
        text += &format!(" server s{number} {address} check\n");
    }
    text
}
