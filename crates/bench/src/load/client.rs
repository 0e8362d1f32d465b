//! The life of one client: it connects, waits for the start, works until the end, and leaves.
//!
//! Invariants: it has one statement under way at most; an error ends its transaction, never its
//! life; a connection that breaks is made anew until the round is over.

use std::rc::Rc;
use std::time::Duration;

use wire::command::{Opcode, Shape};

use super::account::OpenError;
use super::bystander;
use super::connection::{Answer, Broken, Connection};
use super::thread::LoadThread;
use crate::results::Protocol;
use crate::workloads::Event;
use crate::workloads::random::Random;
use crate::workloads::statement::{Draw, Types};

/// A client that works.
pub(super) struct Client {
    load_thread: Rc<LoadThread>,
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
pub(super) async fn live(load_thread: Rc<LoadThread>, number: u32, place: usize) {
    let mut client = Client::new(&load_thread, number, place);
    let stays = load_thread.order.workload.per_connection.is_none();
    if stays && let Err(why) = client.connect_first().await {
        load_thread.progress.refuse(&format!(
            "client {} of {}: {why}",
            number + 1,
            load_thread.order.clients
        ));
        return;
    }
    load_thread.progress.ready();
    let times = load_thread.started().await;
    let delay = u64::try_from(
        u128::from(times.ramp.max(load_thread.pace.think())) * u128::from(number)
            / u128::from(load_thread.order.clients.max(1)),
    );
    load_thread.sleep(times.start + delay.unwrap_or(0)).await;
    load_thread.recorder.borrow_mut().join(load_thread.alarm.now());
    client.work(times.end).await;
    load_thread.progress.rest();
    load_thread.released().await;
    client.leave();
}

/// Lives a client that is logged in and asks nothing.
pub(super) async fn idle(load_thread: Rc<LoadThread>) {
    let opened = open(&load_thread).await;
    match opened {
        Ok(connection) => {
            load_thread.progress.ready();
            load_thread.released().await;
            load_thread.progress.closed();
            connection.quit();
        }
        Err(error) => load_thread.progress.refuse(&format!("an idle client: {error}")),
    }
}

/// Lives a client that is not measured; the first ones of these hold a row each.
pub(super) async fn stand_by(load_thread: Rc<LoadThread>, number: u32) {
    let (bystanders, buffers) = (load_thread.order.workload.bystanders, &load_thread.buffers);
    let row = bystanders.row(load_thread.turn, number);
    let refuse = |why: &str| load_thread.progress.refuse(&format!("a client for hot rows: {why}"));
    let mut connection = match open(&load_thread).await {
        Ok(connection) => connection,
        Err(error) => return refuse(&error.to_string()),
    };
    if number < bystanders.holders {
        if let Err(why) = bystander::hold(&mut connection, buffers, row).await {
            return refuse(&why);
        }
        load_thread.progress.ready();
        load_thread.released().await;
    } else {
        load_thread.progress.ready();
        load_thread.started().await;
        tokio::select! {
            () = load_thread.released() => {}
            why = bystander::wait_for(&mut connection, buffers, row) => refuse(&why.to_string()),
        }
    }
    load_thread.progress.closed();
    connection.quit();
}

impl Client {
    fn new(load_thread: &Rc<LoadThread>, number: u32, place: usize) -> Self {
        let order = &load_thread.order;
        let random = Random::split(order.seed, u64::from(number));
        let mut draw = Draw::new(random, order.distribution, order.tables, order.rows);
        (draw.client, draw.clients) = (number, order.clients);
        Self {
            load_thread: Rc::clone(load_thread),
            place,
            draw,
            connection: None,
            prepared: Vec::new(),
        }
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
        let load_thread = Rc::clone(&self.load_thread);
        loop {
            let now = load_thread.alarm.now();
            if load_thread.stop_at(end) <= now {
                return;
            }
            let due = load_thread.pace.take(now);
            if end <= due {
                return;
            }
            if now < due {
                load_thread.sleep(due).await;
                if load_thread.stop_at(end) <= load_thread.alarm.now() {
                    // Its time had come, and went by unused.
                    load_thread.recorder.borrow_mut().unsent +=
                        u64::from(due < load_thread.alarm.now());
                    return;
                }
            }
            match load_thread.order.workload.per_connection {
                None => self.transaction(due, end).await,
                Some(count) => self.visit(count, due).await,
            }
            if 0 < load_thread.pace.think() {
                load_thread
                    .sleep((load_thread.alarm.now() + load_thread.pace.think()).min(end))
                    .await;
            }
        }
    }

    /// One transaction on the connection that is there.
    async fn transaction(&mut self, due: u64, end: u64) {
        if self.connection.is_none() && !self.reconnect(end).await {
            return;
        }
        let load_thread = Rc::clone(&self.load_thread);
        let event = load_thread.order.workload.draw(&mut self.draw.random);
        if self.event(event, due).await.is_ok() {
            load_thread.recorder.borrow_mut().transaction(self.place, due, load_thread.alarm.now());
        }
    }

    /// Connects, runs some transactions, disconnects: all of it is one transaction here.
    async fn visit(&mut self, count: u32, due: u64) {
        let load_thread = Rc::clone(&self.load_thread);
        if let Err(error) = self.connect().await {
            load_thread.recorder.borrow_mut().error(
                error.code(),
                &error.to_string(),
                load_thread.alarm.now(),
            );
            // A target that refuses is not asked as fast as it can refuse.
            load_thread.sleep(load_thread.alarm.now() + BACK_OFF_MIN.as_nanos() as u64).await;
            return;
        }
        let connected = load_thread.alarm.now();
        load_thread.recorder.borrow_mut().connected(due, connected);
        let mut whole = self.see_prepared(connected).await;
        for _ in 0..count {
            if !whole {
                break;
            }
            let event = load_thread.order.workload.draw(&mut self.draw.random);
            let begin = load_thread.alarm.now();
            whole = self.event(event, begin).await.is_ok();
        }
        self.leave();
        if whole {
            load_thread.recorder.borrow_mut().transaction(self.place, due, load_thread.alarm.now());
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
                    let now = self.load_thread.alarm.now();
                    match answer {
                        Ok(Answer::Refused { code, message }) => {
                            self.load_thread.recorder.borrow_mut().error(code, &message, now);
                            self.roll_back().await;
                            return Err(Failed::Refused);
                        }
                        Ok(_) => self.load_thread.recorder.borrow_mut().statement(from, now),
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
        let Self { load_thread, draw, connection, prepared, .. } = self;
        let connection = connection.as_mut().ok_or(Broken::Closed)?;
        let statement = &load_thread.order.workload.statements[place];
        let at = place * load_thread.order.tables.max(1) as usize + draw.table as usize - 1;
        match prepared.get_mut(at) {
            Some(known) if known.id != NOT_PREPARED => {
                let Prepared { id, types } = *known;
                known.types = Types::Known;
                let write = |out: &mut Vec<u8>| statement.put_execute(id, types, draw, out);
                connection.ask(&load_thread.buffers, Shape::Results, write).await
            }
            _ => {
                let write = |out: &mut Vec<u8>| statement.put_query(draw, out);
                connection.ask(&load_thread.buffers, Shape::Results, write).await
            }
        }
    }

    /// Prepares every statement for every table, as sysbench does.
    async fn prepare(&mut self) -> Result<Answer, Broken> {
        self.prepared.clear();
        let load_thread = Rc::clone(&self.load_thread);
        if load_thread.order.protocol == Protocol::Text {
            return Ok(Answer::Done);
        }
        let connection = self.connection.as_mut().ok_or(Broken::Closed)?;
        for statement in &load_thread.order.workload.statements {
            for table in 1..=load_thread.order.tables.max(1) {
                let mut id = NOT_PREPARED;
                if !statement.is_text_only() && (table == 1 || statement.needs_table()) {
                    let write = |out: &mut Vec<u8>| statement.put_prepare(table, out);
                    match connection.ask(&load_thread.buffers, Shape::Prepared, write).await? {
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
                self.load_thread.recorder.borrow_mut().error(code, &message, now);
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
        let load_thread = Rc::clone(&self.load_thread);
        let Some(connection) = self.connection.as_mut() else { return };
        let write = |out: &mut Vec<u8>| {
            out.push(Opcode::Query as u8);
            out.extend_from_slice(b"ROLLBACK");
        };
        if let Err(error) = connection.ask(&load_thread.buffers, Shape::Results, write).await {
            self.lose(&error, load_thread.alarm.now());
        }
    }

    async fn connect(&mut self) -> Result<(), OpenError> {
        self.connection = Some(open(&self.load_thread).await?);
        Ok(())
    }

    /// Tries until it is connected again or the round is over; says which.
    async fn reconnect(&mut self, end: u64) -> bool {
        let load_thread = Rc::clone(&self.load_thread);
        let mut back_off = BACK_OFF_MIN;
        while load_thread.alarm.now() < load_thread.stop_at(end) {
            let connected = self.connect().await;
            let now = load_thread.alarm.now();
            match connected {
                Ok(()) if self.see_prepared(now).await => {
                    load_thread.recorder.borrow_mut().reconnected(now);
                    return true;
                }
                Ok(()) => self.leave(),
                Err(error) => {
                    load_thread.recorder.borrow_mut().error(error.code(), &error.to_string(), now);
                }
            }
            load_thread.sleep(now + back_off.as_nanos() as u64).await;
            back_off = BACK_OFF_MAX.min(back_off * 2);
        }
        false
    }

    fn lose(&mut self, error: &Broken, now: u64) {
        self.load_thread.recorder.borrow_mut().error(0, &error.to_string(), now);
        if self.connection.take().is_some() {
            self.load_thread.progress.closed();
        }
    }

    fn leave(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.load_thread.progress.closed();
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
async fn open(load_thread: &LoadThread) -> Result<Connection, OpenError> {
    // Never closed, so there is always a permit to come.
    let _permit = load_thread.door.acquire().await;
    let opened = load_thread.order.account.open(&load_thread.order.address).await;
    match &opened {
        Ok(_) => load_thread.progress.opened(),
        Err(error) => load_thread.progress.missed(&error.to_string()),
    }
    opened
}

/// No server gives this id: it means "the statement prepared last".
const NOT_PREPARED: u32 = wire::statement::LAST_PREPARED;
/// "This command is not supported in the prepared statement protocol yet."
const UNSUPPORTED: u16 = 1295;
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
