//! Logins take turns: a worker begins so many at once, and has so many at the server; the others wait in the queue,
//! first in, first out.
//!
//! Owns which logins may work; what a login is belongs to [`crate::frontend::login`]. A login that waits for its client
//! does not keep others waiting: it lends its place meanwhile, and comes before all newcomers when its client has
//! answered. So a thousand clients that say nothing hold up no other login, and a thousand that come at once do not
//! take the worker from the clients that are logged in.
//!
//! Invariants: never more places are taken than there are, but for those that were taken before there were fewer; a place that is given back goes to the next login, to a
//! newcomer's as soon as the pace lets it begin, and is not lost if that client has left; no login waits longer than it
//! may.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use backend::Stream;
use engine::arrivals::Arrivals;
use tokio::sync::oneshot;

use crate::worker::counters::Counter;

/// The places of one worker, and the logins that wait for one.
#[derive(Debug)]
pub(crate) struct Logins {
    free: Cell<u32>,
    /// So many places are taken that there are no more: they are not given on.
    excess: Cell<u32>,
    /// How many places there are.
    all: Cell<u32>,
    /// Logins whose clients have answered.
    again: Queue,
    /// Logins of clients that have just come.
    new: Queue,
    pace: Option<Pace>,
}

/// How fast newcomers may begin beside the clients that are logged in.
#[derive(Debug)]
struct Pace {
    arrivals: RefCell<Arrivals>,
    /// Statements of logged-in clients that have been answered.
    statements: Rc<Counter>,
    /// A task is waiting to look again when the next may begin.
    is_awaited: Cell<bool>,
}

type Queue = RefCell<VecDeque<oneshot::Sender<Place>>>;

/// The right to work at a login. Dropped, it passes to the next.
#[derive(Debug)]
struct Place(Option<Rc<Logins>>);

/// A login that has had its place, and may lend it.
#[derive(Debug)]
pub(crate) struct Pass {
    logins: Rc<Logins>,
    place: RefCell<Option<Place>>,
}

/// Why a login does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPass {
    /// Its client has left meanwhile.
    Gone,
    /// It has waited for so long as it may; so many others still do.
    Late { others: usize },
}

/// While the worker is idle its turns are short, so that these are enough for some ten thousand a second.
const OWN_PLACES: u32 = 2;

impl Logins {
    /// Those that Flifo decides itself. A place is taken for about a iteration of the loop, so this is how many begin
    /// in each, beside the statements of clients that are logged in, as long as [`engine::arrivals`] lets them.
    pub(crate) fn own(statements: &Rc<Counter>) -> Rc<Self> {
        let arrivals = RefCell::new(Arrivals::new(crate::worker::clock::read()));
        let is_awaited = Cell::new(false);
        let pace = Pace { arrivals, statements: Rc::clone(statements), is_awaited };
        let (again, new) = (Queue::default(), Queue::default());
        Rc::new(Self { again, new, pace: Some(pace), ..Self::with(OWN_PLACES) })
    }

    /// One worker's part of `places`, which are for all workers together.
    pub(crate) fn new(places: u32, workers: usize) -> Rc<Self> {
        Rc::new(Self::with(part(places, workers)))
    }

    fn with(places: u32) -> Self {
        let (free, all, excess) = (Cell::new(places), Cell::new(places), Cell::new(0));
        Self { free, excess, all, again: Queue::default(), new: Queue::default(), pace: None }
    }

    /// There are so many places from now on, for all workers together. Logins that have one keep it.
    pub(crate) fn resize(self: &Rc<Self>, places: u32, workers: usize) {
        let (old, new) = (self.all.get(), part(places, workers));
        self.all.set(new);
        let (free, excess) = (self.free.get(), self.excess.get());
        if let Some(more) = new.checked_sub(old) {
            let kept = more.min(excess);
            self.excess.set(excess - kept);
            // Each is given as one that was taken: to the login that has waited for longest.
            (kept..more).for_each(|_| drop(Place(Some(Rc::clone(self)))));
        } else {
            let fewer = (old - new).min(free);
            self.free.set(free - fewer);
            self.excess.set(excess + (old - new - fewer));
        }
    }

    /// Whether a newcomer would have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.free.get() == 0 || self.pace.as_ref().is_some_and(|pace| pace.is_awaited.get())
    }

    /// Waits for a place, for so long at most, and only while the client is there.
    pub(crate) async fn enter(
        self: &Rc<Self>,
        limit: Duration,
        client: &Stream,
    ) -> Result<Pass, NoPass> {
        if self.may_begin()
            && let Some(place) = self.take()
        {
            return Ok(self.pass(place));
        }
        let place = tokio::select! {
            biased;
            place = self.wait(&self.new) => Ok(self.pass(place)),
            () = gone(client) => Err(NoPass::Gone),
            () = tokio::time::sleep(limit) => Err(NoPass::Late { others: 0 }),
        };
        place.map_err(|why| {
            self.forget_leavers();
            match why {
                NoPass::Late { .. } => {
                    let queue = self.new.borrow();
                    let others = queue.iter().filter(|other| !other.is_closed()).count();
                    NoPass::Late { others }
                }
                NoPass::Gone => NoPass::Gone,
            }
        })
    }

    /// A place for a login that has waited before, or for a logged-in client that becomes another user: before all
    /// newcomers.
    pub(crate) async fn enter_again(self: &Rc<Self>) -> Pass {
        let place = match self.take() {
            Some(place) => place,
            None => self.wait(&self.again).await,
        };
        self.pass(place)
    }

    fn pass(self: &Rc<Self>, place: Place) -> Pass {
        Pass { logins: Rc::clone(self), place: RefCell::new(Some(place)) }
    }

    fn take(self: &Rc<Self>) -> Option<Place> {
        let free = self.free.get().checked_sub(1)?;
        self.free.set(free);
        Some(Place(Some(Rc::clone(self))))
    }

    async fn wait(&self, queue: &Queue) -> Place {
        let (sender, receiver) = oneshot::channel();
        queue.borrow_mut().push_back(sender);
        receiver.await.expect("a queue lives as long as its waiting logins, and only sends places")
    }

    /// Whether the next newcomer may begin now. If not, it is looked again when one may.
    fn may_begin(self: &Rc<Self>) -> bool {
        let Some(pace) = &self.pace else { return true };
        if self.free.get() == 0 || pace.is_awaited.get() {
            return false;
        }
        let now = crate::worker::clock::now();
        let Err(wait) = pace.arrivals.borrow_mut().admit(now, pace.statements.get()) else {
            return true;
        };
        pace.is_awaited.set(true);
        let logins = Rc::clone(self);
        crate::worker::tasks::vital(async move {
            tokio::time::sleep(wait).await;
            crate::worker::clock::tick();
            if let Some(pace) = &logins.pace {
                pace.is_awaited.set(false);
            }
            logins.go_on();
        });
        false
    }

    /// Lets the newcomers begin that may begin by now.
    fn go_on(self: &Rc<Self>) {
        loop {
            self.forget_leavers();
            if self.new.borrow().is_empty() || !self.may_begin() {
                return;
            }
            let Some(place) = self.take() else { return };
            let next = self.new.borrow_mut().pop_front();
            if let Some(Err(mut refused)) = next.map(|next| next.send(place)) {
                // It has left after all.
                refused.0 = None;
                self.free.set(self.free.get() + 1);
            }
        }
    }

    /// Removes logins that have left from the front of the queue. All may wait for equally long, so those that have
    /// waited too long are in front.
    fn forget_leavers(&self) {
        let mut queue = self.new.borrow_mut();
        while queue.front().is_some_and(oneshot::Sender::is_closed) {
            queue.pop_front();
        }
    }
}

/// One worker's part of so many places.
fn part(places: u32, workers: usize) -> u32 {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
    places.div_ceil(workers).max(1)
}

impl Drop for Place {
    fn drop(&mut self) {
        // A place that a login refused because its client has left is empty: the loop gives it to the next login.
        let Some(logins) = self.0.take() else { return };
        if let Some(excess) = logins.excess.get().checked_sub(1) {
            return logins.excess.set(excess);
        }
        loop {
            let Some(next) = logins.again.borrow_mut().pop_front() else { break };
            match next.send(Self(Some(Rc::clone(&logins)))) {
                Ok(()) => return,
                Err(mut refused) => refused.0 = None,
            }
        }
        logins.free.set(logins.free.get() + 1);
        logins.go_on();
    }
}

impl Pass {
    /// Waits for what is not this worker's work: for a client to say something, for another thread. Others have the
    /// place meanwhile, unless the answer is there already.
    pub(crate) async fn lend<T>(&self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        let first = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
        if let Poll::Ready(done) = first {
            return done;
        }
        self.place.take();
        let done = wait.await;
        let place = match self.logins.take() {
            Some(place) => place,
            None => self.logins.wait(&self.logins.again).await,
        };
        self.place.replace(Some(place));
        done
    }
}

/// Waits for the client to go away. What it says early stays unread.
async fn gone(client: &Stream) {
    loop {
        if client.readable().await.is_err() || client.hung_up() {
            return;
        }
        client.clear_readable();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::net::UnixStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn run<T>(test: impl Future<Output = T>) -> T {
        // Time goes on while nothing else does.
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, test)
    }

    /// A stream, and its other end.
    fn pair() -> (Stream, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("a socket");
        let ours = UnixStream::from_std(ours).expect("a socket");
        (ours.try_into().expect("a stream"), theirs)
    }

    fn waiting(logins: &Logins) -> usize {
        logins.new.borrow().len()
    }

    async fn settle() {
        // Others have their turns, and the sockets are looked at.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }

    #[test]
    fn places_are_given_in_the_order_of_coming_and_none_is_lost() {
        run(async {
            let logins = Logins::new(2, 1);
            let (stream, _other) = pair();
            let order = RefCell::new(Vec::new());
            let one = logins.enter(LONG, &stream).await.unwrap();
            let two = logins.enter(LONG, &stream).await.unwrap();
            let come = async |name| {
                let _pass = logins.enter(LONG, &stream).await.unwrap();
                order.borrow_mut().push(name);
                settle().await;
            };
            // The third leaves while it waits.
            let (gone, is_gone) = oneshot::channel();
            let leaver = async {
                let left = tokio::time::timeout(Duration::ZERO, come('x')).await;
                gone.send(()).unwrap();
                left
            };
            let rest = async {
                settle().await;
                is_gone.await.unwrap();
                assert_eq!((waiting(&logins), logins.free.get()), (3, 0));
                drop(one);
                settle().await;
                drop(two);
            };
            let (left, ..) = tokio::join!(leaver, come('a'), come('b'), rest);
            assert!(left.is_err());
            assert_eq!(*order.borrow(), ['a', 'b']);
            assert_eq!((waiting(&logins), logins.free.get()), (0, 2));
        });
    }

    #[test]
    fn there_may_be_more_places_and_fewer() {
        run(async {
            let logins = Logins::new(2, 1);
            let (stream, _other) = pair();
            let held = [
                logins.enter(LONG, &stream).await.unwrap(),
                logins.enter(LONG, &stream).await.unwrap(),
            ];
            let order = RefCell::new(Vec::new());
            let come = async |name| {
                let pass = logins.enter(LONG, &stream).await.unwrap();
                order.borrow_mut().push(name);
                pass
            };
            let rest = async {
                settle().await;
                assert_eq!(waiting(&logins), 2);
                logins.resize(3, 1);
                settle().await;
                assert_eq!((order.borrow().clone(), waiting(&logins)), (vec!['a'], 1));
                logins.resize(1, 1);
                drop(held);
                settle().await;
                assert_eq!(waiting(&logins), 1, "two of three places are gone");
            };
            let first =
                async { drop((come('a').await, settle().await, settle().await, settle().await)) };
            let second = async { drop(come('b').await) };
            tokio::join!(first, second, rest);
            assert_eq!(*order.borrow(), ['a', 'b']);
            assert_eq!((logins.free.get(), logins.excess.get(), waiting(&logins)), (1, 0, 0));
            logins.resize(4, 2);
            assert_eq!(logins.free.get(), 2, "a part for each worker");
        });
    }

    #[test]
    fn who_waits_for_his_client_lends_his_place_and_comes_back_first() {
        run(async {
            let logins = Logins::new(1, 4);
            let (stream, _other) = pair();
            let (answer, answered) = oneshot::channel();
            let order = RefCell::new(Vec::new());
            let silent = async {
                let pass = logins.enter(LONG, &stream).await.unwrap();
                // What is there already costs no place.
                pass.lend(async {}).await;
                assert_eq!(logins.free.get(), 0);
                pass.lend(answered).await.unwrap();
                order.borrow_mut().push("silent");
            };
            let mut answer = Some(answer);
            let mut come = async |name, answers: bool| {
                let _pass = logins.enter(LONG, &stream).await.unwrap();
                if answers {
                    answer.take().unwrap().send(()).unwrap();
                    settle().await;
                }
                order.borrow_mut().push(name);
            };
            let others = async {
                settle().await;
                come("first", true).await;
                come("second", false).await;
            };
            tokio::join!(silent, others);
            assert_eq!(*order.borrow(), ["first", "silent", "second"]);
            assert_eq!(logins.free.get(), 1);
        });
    }

    #[test]
    fn beside_busy_clients_newcomers_begin_one_after_the_other() {
        run(async {
            // What waits for less than the runtime's step would wait for ever.
            tokio::time::resume();
            let statements = Rc::new(Counter::default());
            let logins = Logins::own(&statements);
            let (stream, _other) = pair();
            // Long enough for the pace to have counted something.
            tokio::time::sleep(Duration::from_millis(60)).await;
            statements.add(100_000);
            crate::worker::clock::tick();
            let order = RefCell::new(Vec::new());
            let come = async |name: u32| {
                drop(logins.enter(LONG, &stream).await.unwrap());
                order.borrow_mut().push(name);
            };
            let begun = crate::worker::clock::read();
            let mut crowd: Vec<_> = (0..60).map(|name| Box::pin(come(name))).collect();
            // One login leaves while it waits. No login behind it leaves because of that.
            let mut leaver = crowd.remove(40);
            let leave = async {
                let waits =
                    poll_fn(|context| Poll::Ready(leaver.as_mut().poll(context).is_pending()));
                assert!(waits.await);
                tokio::task::yield_now().await;
                drop(leaver);
            };
            let all = poll_fn(|context| {
                crowd.retain_mut(|one| one.as_mut().poll(context).is_pending());
                if crowd.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::join!(all, leave);
            let took = crate::worker::clock::since(begun);
            assert!(took >= Duration::from_millis(20), "{took:?}");
            let in_order: Vec<_> = (0..60).filter(|name| *name != 40).collect();
            assert_eq!(*order.borrow(), in_order);
            assert_eq!((waiting(&logins), logins.free.get()), (0, OWN_PLACES));
        });
    }

    #[test]
    fn nobody_waits_for_too_long_or_for_a_client_that_is_gone() {
        run(async {
            let logins = Logins::new(1, 1);
            let (stream, _other) = pair();
            let held = logins.enter(LONG, &stream).await.unwrap();
            let short = Duration::from_millis(5);
            let late = async |limit| logins.enter(limit, &stream).await.unwrap_err();
            let (first, second) = tokio::join!(late(short), late(10 * short));
            assert_eq!(first, NoPass::Late { others: 1 });
            assert_eq!(second, NoPass::Late { others: 0 });
            let (leaver, mut other) = pair();
            let leave = async {
                // It speaks before it is asked, which is not the same as to leave.
                other.write_all(b"x").unwrap();
                settle().await;
                assert_eq!(waiting(&logins), 1);
                drop(other);
            };
            let (gone, ()) = tokio::join!(logins.enter(LONG, &leaver), leave);
            assert_eq!(gone.unwrap_err(), NoPass::Gone);
            assert_eq!(waiting(&logins), 0);
            drop(held);
            assert_eq!(logins.free.get(), 1);
        });
    }
}
