//! What a cluster makes of what its servers say, scene by scene; then whatever chance says.

use fastrand::Rng;

use super::*;

const AUTO: Member = Member { group: Group::Auto, backup: false, lag_max: Bound::Inherited };
const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    cluster: Cluster,
    now: Instant,
}

fn role(read_only: bool, at: u64) -> Role {
    Role {
        read_only,
        position: Position::from_gtids(&format!("0-1-{at}")),
        has_backlog: false,
        node: Node::None,
        view: None,
        flow: Flow::default(),
    }
}

fn node(at: u64) -> Role {
    Role {
        read_only: false,
        position: Position::Commit { cluster: 1, number: at },
        has_backlog: false,
        node: Node::Ready,
        view: Some(1),
        flow: Flow::default(),
    }
}

impl Scene {
    fn of(members: &[Member]) -> Self {
        let now = Instant::now();
        let bounds = ClusterBounds { lag_max: Some(10 * SECOND), ..ClusterBounds::default() };
        Self { cluster: Cluster::new(members, &CheckRules::default(), bounds, now), now }
    }

    /// One writer and two readers.
    fn usual() -> Self {
        let mut scene = Self::of(&[AUTO; 3]);
        scene.hear(0, role(false, 10)).hear(1, role(true, 10)).hear(2, role(true, 10));
        // A reader is compared with what the writer had said before.
        scene.hear(0, role(false, 10));
        assert_eq!(scene.roles(), ["writer", "reader", "reader"]);
        scene
    }

    fn hear(&mut self, at: usize, role: Role) -> &mut Self {
        self.now += SECOND / 10;
        self.cluster.hear(at, role, self.now, self.now);
        self
    }

    fn fail(&mut self, at: usize) -> &mut Self {
        for _ in 0..3 {
            self.now += SECOND / 10;
            self.cluster.see(at, Sign::Failed("no answer".to_owned()), self.now);
        }
        self
    }

    fn roles(&self) -> Vec<String> {
        self.cluster.layout(self.now).places.into_iter().map(|place| place.role).collect()
    }

    fn asks_for(&mut self, bounds: ClusterBounds) -> &mut Self {
        self.cluster.reconfigure(&CheckRules::default(), bounds, self.now);
        self
    }

    fn writers(&self) -> Vec<usize> {
        let places = self.cluster.layout(self.now).places;
        (0..places.len()).filter(|at| places[*at].takes.writes()).collect()
    }

    fn writer(&self) -> Result<usize, String> {
        self.cluster.layout(self.now).writer
    }

    fn readers(&self) -> Vec<usize> {
        let places = self.cluster.layout(self.now).places;
        (0..places.len()).filter(|at| places[*at].takes.reads()).collect()
    }
}

#[test]
fn nobody_writes_before_all_have_been_asked() {
    let mut scene = Scene::of(&[AUTO; 3]);
    scene.hear(0, role(false, 10)).hear(1, role(true, 10));
    assert!(scene.writer().is_err_and(|why| why.contains("not all")));
    scene.fail(2);
    assert_eq!(scene.writer(), Ok(0), "the third does not answer");
}

#[test]
fn two_that_want_to_be_the_writer_at_first_are_none() {
    let mut scene = Scene::of(&[AUTO; 2]);
    scene.hear(0, role(false, 10)).hear(1, role(false, 10));
    assert!(scene.writer().is_err_and(|why| why.contains("several")));
    scene.hear(0, role(true, 10));
    assert_eq!(scene.writer(), Ok(1));
}

#[test]
fn a_promoted_reader_is_the_writer_once_the_old_one_is_down() {
    let mut scene = Scene::usual();
    scene.hear(1, role(false, 11));
    assert_eq!(scene.writer(), Ok(0), "while the old one answers, it stays");
    assert_eq!(scene.readers(), [2]);
    scene.fail(0);
    assert_eq!(scene.writer(), Ok(1));
    assert!(scene.roles()[0].starts_with("not used: down: no answer"), "{:?}", scene.roles());
    // It comes back, and thinks that it is the writer still.
    scene.hear(0, role(false, 10)).hear(0, role(false, 10)).hear(0, role(false, 10));
    assert_eq!(scene.writer(), Ok(1));
    assert!(scene.roles()[0].contains("can be written to, and is not the writer"));
    // Even if the new one fails: what was written there would be missing.
    scene.fail(1);
    assert!(scene.writer().is_err());
    scene.hear(0, role(true, 11)).hear(0, role(false, 11));
    assert_eq!(scene.writer(), Ok(0), "somebody has made it read_only, and promoted it");
}

#[test]
fn two_can_be_written_to_only_if_both_have_said_so_since() {
    let mut scene = Scene::usual();
    let second = |scene: &Scene, at: usize| scene.cluster.layout(scene.now).places[at].second;
    scene.hear(1, role(false, 11)).hear(1, role(false, 11));
    assert_eq!(second(&scene, 1), Second::Perhaps, "the writer may be gone");
    scene.hear(0, role(false, 11));
    assert_eq!([0, 1, 2].map(|at| second(&scene, at)), [Second::No, Second::Yes, Second::No]);
    scene.hear(1, role(true, 11)).hear(1, role(false, 12));
    assert_eq!(second(&scene, 1), Second::Perhaps, "it is another time");
    scene.fail(0);
    assert_eq!((scene.writer(), second(&scene, 1)), (Ok(1), Second::No));
    scene.hear(0, role(false, 12)).hear(0, role(false, 12)).hear(0, role(false, 12));
    assert_eq!(second(&scene, 0), Second::Perhaps);
    scene.hear(1, role(false, 13));
    assert_eq!(second(&scene, 0), Second::Yes, "it was not told that another took its place");
}

#[test]
fn an_operator_vouches_for_a_server_that_was_replaced() {
    let mut scene = Scene::usual();
    scene.fail(0).hear(1, role(false, 11)).fail(1);
    scene.hear(0, role(false, 11)).hear(0, role(false, 11)).hear(0, role(false, 11));
    assert!(scene.writer().is_err());
    scene.cluster.order(0, HealthOrder::None, "by an order", scene.now);
    assert_eq!(scene.writer(), Ok(0));
}

#[test]
fn a_server_that_lacks_what_was_acknowledged_waits_for_an_operator() {
    let promoted = |gaps: Gaps| {
        let mut scene = Scene::usual();
        scene.cluster.bounds.gaps = gaps;
        scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
        scene.fail(0).hear(1, role(false, 11));
        scene
    };
    let mut scene = promoted(Gaps::Confirm);
    let gap = "it has 0-1-11, and the writer before it had 0-1-12";
    assert!(scene.writer().is_err_and(|why| why.contains("CONFIRM WRITER")));
    assert_eq!(scene.roles()[1], format!("not used: it lacks what was acknowledged: {gap}"));
    assert_eq!(scene.cluster.layout(scene.now).places[1].gap.as_deref(), Some(gap));
    assert!(scene.cluster.confirm(2, scene.now).is_err_and(|why| why == "it is read_only"));
    assert!(scene.cluster.confirm(0, scene.now).is_err_and(|why| why.contains("down")));
    scene.cluster.confirm(1, scene.now).unwrap();
    assert_eq!(scene.writer(), Ok(1));
    assert_eq!(scene.cluster.layout(scene.now).lost.as_deref(), Some(gap));
    assert!(matches!(scene.cluster.layout(scene.now).places[1].holds[0], Holds::Until(_)));
    assert!(scene.cluster.confirm(1, scene.now).is_err_and(|why| why == "it is the writer"));

    // It gets what it lacks.
    let mut scene = promoted(Gaps::Confirm);
    scene.hear(1, role(false, 12));
    assert_eq!(scene.writer(), Ok(1));
    assert_eq!(scene.cluster.layout(scene.now).lost, None);
    // The old writer is back.
    let mut scene = promoted(Gaps::Confirm);
    scene.hear(0, role(false, 12)).hear(0, role(false, 12));
    assert_eq!(scene.writer(), Ok(0));

    let scene = promoted(Gaps::Accept);
    assert_eq!(
        (scene.writer(), scene.cluster.layout(scene.now).lost.as_deref()),
        (Ok(1), Some(gap))
    );
}

#[test]
fn a_confirmation_ends_when_the_server_is_read_only_again() {
    let mut scene = Scene::usual();
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
    // While the writer is well, it stays the writer.
    scene.hear(1, role(false, 10));
    scene.cluster.confirm(1, scene.now).unwrap();
    assert_eq!(scene.writer(), Ok(0));
    scene.hear(1, role(true, 10)).fail(0).hear(1, role(false, 11));
    assert!(scene.writer().is_err(), "{:?}", scene.roles());
}

#[test]
fn what_a_server_took_that_is_down_is_what_the_next_writer_has() {
    let holds = |scene: &Scene, at: usize, taker: usize| {
        scene.cluster.layout(scene.now).places[at].holds[taker]
    };
    let mut scene = Scene::usual();
    scene.fail(0);
    let down = scene.now;
    assert!(!matches!(holds(&scene, 2, 0), Holds::Until(moment) if moment >= down));
    scene.hear(1, role(false, 11));
    assert_eq!(holds(&scene, 1, 0), Holds::Until(scene.now));
    assert_ne!(holds(&scene, 2, 0), Holds::Until(scene.now), "it has not followed yet");
    // A replaced writer that is well is asked, and nothing is decided of what it took.
    let mut scene = Scene::usual();
    scene.hear(0, role(true, 10)).hear(1, role(false, 10));
    assert_eq!(scene.writer(), Ok(1));
    assert_ne!(holds(&scene, 1, 0), Holds::Until(scene.now));

    // A cluster knows more: a view without the node.
    let mut scene = Scene::of(&[AUTO; 3]);
    scene.hear(0, node(5)).hear(1, node(5)).hear(2, node(5)).fail(0);
    assert_eq!(scene.writer(), Ok(1));
    let down = scene.now;
    scene.hear(1, node(6));
    assert!(matches!(holds(&scene, 1, 0), Holds::Until(moment) if moment < down));
    scene.hear(1, Role { view: Some(2), ..node(6) });
    assert!(matches!(holds(&scene, 1, 0), Holds::Until(moment) if moment > down));
}

/// A primary that its group has expelled answers, and never says again where it is.
#[test]
fn what_a_writer_took_that_cannot_work_any_more_is_what_the_next_one_has() {
    let expelled = || Role {
        node: Node::NotReady("its state in the group is ERROR".to_owned()),
        position: Position::Unknown,
        ..role(true, 0)
    };
    let holds = |scene: &Scene, at: usize| scene.cluster.layout(scene.now).places[at].holds[0];
    let is_all = |scene: &Scene, at: usize, down: Instant| matches!(holds(scene, at), Holds::Until(moment) if moment >= down);
    let mut scene = Scene::usual();
    scene.hear(0, expelled());
    let gone = scene.now;
    assert!(scene.writer().is_err() && !is_all(&scene, 1, gone));
    // The next one has not applied all that it was sent.
    scene.hear(1, Role { has_backlog: true, ..role(false, 10) });
    assert_eq!((scene.writer(), is_all(&scene, 1, gone)), (Ok(1), false));
    scene.hear(1, role(false, 11));
    assert!(is_all(&scene, 1, gone));
    // What was under way there is noted later.
    scene.hear(0, expelled());
    assert!(is_all(&scene, 1, scene.now));
    assert!(!is_all(&scene, 2, gone), "it has not followed yet");
    scene.hear(1, role(false, 11)).hear(2, role(true, 11));
    assert!(is_all(&scene, 2, gone));
    assert!(scene.cluster.confirm(1, scene.now).is_err_and(|why| why == "it is the writer"));
}

#[test]
fn what_a_server_took_that_tells_no_place_any_more_is_not_waited_for() {
    let mut scene = Scene::usual();
    scene.hear(0, role(true, 11)).hear(1, role(false, 10));
    let holds = |scene: &Scene| scene.cluster.layout(scene.now).places[1].holds[0];
    assert!(matches!(holds(&scene), Holds::Until(_)));
    scene.hear(0, Role { position: Position::Unknown, ..role(true, 0) });
    assert_eq!(holds(&scene), Holds::Untold);
}

/// It has a transaction that the writer will never have: a script's, say.
#[test]
fn an_operator_decides_that_the_writer_has_what_matters() {
    let mut scene = Scene::usual();
    scene.hear(0, role(true, 10)).hear(1, role(false, 10));
    scene.hear(0, role(true, 11));
    let noted = scene.now;
    let lacks = |scene: &Scene| scene.cluster.layout(scene.now).lacks;
    let is_held = |scene: &Scene| {
        let holds = scene.cluster.layout(scene.now).places[1].holds[0];
        matches!(holds, Holds::Until(moment) if moment >= noted)
    };
    assert_eq!((scene.writer(), is_held(&scene), lacks(&scene)), (Ok(1), false, None));
    let mut confirmed = Scene { cluster: scene.cluster.clone(), now: scene.now };
    confirmed.cluster.confirm(1, scene.now).unwrap();
    assert!(is_held(&confirmed));
    assert!(confirmed.cluster.confirm(1, scene.now).is_err(), "there is nothing else");
    // It is gone, and had it for long enough that a client may have been told.
    for _ in 0..15 {
        scene.hear(0, role(true, 11)).hear(1, role(false, 10));
    }
    scene.fail(0);
    let gap = "it has 0-1-10, and the writer before it had 0-1-11";
    assert_eq!((lacks(&scene).as_deref(), is_held(&scene)), (Some(gap), false));
    scene.cluster.confirm(1, scene.now).unwrap();
    assert_eq!((lacks(&scene), is_held(&scene)), (None, true));
}

#[test]
fn what_a_writer_has_had_for_a_second_counts_as_acknowledged() {
    for (age, is_used) in [(5, true), (15, false)] {
        let mut scene = Scene::usual();
        scene.hear(0, role(false, 12));
        for _ in 0..age {
            scene.hear(0, role(false, 13));
        }
        scene.hear(0, role(false, 14)).fail(0).hear(1, role(false, 12));
        assert_eq!(scene.writer().is_ok(), is_used, "{age}");
    }
}

#[test]
fn a_script_that_writes_beside_does_not_stand_for_what_was_acknowledged() {
    let mut scene = Scene::usual();
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
    let beside = |last: u64| Role {
        position: Position::from_gtids(&format!("0-1-11,0-2-{last}")),
        ..role(false, 0)
    };
    scene.fail(0).hear(1, beside(12)).hear(1, beside(40));
    assert!(scene.writer().is_err(), "{:?}", scene.roles());
}

#[test]
fn a_writer_that_comes_back_is_asked_for_its_role_first() {
    let mut scene = Scene::usual();
    scene.fail(0);
    assert!(scene.writer().is_err_and(|why| why.contains("no server")));
    scene.cluster.see(0, Sign::Passed, scene.now);
    scene.cluster.see(0, Sign::Passed, scene.now);
    assert!(scene.cluster.health(0).is_usable() && scene.writer().is_err(), "{:?}", scene.roles());
    scene.hear(0, role(false, 10));
    assert_eq!(scene.writer(), Ok(0));
}

#[test]
fn a_writer_that_becomes_read_only_is_none_at_once() {
    let mut scene = Scene::usual();
    scene.hear(0, role(true, 10));
    assert!(scene.writer().is_err());
    scene.hear(1, role(false, 10));
    assert_eq!(scene.writer(), Ok(1));
    scene.hear(0, role(true, 10)).hear(1, role(false, 10));
    assert_eq!(scene.readers(), [0, 2]);
}

#[test]
fn who_lags_is_not_read_from() {
    let mut scene = Scene::usual();
    for at in 11..40 {
        scene.now += SECOND;
        scene.hear(0, role(false, at)).hear(1, role(true, at));
    }
    assert_eq!(scene.readers(), [1]);
    assert!(scene.roles()[2].contains("s behind"), "{:?}", scene.roles());
    let places = scene.cluster.layout(scene.now).places;
    let until = |at: usize| match places[at].holds[0] {
        Holds::Until(moment) => moment,
        other => panic!("{other:?}"),
    };
    assert!(until(1) > until(2) && places[1].lag == Some(Duration::ZERO));
    scene.hear(2, role(true, 39));
    assert_eq!(scene.readers(), [1, 2]);
}

#[test]
fn in_a_cluster_one_node_writes_and_the_others_are_read_from() {
    let mut scene = Scene::of(&[AUTO; 3]);
    for at in 0..3 {
        scene.hear(at, node(5));
    }
    scene.hear(0, node(5));
    assert_eq!((scene.writer(), scene.readers()), (Ok(0), vec![1, 2]));
    let donor = Role { node: Node::NotReady("it is a donor".to_owned()), ..node(5) };
    scene.hear(0, donor);
    assert_eq!(scene.writer(), Ok(1));
    scene.hear(1, node(6)).hear(0, node(6)).hear(2, node(6));
    assert_eq!((scene.writer(), scene.readers()), (Ok(1), vec![0, 2]), "it stays where it is");
}

#[test]
fn a_desynced_node_is_used_while_no_other_can_be() {
    let donor = |at| Role { node: Node::Desynced("it is a donor".to_owned()), ..node(at) };
    let mut scene = Scene::of(&[AUTO; 3]);
    scene.hear(0, node(5)).hear(1, node(5)).hear(2, donor(5)).hear(0, node(5));
    assert_eq!((scene.writer(), scene.readers()), (Ok(0), vec![1]));
    assert_eq!(scene.roles()[2], "not used: it is a donor");
    scene.fail(1);
    assert_eq!((scene.writer(), scene.readers()), (Ok(0), vec![2]), "better than none");
    scene.fail(0);
    assert_eq!(scene.writer(), Ok(2), "better than none");
    // A synced one is better; then it stays there.
    scene.hear(1, node(6)).hear(1, node(6)).hear(1, node(6));
    assert_eq!(scene.writer(), Ok(1));
    scene.hear(2, node(6)).hear(1, donor(6));
    assert_eq!(scene.writer(), Ok(2));
    scene.hear(1, node(6)).hear(2, node(6));
    assert_eq!(scene.writer(), Ok(2));
    // All that are left are donors: no reason to change.
    scene.hear(1, donor(7)).hear(2, donor(7));
    assert_eq!((scene.writer(), scene.readers()), (Ok(2), vec![1]));
}

#[test]
fn a_node_that_holds_up_its_cluster_is_spared_for_a_while() {
    let slow = |at, asked, paused| Role {
        flow: Flow { asked, paused: Duration::from_millis(paused) },
        ..node(at)
    };
    let mut scene = Scene::of(&[AUTO; 3]);
    for at in 0..3 {
        scene.hear(at, slow(5, 7, 1000));
    }
    scene.hear(0, node(5));
    let shares = |scene: &Scene| {
        let places = scene.cluster.layout(scene.now).places;
        places.iter().map(|place| place.share).collect::<Vec<_>>()
    };
    assert_eq!(shares(&scene), [1.0; 3], "what was counted before says nothing");
    scene.hear(1, slow(5, 8, 1150));
    assert_eq!(shares(&scene), [1.0, 0.1, 1.0]);
    assert_eq!(scene.roles()[1], "reader, slows its cluster");
    let paused = scene.cluster.layout(scene.now).places[1].paused.unwrap();
    // 150 ms of the 300 since it was asked before.
    assert!((paused - 0.5).abs() < 0.01, "{paused}");
    scene.now += SPARED;
    assert_eq!((shares(&scene), scene.roles()[1].as_str()), (vec![1.0; 3], "reader"));
}

#[test]
fn groups_by_hand_need_no_answers() {
    let of = |group| Member { group, ..AUTO };
    let mut scene = Scene::of(&[
        of(Group::Readers),
        of(Group::Writer),
        Member { backup: true, ..of(Group::Readers) },
    ]);
    for at in 0..3 {
        scene.cluster.see(at, Sign::Passed, scene.now);
    }
    assert_eq!((scene.writer(), scene.readers()), (Ok(1), vec![0]));
    assert_eq!(scene.roles()[2], "backup");
    let answers = |scene: &Scene| -> Vec<_> {
        scene.cluster.layout(scene.now).places.iter().map(|place| place.answers).collect()
    };
    assert_eq!(answers(&scene), [true; 3], "rules may name them");
    scene.fail(0);
    assert_eq!((scene.readers(), answers(&scene)), (vec![2], vec![false, true, true]));
    scene.fail(1);
    assert!(scene.writer().is_err(), "a reader is no writer");
}

/// A writer and two readers that lack something: the first for 20 s, the second for 5 s.
fn lagging() -> Scene {
    let mut scene = Scene::usual();
    for (at, says) in [(0, role(false, 11)), (1, role(true, 10)), (2, role(true, 10))] {
        scene.hear(at, says);
    }
    scene.now += 15 * SECOND;
    scene.hear(2, role(true, 11)).hear(0, role(false, 12));
    scene.now += 5 * SECOND;
    scene.hear(1, role(true, 10)).hear(2, role(true, 11));
    scene
}

#[test]
fn some_readers_are_read_from_however_late_they_are() {
    let bounds = |lag: u64, readers_min| ClusterBounds {
        lag_max: Some(Duration::from_secs(lag)),
        readers_min,
        ..ClusterBounds::default()
    };
    let mut scene = lagging();
    for (lag, readers_min, readers) in [
        (10, 0, vec![2]),
        (10, 1, vec![2]),
        (10, 2, vec![1, 2]),
        (2, 0, vec![]),
        (2, 1, vec![2]),
        (2, 9, vec![1, 2]),
    ] {
        scene.asks_for(bounds(lag, readers_min));
        assert_eq!(scene.readers(), readers, "{lag} s, at least {readers_min}");
    }
    assert!(scene.roles()[1].starts_with("reader, 20."), "{:?}", scene.roles());
    // What does not follow from lag stays.
    scene.cluster.order(2, HealthOrder::Drain, "by an order", scene.now);
    assert_eq!(scene.readers(), [1]);
}

#[test]
fn a_server_can_have_a_bound_of_lag_of_its_own() {
    let mut scene = lagging();
    assert_eq!(scene.readers(), [2]);
    let within = |lag| Member { lag_max: lag, ..AUTO };
    scene.cluster.regroup(1, within(Bound::Within(30 * SECOND)), scene.now);
    scene.cluster.regroup(2, within(Bound::Within(SECOND)), scene.now);
    assert_eq!(scene.readers(), [1]);
    scene.cluster.regroup(2, within(Bound::Unlimited), scene.now);
    assert_eq!(scene.readers(), [1, 2]);
}

#[test]
fn the_writer_is_read_from_as_is_asked() {
    let bounds = |writer_reads| ClusterBounds { writer_reads, ..ClusterBounds::default() };
    let mut scene = Scene::usual();
    for (writer_reads, readers) in [
        (WriterReads::WithoutReader, vec![1, 2]),
        (WriterReads::Always, vec![0, 1, 2]),
        (WriterReads::Never, vec![1, 2]),
    ] {
        scene.asks_for(bounds(writer_reads));
        assert_eq!(scene.readers(), readers, "{writer_reads:?}");
        assert_eq!((scene.writers(), scene.roles()[0].as_str()), (vec![0], "writer"));
    }
}

#[test]
fn several_nodes_are_written_to_if_that_is_asked_and_no_other_servers() {
    let several = |writers| ClusterBounds { writers, ..ClusterBounds::default() };
    let mut scene = Scene::of(&[AUTO; 3]);
    scene.hear(0, node(5)).hear(1, node(5)).hear(2, node(5));
    assert_eq!((scene.writers(), scene.readers()), (vec![0], vec![1, 2]));
    scene.asks_for(several(2));
    assert_eq!((scene.writers(), scene.readers()), (vec![0, 1], vec![2]));
    scene.asks_for(several(9));
    assert_eq!((scene.writers(), scene.readers()), (vec![0, 1, 2], vec![]));
    // One that keeps apart, or is read-only, is not written to.
    scene.hear(1, Role { node: Node::Desynced("Donor".to_owned()), ..node(5) });
    assert_eq!((scene.writers(), scene.readers()), (vec![0, 2], vec![1]));
    scene.hear(1, node(5)).hear(2, Role { read_only: true, ..node(5) });
    assert_eq!((scene.writers(), scene.readers()), (vec![0, 1], vec![2]));
    scene.fail(0);
    assert_eq!((scene.writer(), scene.writers()), (Ok(1), vec![1]));

    let mut scene = Scene::usual();
    scene.asks_for(several(3)).hear(1, role(false, 11));
    assert_eq!(scene.writers(), [0], "replication knows one");
}

#[test]
fn drained_servers_are_for_nothing() {
    let mut scene = Scene::usual();
    scene.cluster.order(1, HealthOrder::Drain, "by an order", scene.now);
    assert_eq!(scene.readers(), [2]);
    assert_eq!(scene.roles()[1], "not used: drain: by an order");
    scene.cluster.order(1, HealthOrder::None, "by an order", scene.now);
    assert_eq!(scene.readers(), [1, 2]);
}

#[test]
fn a_writer_that_has_less_than_before_waits_for_an_operator() {
    let mut scene = Scene::usual();
    for _ in 0..15 {
        scene.hear(0, role(false, 100)).hear(1, role(true, 100)).hear(2, role(true, 100));
    }
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-104"));
    let restored = |mut scene: Scene| {
        // It was restored from older data, and nothing else has changed.
        scene.fail(0);
        for _ in 0..3 {
            scene.hear(0, role(false, 41));
        }
        scene
    };
    let gap = "it has 0-1-41, and had 0-1-104 before";
    let own = |scene: &Scene, at: usize| scene.cluster.layout(scene.now).places[at].holds[0];
    let before = Scene { cluster: scene.cluster.clone(), now: scene.now };
    let mut scene = restored(scene);
    let place = scene.cluster.layout(scene.now).places[0].clone();
    assert_eq!((place.gap.as_deref(), place.went_back.as_deref()), (Some(gap), Some(gap)));
    assert!(scene.writer().is_err_and(|why| why.contains("CONFIRM WRITER")));
    assert_eq!(own(&scene, 0), Holds::Nothing, "not even there");

    // What is written under the old numbers is not what the readers have.
    let mut confirmed = Scene { cluster: scene.cluster.clone(), now: scene.now };
    confirmed.cluster.confirm(0, scene.now).unwrap();
    assert_eq!((confirmed.writer(), own(&confirmed, 0)), (Ok(0), Holds::All));
    assert_eq!(confirmed.cluster.layout(scene.now).lost.as_deref(), Some(gap));
    confirmed.hear(0, role(false, 42)).hear(1, role(true, 104)).hear(0, role(false, 43));
    assert_eq!((own(&confirmed, 1), confirmed.readers()), (Holds::Nothing, vec![]));
    assert!(confirmed.roles()[1].contains("from before the writer went back"));
    // One is set up anew, from less than that; the operator vouches for the other one.
    confirmed.hear(1, role(true, 30)).hear(1, role(true, 43));
    confirmed.cluster.order(2, HealthOrder::None, "by an order", confirmed.now);
    confirmed.hear(2, role(true, 43)).hear(0, role(false, 43));
    assert_eq!(confirmed.readers(), [1, 2]);
    assert!(matches!(own(&confirmed, 1), Holds::Until(_)));

    // A script writes there, and gives the same numbers.
    scene.hear(0, role(false, 104));
    assert!(scene.writer().is_err(), "{:?}", scene.roles());
    // It gets what it lacks, and was not written to meanwhile.
    let mut scene = before;
    scene.fail(0);
    for at in [41, 41, 41, 104] {
        scene.hear(0, role(true, at));
    }
    scene.hear(0, role(false, 104));
    assert_eq!((scene.writer(), own(&scene, 0)), (Ok(0), Holds::All));
}

#[test]
fn of_a_writer_that_went_back_another_one_takes_over() {
    let mut scene = Scene::usual();
    for _ in 0..15 {
        scene.hear(0, role(false, 100)).hear(1, role(true, 100)).hear(2, role(true, 100));
    }
    scene.hear(0, role(false, 100));
    let until = scene.now;
    // RESET MASTER. What was written behind the last check may have been written after it.
    scene.hear(0, Role { position: Position::from_gtids(""), ..role(false, 0) });
    assert!(scene.writer().is_err());
    let found = scene.now;
    scene.hear(1, role(false, 100));
    assert_eq!(scene.writer(), Ok(1), "it has all that was acknowledged");
    scene.hear(1, role(false, 101));
    let holds = scene.cluster.layout(scene.now).places[1].holds[0];
    assert!(matches!(holds, Holds::Until(moment) if (until..found).contains(&moment)), "{holds:?}");
    assert_eq!(scene.cluster.confirm(1, scene.now), Ok(()));
    let holds = scene.cluster.layout(scene.now).places[1].holds[0];
    assert!(matches!(holds, Holds::Until(moment) if moment > found), "{holds:?}");
}

/// An operator decides, sets the former writer up anew from the present one, and puts it back into service.
#[test]
fn what_was_decided_is_not_asked_again_when_the_former_writer_was_set_up_anew() {
    let mut scene = Scene::usual();
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
    scene.hear(0, role(false, 12)).fail(0).hear(1, role(false, 11));
    scene.cluster.confirm(1, scene.now).unwrap();
    let of_next = |read_only, last| Role {
        position: Position::from_gtids(&format!("0-1-11,0-2-{last}")),
        ..role(read_only, 0)
    };
    scene.hear(1, of_next(false, 12)).hear(2, of_next(true, 12));
    let is_held = |scene: &Scene| {
        matches!(scene.cluster.layout(scene.now).places[1].holds[0], Holds::Until(_))
    };
    assert_eq!((scene.writer(), is_held(&scene)), (Ok(1), true), "{:?}", scene.roles());
    let anew = |scene: &mut Scene| {
        for _ in 0..3 {
            scene.hear(0, of_next(true, 11)).hear(1, of_next(false, 13));
            scene.hear(2, of_next(true, 13));
        }
        let layout = scene.cluster.layout(scene.now);
        assert_eq!((&layout.writer, &layout.lacks), (&Ok(1), &None));
        assert_eq!(layout.places[0].went_back, None);
        assert!(is_held(scene), "{layout:?}");
        // The numbers that it may give once more, the others never had.
        assert_eq!(scene.readers(), [0, 2], "{:?}", scene.roles());
    };
    scene.cluster.order(0, HealthOrder::Maintenance, "by an order", scene.now);
    scene.cluster.order(0, HealthOrder::None, "by an order", scene.now);
    let mut next = handed_over(&scene);
    anew(&mut scene);
    // Another process, which has heard of neither.
    next.hear(1, of_next(false, 12)).hear(2, of_next(true, 12));
    for _ in 0..3 {
        next.hear(0, of_next(true, 12)).hear(1, of_next(false, 13)).hear(2, of_next(true, 13));
    }
    let layout = next.cluster.layout(next.now);
    assert_eq!((layout.writer, layout.lacks), (Ok(1), None));
    assert_eq!(layout.places[0].went_back, None);
}

#[test]
fn a_reader_that_was_restored_and_has_caught_up_is_as_it_was() {
    let mut scene = Scene::usual();
    for _ in 0..3 {
        scene.hear(0, role(false, 100)).hear(1, role(true, 100)).hear(2, role(true, 100));
    }
    scene.hear(1, role(true, 60)).hear(1, role(true, 100)).hear(0, role(false, 100));
    assert_eq!(scene.readers(), [1, 2]);
    // It is promoted, and the others follow.
    scene.hear(0, role(true, 100)).hear(1, role(false, 100));
    for _ in 0..2 {
        scene.hear(0, role(true, 100)).hear(1, role(false, 100)).hear(2, role(true, 100));
    }
    assert_eq!((scene.writer(), scene.readers()), (Ok(1), vec![0, 2]), "{:?}", scene.roles());
}

#[test]
fn a_cluster_that_was_begun_anew_with_less_waits_for_an_operator() {
    let mut scene = Scene::of(&[AUTO; 3]);
    for _ in 0..15 {
        scene.hear(0, node(50)).hear(1, node(50)).hear(2, node(50));
    }
    for at in 0..3 {
        scene.fail(at);
    }
    // The writer does not come back, and the others never had what it took last, or have older data.
    let anew = |at| Role { view: Some(0), ..node(at) };
    for (number, is_used) in [(50, true), (49, false)] {
        let mut scene = Scene { cluster: scene.cluster.clone(), now: scene.now };
        for _ in 0..3 {
            scene.hear(1, anew(number));
        }
        assert_eq!(scene.writer().is_ok(), is_used, "{number}: {:?}", scene.roles());
        if !is_used {
            scene.cluster.confirm(1, scene.now).unwrap();
            assert_eq!(scene.writer(), Ok(1));
        }
    }
}

/// The same in another process, which has heard nothing yet.
fn handed_over(scene: &Scene) -> Scene {
    let count = scene.cluster.layout(scene.now).places.len();
    let mut next = Scene::of(&vec![AUTO; count]);
    next.now = scene.now;
    let text = serde_json::to_string(&scene.cluster.memory()).unwrap();
    let places: Vec<_> = (0..count).map(Some).collect();
    next.cluster.remember(serde_json::from_str(&text).unwrap(), &places, next.now);
    next
}

#[test]
fn a_gap_goes_over_to_another_process_and_so_does_its_confirmation() {
    let mut scene = Scene::usual();
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
    scene.fail(0).hear(1, role(false, 11));
    let mut next = handed_over(&scene);
    next.hear(1, role(false, 11)).hear(2, role(true, 11));
    assert!(next.writer().is_err_and(|why| why.contains("not all")), "{:?}", next.writer());
    let taken = |scene: &Scene| scene.cluster.layout(scene.now).places[1].holds[0];
    assert_eq!(taken(&next), Holds::Nothing, "what clients wrote there is not here");
    next.fail(0);
    let gap = "it has 0-1-11, and the writer before it had 0-1-12";
    assert_eq!(next.cluster.layout(next.now).places[1].gap.as_deref(), Some(gap));
    next.cluster.confirm(1, next.now).unwrap();
    assert_eq!(next.writer(), Ok(1));
    let mut last = handed_over(&next);
    last.hear(1, role(false, 11)).hear(2, role(true, 11)).fail(0);
    assert_eq!(last.writer(), Ok(1), "{:?}", last.roles());
    assert_ne!(taken(&last), Holds::Nothing, "that was decided");
    // The old writer is back, and thinks that it is the writer still.
    (0..3).for_each(|_| last = handed_over(last.hear(0, role(false, 12)).hear(1, role(false, 11))));
    last.hear(0, role(false, 12)).hear(2, role(true, 11)).hear(1, role(false, 11));
    assert_eq!(last.writer(), Ok(1), "{:?}", last.roles());
}

#[test]
fn two_that_can_be_written_to_are_told_apart_in_another_process() {
    let mut scene = Scene::usual();
    scene.hear(1, role(false, 10));
    assert_eq!(scene.writer(), Ok(0));
    let mut next = handed_over(&scene);
    next.hear(1, role(false, 10)).hear(0, role(false, 10)).hear(2, role(true, 10));
    assert_eq!(next.writer(), Ok(0), "{:?}", next.roles());
    // It is down, and the other one takes its place without its being seen there.
    let mut next = handed_over(&scene);
    next.hear(1, role(false, 10)).hear(2, role(true, 10)).fail(0);
    assert_eq!(next.writer(), Ok(1));
    next.hear(0, role(false, 10)).hear(0, role(false, 10)).hear(0, role(false, 10)).fail(1);
    assert!(next.writer().is_err(), "it was replaced: {:?}", next.roles());
}

#[test]
fn a_server_is_compared_with_its_past_in_another_process() {
    let mut scene = Scene::usual();
    scene.cluster.acknowledge(0, Position::from_gtids("0-1-12"));
    let mut next = handed_over(&scene);
    next.hear(0, role(false, 9)).hear(1, role(true, 12)).hear(2, role(true, 12));
    let gap = "it has 0-1-9, and had 0-1-12 before";
    let went_back = |scene: &Scene| scene.cluster.layout(scene.now).places[0].went_back.clone();
    assert_eq!((next.writer().is_err(), went_back(&next).as_deref()), (true, Some(gap)));
    let mut last = handed_over(&next);
    last.hear(0, role(false, 9)).hear(1, role(true, 12)).hear(2, role(true, 12));
    assert_eq!((last.writer().is_err(), went_back(&last).as_deref()), (true, Some(gap)));
    last.cluster.confirm(0, last.now).unwrap();
    last.hear(0, role(false, 10));
    assert_eq!((last.writer(), last.readers()), (Ok(0), vec![]), "they have the old numbers");
    let mut last = handed_over(&last);
    last.hear(0, role(false, 11)).hear(1, role(true, 12)).hear(2, role(true, 12));
    assert_eq!((last.writer(), last.readers()), (Ok(0), vec![]), "{:?}", last.roles());
    // It was heard before the other process had told.
    let mut late = Scene::of(&[AUTO; 3]);
    late.hear(0, role(false, 9)).hear(1, role(true, 12)).hear(2, role(true, 12));
    assert_eq!(late.writer(), Ok(0));
    let places: Vec<_> = (0..3).map(Some).collect();
    let begun = late.now;
    late.cluster.remember(scene.cluster.memory(), &places, late.now);
    late.cluster.hear(0, role(false, 9), begun, late.now);
    assert_eq!(late.writer(), Ok(0), "that may be older");
    late.hear(0, role(false, 9));
    assert!(late.writer().is_err());
    // Servers are others.
    late.cluster.remember(scene.cluster.memory(), &[None, Some(7), Some(0)], late.now);
}

/// Servers come, go and say what they like. At most one is the writer; it has said since it came up that it takes
/// writes; and a server that was replaced is not the writer again before it was seen `read_only`.
#[test]
fn whatever_happens_there_is_one_writer_at_most() {
    let mut random = Rng::with_seed(1);
    let mut draw = |below: u64| random.u64(..below);
    let mut scene = Scene::of(&[AUTO; 4]);
    let (mut said, mut replaced) = ([None; 4], [false; 4]);
    let mut last = None;
    let mut changes = 0;
    for step in 0..200_000_u64 {
        let at = draw(4) as usize;
        match draw(10) {
            0..=2 => {
                scene.cluster.see(at, Sign::Failed("no answer".to_owned()), scene.now);
            }
            3 => {
                scene.cluster.see(at, Sign::Passed, scene.now);
            }
            _ => {
                let read_only = draw(3) > 0;
                scene.hear(at, role(read_only, step));
                if scene.cluster.health(at).is_usable() {
                    said[at] = Some(read_only);
                }
                replaced[at] &= !read_only;
            }
        }
        if !scene.cluster.health(at).is_usable() {
            said[at] = None;
        }
        let Ok(writer) = scene.writer() else { continue };
        assert_eq!(said[writer], Some(false), "step {step}");
        assert!(!replaced[writer], "step {step}: {writer} was replaced");
        if let Some(before) = last.replace(writer).filter(|before| *before != writer) {
            replaced[before] = said[before] != Some(true);
            changes += 1;
        }
        assert!(!scene.readers().contains(&writer), "step {step}");
    }
    assert!(changes > 1000, "{changes}");
}
