//! Several clusters as one: that each has its own, and that nothing that happens in one shows in another.

use std::sync::Mutex;
use std::time::Instant;

use engine::cluster::knowledge::Holds;
use engine::cluster::position::Position;
use engine::cluster::{Flow, Node, Role};

use super::*;
use crate::cluster::members::{Checked, Finding};
use crate::config;

/// In the order of the servers.
const SERVERS: [(&str, &str); 4] = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b")];

const CLUSTERS: &str = "[[users]]\nname = 'u'\npassword = 'x'\n\
    [[users]]\nname = 'v'\npassword = 'x'\ncluster = 'b'\n\
    [[clusters]]\nname = 'a'\nrouting.hold = '3s'\n\
    [[clusters]]\nname = 'b'\nschemas = ['old\\_%']\nrouting.mode = 'split'\n";

fn listed(servers: &[(&str, &str)]) -> String {
    let server = |(at, (name, cluster)): (usize, &(&str, &str))| {
        let port = 3000 + at;
        format!(
            "[[servers]]\nname = '{name}'\naddress = '127.0.0.1:{port}'\ncluster = '{cluster}'\n"
        )
    };
    CLUSTERS.to_owned() + &servers.iter().enumerate().map(server).collect::<String>()
}

/// All clusters, and what workers are told.
struct Scene {
    cluster: Cluster,
    told: Arc<Mutex<Vec<String>>>,
    live: Arc<Live>,
}

fn plan(text: &str) -> Plan {
    config::parse(text, "test").expect("a good file").0
}

impl Scene {
    fn new() -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        let post = Post::new(1, move |_, news: News| {
            tell.lock().expect("is not poisoned").push(format!("{news:?}"));
        });
        let live = Arc::new(Live::new(plan(&listed(&SERVERS))));
        let sites = Site::all(&live.get(), None).expect("no TLS");
        let cluster = Cluster::new(&live, sites, Descriptors::share(None, 0), 1, post);
        Self { cluster, told, live }
    }

    fn check(&self, server: usize, finding: Finding) {
        let (id, begun) = (ServerId(server), Instant::now());
        self.cluster.of(id).take(Checked { server: id, finding, begun });
    }

    fn says(&self, server: usize, read_only: bool) {
        let (position, node) = (Position::Unknown, Node::None);
        let role = Role {
            read_only,
            position,
            has_backlog: false,
            node,
            view: None,
            flow: Flow::default(),
        };
        self.check(server, Finding::Said(role));
    }

    fn named(&self, name: &str) -> &Members {
        self.cluster.named(name).expect("it is there")
    }

    /// What there is to be seen of a cluster.
    fn seen(&self, name: &str) -> String {
        let members = self.named(name);
        let servers = members.all().map(|server| {
            let seen = members.watched(server.id);
            let marks = (members.is_usable(server.id), members.is_reader(server.id));
            format!("{} {} {} {marks:?}", server.name, seen.state, seen.role)
        });
        format!("{:?} {:?}", members.writer(), servers.collect::<Vec<_>>())
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().expect("is not poisoned"))
    }
}

#[test]
fn each_cluster_has_its_own_writer_and_options() {
    let scene = Scene::new();
    assert!(scene.cluster.is_routed() && scene.cluster.are_several());
    for (server, read_only) in [(0, false), (1, true), (2, true), (3, false)] {
        scene.says(server, read_only);
    }
    let (a, b) = (scene.named("a"), scene.named("b"));
    assert_eq!((a.writer(), b.writer()), (Some(ServerId(0)), Some(ServerId(3))));
    let readers: Vec<_> = (0..4).filter(|at| a.is_reader(ServerId(*at))).collect();
    assert_eq!(readers, [1, 2], "a server has its marks whichever cluster is asked");
    assert!(a.has(ServerId(2)) && !a.has(ServerId(1)) && b.has(ServerId(1)));
    assert_eq!((a.place(1), a.place(2)), (Some(ServerId(2)), None));
    assert_eq!(a.holds(ServerId(2), ServerId(3)), Holds::All, "of another cluster's writes");
    let second = std::time::Duration::from_secs(1);
    assert_eq!((a.hold(), b.hold()), (3 * second, 10 * second));
    assert_eq!((a.mode(), b.mode()), (config::Mode::Writer, config::Mode::Split));

    let plan = scene.live.get();
    let of = |user: &str| scene.cluster.serving(&plan, &UserName::of_account(user));
    assert_eq!((of("u"), of("v"), of("other")), (a.id, b.id, a.id));
    let schemas = ["old_1", "older", "new"].map(|it| plan.cluster_of_schema(it.as_bytes()));
    assert_eq!(schemas, [Some("b"), None, None]);
}

#[test]
fn what_happens_in_one_cluster_leaves_the_other_alone() {
    let scene = Scene::new();
    for (server, read_only) in [(0, false), (1, true), (2, true), (3, false)] {
        scene.says(server, read_only);
    }
    let before = scene.seen("b");
    scene.told();
    let (mut seed, mut writers) = (7_u64, std::collections::BTreeSet::new());
    for _ in 0..5000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let server = ServerId(if seed >> 40 & 1 == 0 { 0 } else { 2 });
        let members = scene.cluster.of(server);
        match seed >> 33 & 7 {
            0 | 1 => scene.check(server.0, Finding::Failed("it is gone".to_owned())),
            2 => members.suspect(server, "a backend was lost"),
            3 => members.order(server, Standing::Drain),
            4 => members.order(server, Standing::Up),
            5 => members.doubt(server),
            6 => scene.says(server.0, true),
            _ => scene.says(server.0, false),
        }
        writers.insert(scene.named("a").writer().map(|it| it.0));
        assert_eq!(scene.seen("b"), before);
    }
    assert_eq!(writers.into_iter().collect::<Vec<_>>(), [None, Some(0), Some(2)]);
    let told = scene.told();
    let is_of_other = |it: &&String| it.contains("ServerId(1)") || it.contains("ServerId(3)");
    assert_eq!(told.iter().find(is_of_other), None);
    assert!(told.iter().any(|it| it.contains("ServerId(2)")), "{}", told.len());
}

#[test]
fn a_server_in_another_cluster_is_another_one() {
    let scene = Scene::new();
    for server in 0..4 {
        scene.says(server, server > 1);
    }
    let moved = [("a1", "a"), ("b1", "b"), ("a2", "b"), ("b2", "b")];
    let new = plan(&listed(&moved));
    scene.cluster.reconfigure(Site::all(&new, None).expect("no TLS"), &new);
    assert!(scene.cluster.server(ServerId(2)).is_retired());
    let other = scene.cluster.server(ServerId(4));
    assert_eq!((other.name.as_str(), other.cluster.as_str()), ("a2", "b"));
    assert_eq!(scene.cluster.of(other.id).name, "b");
    assert!(scene.seen("b").contains("a2") && scene.named("b").writer() == Some(ServerId(1)));
    // It goes back, and is the one that it was.
    let old = plan(&listed(&SERVERS));
    scene.cluster.reconfigure(Site::all(&old, None).expect("no TLS"), &old);
    assert!(!scene.cluster.server(ServerId(2)).is_retired());
    assert!(scene.cluster.server(ServerId(4)).is_retired());
    assert_eq!(scene.cluster.servers.places(), 5);

    // A cluster goes, and what is left is the first.
    let rest =
        CLUSTERS.split("[[clusters]]\nname = 'a'").next().expect("users").replace("'b'", "'c'");
    let text = format!(
        "{rest}[[clusters]]\nname = 'c'\n[[servers]]\nname = 'x'\ncluster = 'c'\n\
         address = '127.0.0.1:3009'\n"
    );
    let new = plan(&text);
    scene.cluster.reconfigure(Site::all(&new, None).expect("no TLS"), &new);
    assert_eq!(scene.cluster.first_cluster().name, "c");
    assert!(!scene.named("a").is_named() && !scene.named("b").is_named());
    assert_eq!(scene.cluster.first().name, "x");
}
