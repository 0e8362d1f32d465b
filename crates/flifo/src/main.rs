//! The `flifo` command.

fn main() {
    let path = std::env::args().next_back().expect("flifo run --config FILE");
    let overrides = proxy::config::Overrides::default();
    let plan = match proxy::config::load(Some(path.as_ref()), &overrides) {
        Ok((plan, _)) => plan,
        Err(problems) => {
            for problem in problems {
                eprintln!("{problem}");
            }
            std::process::exit(78);
        }
    };
    let address = plan.server.address.clone().expect("server.address");
    proxy::run(plan, address).expect("runs");
}
