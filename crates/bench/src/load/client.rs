//! The life of one client: it connects, waits for the start, works until the end, and leaves.
//!
//! Invariants: it has one statement under way at most; an error ends its transaction, never its
//! life; a connection that breaks is made anew until the round is over.

use std::rc::Rc;
use std::time::Duration;

use wire::command::{Opcode, Shape};

use super::account::OpenError;
use super::connection::{Answer, Broken, Connection};
use super::thread::Hall;
use crate::results::Protocol;
use crate::workloads::Event;
use crate::workloads::random::Random;
use crate::workloads::statement::{Draw, Types};

/// A client that works.
pub(super) struct Client {
    hall: Rc<Hall>,
    /// Its place in the thread's recorder.
    place: usize,
    draw: Draw,
    connection: Option<Connection>,
    /// Statement by statement, and in each table by table.
    prepared: Vec<Prepared>,
}

#[derive(Clone, Copy)]
struct Prepared {
    id: u32,
    types: Types,
}

/// Why a transaction did not come to its end.
enum Failed {
    Refused,
    Broken,
}

/// Lives client number `number` of all, in this place of its thread.
pub(super) async fn live(hall: Rc<Hall>, number: u32, place: usize) {
    let mut client = Client::new(&hall, number, place);
    let stays = hall.order.workload.per_connection.is_none();
    if stays && let Err(why) = client.connect_first().await {
        hall.progress.refuse(&format!("client {} of {}: {why}", number + 1, hall.order.clients));
        return;
    }
    hall.progress.ready();
    let times = hall.started().await;
    let delay = u64::try_from(
        u128::from(times.ramp.max(hall.pace.think())) * u128::from(number)
            / u128::from(hall.order.clients.max(1)),
    );
    hall.sleep(times.start + delay.unwrap_or(0)).await;
    hall.recorder.borrow_mut().join(hall.alarm.now());
    client.work(times.end).await;
    hall.progress.rest();
    hall.released().await;
    client.leave();
}

/// Lives a client that is logged in and asks nothing.
pub(super) async fn idle(hall: Rc<Hall>) {
    let opened = open(&hall).await;
    match opened {
        Ok(connection) => {
            hall.progress.ready();
            hall.released().await;
            hall.progress.closed();
            connection.quit();
        }
        Err(error) => hall.progress.refuse(&format!("an idle client: {error}")),
    }
}

impl Client {
    fn new(hall: &Rc<Hall>, number: u32, place: usize) -> Self {
        let order = &hall.order;
        let random = Random::split(order.seed, u64::from(number));
        let mut draw = Draw::new(random, order.distribution, order.tables, order.rows);
        (draw.client, draw.clients) = (number, order.clients);
        Self { hall: Rc::clone(hall), place, draw, connection: None, prepared: Vec::new() }
    }

    /// Before the start: no error may remain hidden.
    async fn connect_first(&mut self) -> Result<(), String> {
        let opened = self.connect().await;
        opened.map_err(|error| format!("{error}{}", remedy(error.code())))?;
        match self.prepare().await {
            Ok(Answer::Refused { code, message }) => Err(format!(
                "a statement cannot be prepared: {message} (error {code}){}",
                remedy(code)
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn work(&mut self, end: u64) {
        let hall = Rc::clone(&self.hall);
        loop {
            let now = hall.alarm.now();
            if hall.stop_at(end) <= now {
                return;
            }
            let due = hall.pace.take(now);
            if end <= due {
                return;
            }
            if now < due {
                hall.sleep(due).await;
                if hall.stop_at(end) <= hall.alarm.now() {
                    // Its time had come, and went by unused.
                    hall.recorder.borrow_mut().unsent += u64::from(due < hall.alarm.now());
                    return;
                }
            }
            match hall.order.workload.per_connection {
                None => self.transaction(due, end).await,
                Some(count) => self.visit(count, due).await,
            }
            if 0 < hall.pace.think() {
                hall.sleep((hall.alarm.now() + hall.pace.think()).min(end)).await;
            }
        }
    }

    /// One transaction on the connection that is there.
    async fn transaction(&mut self, due: u64, end: u64) {
        if self.connection.is_none() && !self.reconnect(end).await {
            return;
        }
        let hall = Rc::clone(&self.hall);
        let event = hall.order.workload.draw(&mut self.draw.random);
        if self.event(event, due).await.is_ok() {
            hall.recorder.borrow_mut().transaction(self.place, due, hall.alarm.now());
        }
    }

    /// Connects, runs some transactions, disconnects: all of it is one transaction here.
    async fn visit(&mut self, count: u32, due: u64) {
        let hall = Rc::clone(&self.hall);
        if let Err(error) = self.connect().await {
            hall.recorder.borrow_mut().error(error.code(), &error.to_string(), hall.alarm.now());
            // A target that refuses is not asked as fast as it can refuse.
            hall.sleep(hall.alarm.now() + BACK_OFF_MIN.as_nanos() as u64).await;
            return;
        }
        let connected = hall.alarm.now();
        hall.recorder.borrow_mut().connected(due, connected);
        let mut whole = self.see_prepared(connected).await;
        for _ in 0..count {
            if !whole {
                break;
            }
            let event = hall.order.workload.draw(&mut self.draw.random);
            let begin = hall.alarm.now();
            whole = self.event(event, begin).await.is_ok();
        }
        self.leave();
        if whole {
            hall.recorder.borrow_mut().transaction(self.place, due, hall.alarm.now());
        }
    }

    /// The statements of one transaction, of which the first was due at that time.
    async fn event(&mut self, event: &Event, due: u64) -> Result<(), Failed> {
        let mut from = due;
        for step in &event.steps {
            self.draw.draw_table();
            for _ in 0..step.times {
                for statement in &step.statements {
                    let answer = self.statement(*statement).await;
                    let now = self.hall.alarm.now();
                    match answer {
                        Ok(Answer::Refused { code, message }) => {
                            self.hall.recorder.borrow_mut().error(code, &message, now);
                            self.roll_back().await;
                            return Err(Failed::Refused);
                        }
                        Ok(_) => self.hall.recorder.borrow_mut().statement(from, now),
                        Err(error) => {
                            self.lose(&error, now);
                            return Err(Failed::Broken);
                        }
                    }
                    from = now;
                }
            }
        }
        Ok(())
    }

    async fn statement(&mut self, place: usize) -> Result<Answer, Broken> {
        let Self { hall, draw, connection, prepared, .. } = self;
        let connection = connection.as_mut().ok_or(Broken::Closed)?;
        let statement = &hall.order.workload.statements[place];
        let at = place * hall.order.tables.max(1) as usize + draw.table as usize - 1;
        match prepared.get_mut(at) {
            Some(known) if known.id != NOT_PREPARED => {
                let Prepared { id, types } = *known;
                known.types = Types::Known;
                let write = |out: &mut Vec<u8>| statement.put_execute(id, types, draw, out);
                connection.ask(&hall.desk, Shape::Results, write).await
            }
            _ => {
                let write = |out: &mut Vec<u8>| statement.put_query(draw, out);
                connection.ask(&hall.desk, Shape::Results, write).await
            }
        }
    }

    /// Prepares every statement for every table, as sysbench does.
    async fn prepare(&mut self) -> Result<Answer, Broken> {
        self.prepared.clear();
        let hall = Rc::clone(&self.hall);
        if hall.order.protocol == Protocol::Text {
            return Ok(Answer::Done);
        }
        let connection = self.connection.as_mut().ok_or(Broken::Closed)?;
        for statement in &hall.order.workload.statements {
            for table in 1..=hall.order.tables.max(1) {
                let mut id = NOT_PREPARED;
                if !statement.is_text_only() && (table == 1 || statement.needs_table()) {
                    let write = |out: &mut Vec<u8>| statement.put_prepare(table, out);
                    match connection.ask(&hall.desk, Shape::Prepared, write).await? {
                        Answer::Prepared(given) => id = given,
                        // Older servers cannot prepare everything: then it is sent as text.
                        Answer::Refused { code: UNSUPPORTED, .. } | Answer::Done => {}
                        refused @ Answer::Refused { .. } => return Ok(refused),
                    }
                } else if !statement.is_text_only() {
                    // The same whatever the table.
                    id = self.prepared.last().map_or(NOT_PREPARED, |it: &Prepared| it.id);
                }
                self.prepared.push(Prepared { id, types: Types::Sent });
            }
        }
        Ok(Answer::Done)
    }

    /// Prepares on a connection that was made while the round runs. Says whether that worked.
    async fn see_prepared(&mut self, now: u64) -> bool {
        match self.prepare().await {
            Ok(Answer::Refused { code, message }) => {
                self.hall.recorder.borrow_mut().error(code, &message, now);
                false
            }
            Ok(_) => true,
            Err(error) => {
                self.lose(&error, now);
                false
            }
        }
    }

    /// Whatever was refused, the next transaction begins anew.
    async fn roll_back(&mut self) {
        let hall = Rc::clone(&self.hall);
        let Some(connection) = self.connection.as_mut() else { return };
        let write = |out: &mut Vec<u8>| {
            out.push(Opcode::Query as u8);
            out.extend_from_slice(b"ROLLBACK");
        };
        if let Err(error) = connection.ask(&hall.desk, Shape::Results, write).await {
            self.lose(&error, hall.alarm.now());
        }
    }

    async fn connect(&mut self) -> Result<(), OpenError> {
        self.connection = Some(open(&self.hall).await?);
        Ok(())
    }

    /// Tries until it is connected again or the round is over; says which.
    async fn reconnect(&mut self, end: u64) -> bool {
        let hall = Rc::clone(&self.hall);
        let mut back_off = BACK_OFF_MIN;
        while hall.alarm.now() < hall.stop_at(end) {
            let connected = self.connect().await;
            let now = hall.alarm.now();
            match connected {
                Ok(()) if self.see_prepared(now).await => {
                    hall.recorder.borrow_mut().reconnected(now);
                    return true;
                }
                Ok(()) => self.leave(),
                Err(error) => {
                    hall.recorder.borrow_mut().error(error.code(), &error.to_string(), now);
                }
            }
            hall.sleep(now + back_off.as_nanos() as u64).await;
            back_off = BACK_OFF_MAX.min(back_off * 2);
        }
        false
    }

    fn lose(&mut self, error: &Broken, now: u64) {
        self.hall.recorder.borrow_mut().error(0, &error.to_string(), now);
        if self.connection.take().is_some() {
            self.hall.progress.closed();
        }
    }

    fn leave(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.hall.progress.closed();
            connection.quit();
        }
    }
}

/// What to do about limits that many clients meet; to be put behind the message.
const fn remedy(code: u16) -> &'static str {
    match code {
        1040 => "; raise max_connections",
        1203 | 1226 => "; raise max_user_connections, or the account's limits",
        1461 => "; raise max_prepared_stmt_count, or send text (--protocol text)",
        _ => "",
    }
}

/// Connects and logs in, when it is this client's turn to.
async fn open(hall: &Hall) -> Result<Connection, OpenError> {
    // Never closed, so there is always a permit to come.
    let _permit = hall.door.acquire().await;
    let opened = hall.order.account.open(&hall.order.address).await;
    match &opened {
        Ok(_) => hall.progress.opened(),
        Err(error) => hall.progress.missed(&error.to_string()),
    }
    opened
}

/// No server gives this id: it means "the statement prepared last".
const NOT_PREPARED: u32 = wire::statement::LAST_PREPARED;
/// "This command is not supported in the prepared statement protocol yet."
const UNSUPPORTED: u16 = 1295;
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
