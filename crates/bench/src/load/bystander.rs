//! What a client does that is not measured: it holds a row until the end, or waits for one over and over.
//!
//! Invariant: what a holder has written is rolled back when it goes, so the tables are as they were.

use std::time::Duration;

use super::connection::{Answer, Broken, Buffers, Connection};

/// Takes a row that no table of sysbench's has, and keeps it.
pub(super) async fn hold(
    connection: &mut Connection,
    buffers: &Buffers,
    row: u32,
) -> Result<(), String> {
    let hold = format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES ({row}, 0, '', '')");
    for text in ["BEGIN", &hold] {
        match connection.query(buffers, text, |_| {}).await {
            Ok(Answer::Refused { code, message }) => {
                return Err(format!("{message} (error {code})"));
            }
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Waits for that row until the connection breaks. A wait may end by the server's own limit, or by that of what is
/// measured.
pub(super) async fn wait_for(connection: &mut Connection, buffers: &Buffers, row: u32) -> Broken {
    let wait = format!("UPDATE sbtest1 SET k=k+1 WHERE id={row}");
    loop {
        if let Err(error) = connection.query(buffers, &wait, |_| {}).await {
            return error;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

const PAUSE: Duration = Duration::from_millis(100);
