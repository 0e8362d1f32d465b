//! What the project promises about the inside of its crates: which rooms use which, how large circles of files, types
//! and functions may be, and how comments are written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};

/// The rooms of `proxy`, each of which uses only those behind it in this list.
const PROXY: &[&str] = &[
    "simulation",
    "run",
    "admin",
    "succession",
    "frontend",
    "upkeep",
    "road",
    "features",
    "routing",
    "answers",
    "session",
    "state",
    "mirror",
    "pool",
    "users",
    "cluster",
    "placement",
    "discover",
    "records",
    "config",
    "worker",
    "fault",
];

/// As many files may import each other in a circle.
const CIRCLE_MAX: usize = 3;

/// The crates that ship.
const SHIPPED: &[&str] = &[
    "flifo",
    "flifo-bench",
    "shell",
    "bench",
    "proxy",
    "doctor",
    "import",
    "engine",
    "view",
    "backend",
    "wire",
    "sys",
];

/// A file of a crate.
struct File {
    /// `a::b` for `src/a/b.rs`; empty for the crate's root.
    module: String,
    syntax: syn::File,
}

/// The product's files of a crate; those that are tests are left out.
fn files(name: &str) -> Vec<File> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut folders = vec![src.clone()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() && !is_tests {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !is_tests {
                files.push(read(&src, &path));
            }
        }
    }
    files
}

fn read(src: &Path, path: &Path) -> File {
    let text = std::fs::read_to_string(path).expect("a source file");
    let inside = path.strip_prefix(src).expect("it is there").with_extension("");
    let module = inside.to_string_lossy().replace('/', "::");
    let module = if matches!(&*module, "lib" | "main") { String::new() } else { module };
    File { module, syntax: syn::parse_file(&text).expect("it is Rust") }
}

/// Which other files of its crate each file imports.
fn imports(files: &[File]) -> BTreeMap<&str, BTreeSet<String>> {
    let modules: BTreeSet<&str> = files.iter().map(|file| &*file.module).collect();
    let of = |file: &File| {
        let mut reader = Imports { own: &file.module, modules: &modules, found: BTreeSet::new() };
        reader.visit_file(&file.syntax);
        reader.found.remove(&file.module);
        reader.found
    };
    files.iter().map(|file| (&*file.module, of(file))).collect()
}

struct Imports<'a> {
    own: &'a str,
    modules: &'a BTreeSet<&'a str>,
    found: BTreeSet<String>,
}

impl Imports<'_> {
    /// A path in the source names a file of the crate, or something in one.
    fn see(&mut self, path: &[String]) {
        let own: Vec<_> = self.own.split("::").filter(|it| !it.is_empty()).collect();
        let (mut base, mut rest): (Vec<&str>, _) = match path.first().map(String::as_str) {
            Some("crate") => (Vec::new(), &path[1..]),
            Some("self") => (own, &path[1..]),
            Some("super") => {
                let ups = path.iter().take_while(|it| *it == "super").count();
                (own[..own.len().saturating_sub(ups)].to_vec(), &path[ups..])
            }
            Some(child) if self.modules.contains(&*[&own[..], &[child]].concat().join("::")) => {
                (own, path)
            }
            _ => return,
        };
        while let Some((next, others)) = rest.split_first()
            && self.modules.contains(&*[&base[..], &[next]].concat().join("::"))
        {
            base.push(next);
            rest = others;
        }
        self.found.insert(base.join("::"));
    }

    fn see_tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.see_tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|it| self.see_tree(it, before))
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.see(before),
            syn::UseTree::Name(name) => {
                self.see(&[&before[..], &[name.ident.to_string()]].concat())
            }
            syn::UseTree::Rename(name) => {
                self.see(&[&before[..], &[name.ident.to_string()]].concat())
            }
            syn::UseTree::Glob(_) => self.see(before),
        }
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.see_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let path: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
            if matches!(&*path[0], "crate" | "super" | "self") {
                self.see(&path);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    /// `pub(in path)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let is_it = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|it| it.tokens.to_string() == "test")
    };
    attributes.iter().any(is_it)
}

/// Imports of a room by one that is below it.
fn upward(imports: &BTreeMap<&str, BTreeSet<String>>, rooms: &[&str]) -> Vec<String> {
    let place = |module: &str| {
        let room = module.split("::").next().unwrap_or_default();
        rooms.iter().position(|it| *it == room)
    };
    let mut found = Vec::new();
    for (file, others) in imports {
        for other in others {
            match (place(file), place(other)) {
                (Some(from), Some(to)) if to < from => {
                    found.push(format!("{file} imports {other}, which is above it"))
                }
                (None, _) if !file.is_empty() => found.push(format!("{file} is in no room")),
                _ => {}
            }
        }
    }
    found
}

/// Files that import each other, directly or through others: each with all that it reaches and is reached by.
fn circles(imports: &BTreeMap<&str, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(file) = next.pop() {
            for other in imports.get(&*file).into_iter().flatten() {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, _> = imports.keys().map(|file| (*file, reach(file))).collect();
    let circle = |file: &str| -> BTreeSet<String> {
        let both = |other: &&String| reached.get(&***other).is_some_and(|it| it.contains(file));
        reached[file].iter().filter(both).cloned().collect()
    };
    let all: BTreeSet<_> =
        imports.keys().map(|file| circle(file)).filter(|it| it.len() > 1).collect();
    all.into_iter().collect()
}

#[test]
fn rooms_use_only_those_below_them() {
    let files = files("proxy");
    let found = upward(&imports(&files), PROXY);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn circles_of_files_are_small() {
    let mut found = Vec::new();
    for name in SHIPPED {
        let files = files(name);
        let large = circles(&imports(&files)).into_iter().filter(|it| it.len() > CIRCLE_MAX);
        found.extend(large.map(|circle| format!("{name}: {} files: {circle:?}", circle.len())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a file says of its types and functions.
#[derive(Default)]
struct Shapes {
    /// Structs, with how many of their fields are booleans and how many there are.
    structs: Vec<(String, usize, usize)>,
    /// Functions, with how many lines they have.
    functions: Vec<(String, usize)>,
    /// The types and traits that other files of the crate can name.
    types: Vec<String>,
}

impl Shapes {
    fn of(file: &File) -> Self {
        let mut shapes = Self::default();
        shapes.visit_file(&file.syntax);
        shapes
    }

    fn see_type(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        let is_public = match visibility {
            syn::Visibility::Public(_) => true,
            syn::Visibility::Restricted(within) => within.path.is_ident("crate"),
            syn::Visibility::Inherited => false,
        };
        if is_public {
            self.types.push(name.to_string());
        }
    }

    fn see_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let begin = signature.fn_token.span.start().line;
        let lines = block.brace_token.span.close().end().line + 1 - begin;
        self.functions.push((signature.ident.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let booleans = item.fields.iter().filter(|field| is_boolean(&field.ty)).count();
        self.structs.push((item.ident.to_string(), booleans, item.fields.len()));
        self.see_type(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.see_type(&item.vis, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.see_type(&item.vis, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.see_type(&item.vis, &item.ident);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_for_tests(&item.attrs) {
            self.see_function(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.see_function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// `bool`, or a cell of one.
fn is_boolean(kind: &syn::Type) -> bool {
    let syn::Type::Path(path) = kind else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let of = |arguments: &syn::PathArguments| match arguments {
        syn::PathArguments::AngleBracketed(of) => of.args.iter().any(|it| match it {
            syn::GenericArgument::Type(kind) => is_boolean(kind),
            _ => false,
        }),
        _ => false,
    };
    match &*last.ident.to_string() {
        "bool" | "AtomicBool" => true,
        "Cell" | "RefCell" | "Mutex" | "Rc" | "Arc" => of(&last.arguments),
        _ => false,
    }
}

/// Booleans in one struct.
const BOOLEANS_MAX: usize = 3;

/// Lines of one function.
const LINES_MAX: usize = 80;

/// Fields of what a worker owns.
const FIELDS_MAX: usize = 20;

/// Grouped by what changes together.
const OWNED: &[&str] = &["Client", "Backend", "Worker", "Shared"];

/// What cannot be taken in at a glance.
fn oversized(module: &str, shapes: &Shapes) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, booleans, fields) in &shapes.structs {
        let place = format!("{module}::{name}");
        if *booleans > BOOLEANS_MAX {
            found.push((place.clone(), format!("{booleans} booleans, of at most {BOOLEANS_MAX}")));
        }
        if OWNED.contains(&&**name) && *fields > FIELDS_MAX {
            found.push((place, format!("{fields} fields, of at most {FIELDS_MAX}")));
        }
    }
    for (name, lines) in &shapes.functions {
        if *lines > LINES_MAX {
            found.push((
                format!("{module}::{name}"),
                format!("{lines} lines, of at most {LINES_MAX}"),
            ));
        }
    }
    found
}

#[test]
fn types_and_functions_are_taken_in_at_a_glance() {
    let mut found = Vec::new();
    for name in SHIPPED {
        for file in files(name) {
            let oversized = oversized(&file.module, &Shapes::of(&file));
            found.extend(oversized.iter().map(|(place, why)| format!("{name} {place}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// How many lexers the product's code of a file makes.
fn lexers(file: &syn::File) -> usize {
    struct Finder(usize);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            let mut last = path.segments.iter().rev().map(|it| it.ident.to_string());
            self.0 += usize::from(
                last.next().as_deref() == Some("new") && last.next().as_deref() == Some("Lexer"),
            );
            visit::visit_path(self, path);
        }

        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            if !is_for_tests(&item.attrs) {
                visit::visit_item_mod(self, item);
            }
        }
    }
    let mut finder = Finder(0);
    finder.visit_file(file);
    finder.0
}

#[test]
fn a_text_on_the_road_is_lexed_in_one_place() {
    let places: Vec<_> = ["wire", "engine", "proxy"]
        .into_iter()
        .flat_map(|name| files(name).into_iter().map(move |file| (name, file)))
        .filter(|(_, file)| lexers(&file.syntax) > 0)
        .map(|(name, file)| format!("{name}::{}", file.module))
        .collect();
    assert_eq!(
        places,
        ["wire::text"],
        "`wire::text` keeps the tokens of a text for all its readers"
    );
}

/// Names that several types of a crate have.
fn ambiguous<'a>(shapes: impl Iterator<Item = &'a Shapes>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    shapes.flat_map(|it| &it.types).filter(|name| !seen.insert(&***name)).map(|it| &**it).collect()
}

#[test]
fn a_name_stands_for_one_type_of_a_crate() {
    let mut found = Vec::new();
    for name in SHIPPED {
        let shapes: Vec<_> = files(name).iter().map(Shapes::of).collect();
        found.extend(ambiguous(shapes.iter()).into_iter().map(|it| format!("{name}: {it}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_checks_can_fail() {
    let file = |module: &str, text: &str| File {
        module: module.to_owned(),
        syntax: syn::parse_file(text).expect("it is Rust"),
    };
    let planted = [
        file("admin", "use crate::pool::keys::Key;"),
        file("pool", "mod keys; use crate::admin::Console;"),
        file("pool::keys", "fn key() -> super::open::Key { crate::pool::open::make() }"),
        file("pool::open", "use super::keys::{self, Key};"),
        file("elsewhere", "use crate::pool;"),
    ];
    let imports = imports(&planted);
    let upward = upward(&imports, PROXY);
    assert_eq!(upward.len(), 2, "{upward:?}");
    assert!(upward[0].contains("in no room") && upward[1].contains("pool imports admin"));
    let circles = circles(&imports);
    assert!(circles.iter().any(|it| it.len() == 2 && it.contains("pool::open")), "{circles:?}");

    let long = format!("fn long() {{\n{}}}", "\n".repeat(LINES_MAX));
    let client = (0..=FIELDS_MAX).map(|at| format!("f{at}: u8,")).collect::<String>();
    let text = format!(
        "struct S {{ a: bool, b: Cell<bool>, c: bool, d: AtomicBool }} struct Client {{ {client} }} {long}
        #[cfg(test)] mod tests {{ struct T {{ a: bool, b: bool, c: bool, d: bool }} }}"
    );
    let found = oversized("m", &Shapes::of(&file("m", &text)));
    let places: Vec<_> = found.iter().map(|(place, _)| &**place).collect();
    assert_eq!(places, ["m::S", "m::Client", "m::long"]);

    let text =
        "fn f() { wire::lex::Lexer::new(t); } #[cfg(test)] mod tests { fn g() { Lexer::new(t); } }";
    assert_eq!(lexers(&file("m", text).syntax), 1);

    let files = ["pub struct Twice;", "pub(crate) enum Twice {} trait Once {}", "trait Once {}"];
    let shapes = files.map(|text| Shapes::of(&file("m", text)));
    assert_eq!(ambiguous(shapes.iter()), BTreeSet::from(["Twice"]));
}
