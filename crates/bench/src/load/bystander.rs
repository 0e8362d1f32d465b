//! A client that is not measured: it holds a row until the end, or waits for one over and over.
//!
//! Invariant: what a holder has written is rolled back, so the tables are as they were.

use std::rc::Rc;
use std::time::Duration;

use super::client;
use super::connection::{Answer, Connection};
use super::thread::LoadThread;

/// Lives bystander number `number`: the first ones hold a row each.
pub(super) async fn live(load_thread: Rc<LoadThread>, number: u32) {
    let bystanders = load_thread.order.workload.bystanders;
    let row = bystanders.row(number);
    let mut connection = match client::open(&load_thread).await {
        Ok(connection) => connection,
        Err(error) => {
            return load_thread.progress.refuse(&format!("a client beside the others: {error}"));
        }
    };
    if number < bystanders.holders {
        let hold = format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES ({row}, 0, '', '')");
        for text in ["BEGIN", &hold] {
            if let Some(why) = run(&load_thread, &mut connection, text).await {
                return load_thread.progress.refuse(&format!("a client that holds a row: {why}"));
            }
        }
        load_thread.progress.ready();
        load_thread.released().await;
    } else {
        load_thread.progress.ready();
        load_thread.started().await;
        let wait = format!("UPDATE sbtest1 SET k=k+1 WHERE id={row}");
        tokio::select! {
            () = load_thread.released() => {}
            () = wait_again(&load_thread, &mut connection, &wait) => {}
        }
    }
    load_thread.progress.closed();
    connection.quit();
}

/// A wait may end by the server's own limit, or by that of what is measured.
async fn wait_again(load_thread: &LoadThread, connection: &mut Connection, text: &str) {
    while run(load_thread, connection, text).await.is_none_or(|why| why.is_refused) {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Why a statement failed.
struct Failed {
    is_refused: bool,
    why: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

async fn run(load_thread: &LoadThread, connection: &mut Connection, text: &str) -> Option<Failed> {
    match connection.query(&load_thread.desk, text, |_| {}).await {
        Ok(Answer::Refused { code, message }) => {
            Some(Failed { is_refused: true, why: format!("{message} (error {code})") })
        }
        Ok(_) => None,
        Err(error) => Some(Failed { is_refused: false, why: error.to_string() }),
    }
}

const PAUSE: Duration = Duration::from_millis(100);
