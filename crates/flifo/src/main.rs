fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(args.last().unwrap()).unwrap();
    let plan = proxy::config::interim(&text);
    let address = plan.server.address.clone().unwrap();
    proxy::run(plan, address).unwrap();
}
